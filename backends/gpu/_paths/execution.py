"""A closure on the current GPU: the same launches for any arrays, and one wait of the host, for what was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.program import Program
from backends.gpu._program.repeat import launch_with_scratch
from harness.interface import Findings

_FINDINGS = np.dtype(np.uint64)
_NONE = 2**64 - 1


class GpuClosure:
    """Close matrices on the GPU on which this is made, in the current stream, by any thread.

    Parameters
    ----------
    program : Program
        That of a `ClosureProgram`.
    dtype : numpy dtype
    keeps : bool
        As there.
    """

    def __init__(self, program: Program, dtype: np.dtype[Any], *, keeps: bool) -> None:
        itemsizes = {"d": dtype.itemsize, "findings": _FINDINGS.itemsize, **({"before": 4} if keeps else {})}
        self._packed, self._keeps = PackedProgram.of(program, itemsizes), keeps

    def __call__(self, best: Any, before: Any) -> Findings:
        """Close `best` in place, with the predecessors if they are kept; both are C-ordered."""
        findings = device.empty((3,), _FINDINGS)
        arrays = [best, findings, *([before] if self._keeps else [])]
        launch_with_scratch(self._packed, [x.data.ptr for x in arrays], device.current_stream())
        nan, betters, cycle = (int(x) for x in findings.get())
        return Findings(-1 if nan == _NONE else nan, bool(betters), -1 if cycle == _NONE else cycle)
