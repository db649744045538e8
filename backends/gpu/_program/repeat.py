"""A program launched again with other arrays of the same layouts."""

from __future__ import annotations

import functools
from typing import Any

from backends.gpu._cuda import device
from backends.gpu._program.operands import GpuOperands
from backends.gpu._program.packed import PackedProgram, launch_all
from backends.gpu._program.program import Program
from harness.errors import ProblemError


class GpuRepeat:
    """A product of other arrays of the same layouts, on the current GPU and in its current stream, by any thread.

    Scratch is taken from CuPy's pool in the order of the stream, so nothing is shared between streams or threads, and
    nothing kept. A call that is captured takes it from the graph itself, for as long as the graph exists.

    Parameters
    ----------
    program : Program or PackedProgram
    operands : GpuOperands
        Of the product that is computed first.
    shifts : list of tuples of int or None
        As of `GpuExecution`.
    of_self : Program or None
        As there. Each of both is packed by the first call that takes it.
    """

    def __init__(
        self,
        program: Program | PackedProgram,
        operands: GpuOperands,
        shifts: list[tuple[int, ...]] | None,
        of_self: Program | None,
    ) -> None:
        self._programs: list[Program | PackedProgram] = [program] if of_self is None else [program, of_self]
        # the one that arrays at any addresses have
        self._only = program if isinstance(program, PackedProgram) and of_self is None else None
        self._shifts, self._itemsizes = shifts, operands.itemsizes
        self._place = None if operands.are_in_place else operands.others()
        self.takes_addresses = operands.are_in_place

    def __call__(self, *arrays: Any) -> None:
        """Compute; `arrays` are the operands, out and what else is written, in the order of `GpuOperands.buffers`."""
        if self._place is None:
            self.at([x.data.ptr for x in arrays])
            return
        self._refuse_capture(
            device.current_stream(),
            "rows of an operand or of out are not contiguous",
            "arrays that are used in place, since a graph keeps no copies",
            "cupy.ascontiguousarray of each, before the capture",
        )
        placed = self._place(arrays)
        self.at([x.data.ptr for x in placed.buffers.values()])
        placed.result()

    def at(self, addresses: list[int], stream: int | None = None) -> None:
        """Compute with arrays that begin there, in the same order; `stream` is the handle of the current one."""
        handle = device.current_stream(stream)
        packed = self._only or self.packed_for(addresses, handle)
        if self._shifts is None and not packed.numbers.scratch_bytes:
            packed.packing.launch(packed.numbers, addresses, handle)
        else:
            launch_with_scratch(packed, addresses, handle, self._shifts)

    def packed_for(self, addresses: list[int], stream: int | None = None) -> PackedProgram:
        """Return the program for arrays at these addresses; of a captured `stream` one that has been packed."""
        number = int(len(self._programs) > 1 and addresses[0] == addresses[1])
        program = self._programs[number]
        if isinstance(program, PackedProgram):
            return program
        if stream is not None:
            self._refuse_capture(
                stream,
                "a matrix by its own transpose has another program",
                "such a product that has been computed before",
                "call it once before the capture begins, with arrays of which b is a.T, or is not, as here",
            )
        packed = self._programs[number] = PackedProgram.of(program, self._itemsizes)
        if len(self._programs) == 1:
            self._only = packed
        return packed

    def _refuse_capture(self, stream: int, what: str, expected: str, fix: str) -> None:
        if device.is_capturing(stream):
            raise ProblemError(f"gemm: {what}, and a CUDA graph captures this call", expected=expected, fix=fix)


def launch_with_scratch(
    packed: PackedProgram, addresses: list[int], stream: int, shifts: list[tuple[int, ...]] | None = None
) -> None:
    """Launch with a new block of scratch, if any; it belongs to the stream, or to the graph that captures the call."""
    if not packed.numbers.scratch_bytes:
        launch_all(packed, addresses, stream, shifts)
        return
    cuda, size = device.cupy().cuda, packed.numbers.scratch_bytes
    is_captured = device.is_capturing(stream)
    if is_captured:
        address = cuda.runtime.mallocAsync(size, stream)  # a node of the graph, which thus owns the memory
    else:
        block = device.allocating(functools.partial(cuda.alloc, size), size)  # goes back to the pool at the end
        address = block.ptr
    if packed.numbers.zeroed_bytes:
        cuda.runtime.memsetAsync(address, 0, packed.numbers.zeroed_bytes, stream)
    launch_all(packed, [*addresses, address], stream, shifts)
    if is_captured:
        cuda.runtime.freeAsync(address, stream)
