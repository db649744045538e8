"""PyTorch: its matrix product, which is cuBLAS, and broadcasts in chunks for semirings.

Source: torch.mm, torch.addmm; broadcasting for the rest.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from backends.gpu._cuda import device
from backends.gpu.libraries._peer import Peer, broadcast
from harness.problem import Problem

_ADD = {"min": ("amin", "minimum"), "max": ("amax", "maximum")}
_MULTIPLY = {"plus": "add", "times": "mul", "min": "minimum", "max": "maximum"}


class TorchPeer(Peer):
    """PyTorch."""

    name = "gpu-torch"
    step = 92
    idea = "what PyTorch offers: cuBLAS for plus_times, broadcasting for the rest"
    source = "torch.mm; torch.amin of a broadcast"
    project = "PyTorch"
    writes_expressions = True
    package = "torch"

    def declines(self, problem: Problem) -> str | None:
        """Decline integers, and semirings that PyTorch has no reduction for."""
        semiring = problem.semiring
        if problem.dtype.kind != "f":
            return "PyTorch's integers neither saturate nor multiply as matrices on a GPU"
        if semiring.is_ordinary:
            return None
        is_known = semiring.is_named and semiring.add.name in _ADD and semiring.multiply.name in _MULTIPLY
        return None if is_known else "PyTorch has no reduction for it"

    def bind(self, problem: Problem, a: Any, b: Any, out: Any) -> Any:
        """Return the call, or the loop over chunks."""
        import torch

        a, b, out = (torch.as_tensor(x, device="cuda") for x in (a, b, out))
        if not problem.semiring.is_ordinary:
            names = *_ADD[problem.semiring.add.name], _MULTIPLY[problem.semiring.multiply.name]
            compute = broadcast(torch, names, problem, a, b, out)
        elif problem.accumulate:
            compute = functools.partial(out.addmm_, a, b)
        else:
            compute = functools.partial(torch.mm, a, b, out=out)
        return _on_current_stream(torch, compute)


def _on_current_stream(torch: Any, compute: Any) -> Any:
    """Return `compute` on CuPy's current stream, which PyTorch does not know of."""

    def run() -> None:
        pointer = device.cupy().cuda.get_current_stream().ptr
        stream = torch.cuda.stream(torch.cuda.ExternalStream(pointer)) if pointer else contextlib.nullcontext()
        with stream, torch.inference_mode():
            compute()

    return run
