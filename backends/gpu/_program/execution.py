"""A program on a GPU by CuPy: operands uploaded and kernels loaded beforehand, then launches one after the other.

`GpuExecution` computes with the arrays that it was prepared for, `GpuRepeat` with any others of the same layouts.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.queue import CudaQueue, current_queue
from backends.gpu._program.operands import GpuOperands
from backends.gpu._program.packed import PackedProgram, launch_all
from backends.gpu._program.program import Program
from backends.gpu._program.repeat import GpuRepeat
from harness.interface import Execution, Repeat


class GpuExecution(Execution):
    """A product by a program.

    Parameters
    ----------
    program : Program or PackedProgram
    operands : GpuOperands
    shifts : list of tuples of int, optional
        The program computes some products of a batch, and is launched once for each of these: bytes that the buffers
        begin further on. None: it computes all.
    of_self : Program, optional
        Takes the place of `program` where A and B begin at one address: B, so laid out, then is A transposed.
    """

    def __init__(
        self,
        program: Program | PackedProgram,
        operands: GpuOperands,
        shifts: list[tuple[int, ...]] | None = None,
        of_self: Program | None = None,
    ) -> None:
        self._operands, buffers = operands, operands.buffers
        self._shifts = shifts if shifts is not None and len(shifts) != 1 else None
        self._repeat = GpuRepeat(program, operands, self._shifts, of_self)
        self._addresses = [x.data.ptr for x in buffers.values()]
        self._packed = self._repeat.packed_for(self._addresses)
        if operands.is_uploaded:  # else the current stream keeps the order without waiting
            device.synchronize()

    @property
    def queue(self) -> CudaQueue:
        """Where `run` launches, as the harness times it."""
        return current_queue()

    @functools.cached_property
    def _scratch(self) -> list[int]:
        """The address of the scratch, if there is one, which is the execution's own."""
        packed = self._packed
        if not packed.numbers.scratch_bytes:
            return []
        self._memory = device.empty((packed.numbers.scratch_bytes,), np.dtype(np.uint8))
        if packed.numbers.zeroed_bytes:
            self._memory.fill(0)
        return [self._memory.data.ptr]

    @property
    def extra_bytes(self) -> int:
        """Bytes of GPU memory beside the operands and the result."""
        return self._packed.numbers.scratch_bytes

    def upload(self) -> None:
        """Read the operands anew: their values have changed on the host."""
        self._operands.upload()
        device.synchronize()

    def run(self) -> None:
        """Launch every step on the current stream."""
        launch_all(self._packed, [*self._addresses, *self._scratch], device.current_stream(), self._shifts)

    def wait(self) -> None:
        """Return when the current stream has done all of it."""
        device.synchronize()

    def result(self) -> Any:
        """Return D."""
        return self._operands.result()

    def repeat(self) -> Repeat | None:
        """Return the product of other arrays of the GPU; None where these are not all there."""
        if not self._operands.are_on_device:
            return None
        return self._repeat
