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
    program : Program
    itemsizes : dict
        As of `PackedProgram`.
    operands : GpuOperands
        Of the product that has been computed.
    shifts : list of tuples of int or None
        As of `GpuExecution`.
    packed : PackedProgram
        What has computed it. If it is another program's, this one is loaded by the first call.
    """

    def __init__(
        self,
        program: Program,
        itemsizes: dict[str, int],
        operands: GpuOperands,
        shifts: list[tuple[int, ...]] | None,
        packed: PackedProgram,
    ) -> None:
        self._program, self._itemsizes, self._shifts = program, itemsizes, shifts
        self._is_loaded = packed.program is program
        self._spare = [packed] if self._is_loaded else []  # those that no thread uses now
        names = tuple(operands.buffers)
        options = {"takes_columns": operands.takes_columns, "is_triangle": operands.is_triangle}
        self._place = None if operands.are_in_place else functools.partial(operands.of, names, **options)
        self.takes_addresses = self._place is None  # it reads nothing of its arrays but `data.ptr`

    def __call__(self, *arrays: Any) -> None:
        """Compute; `arrays` are the operands, out and what else is written, in the order of `GpuOperands.buffers`."""
        placed, stream = None, device.current_stream()
        if self._place is not None:
            if device.is_capturing(stream):
                raise ProblemError(
                    "gemm: rows of an operand or of out are not contiguous, and a CUDA graph captures this call",
                    expected="arrays that are used in place, since a graph keeps no copies",
                    fix="cupy.ascontiguousarray of each, before the capture",
                )
            placed = self._place(arrays)
            arrays = tuple(placed.buffers.values())
        try:
            packed = self._spare.pop()
        except IndexError:  # several threads compute it at once, or none has yet
            packed = self._load(stream)
        try:
            addresses = [x.data.ptr for x in arrays]
            launch_with_scratch(packed, addresses, stream, self._shifts)
        finally:
            self._spare.append(packed)
        if placed is not None:
            placed.result()

    def _load(self, stream: int) -> PackedProgram:
        """Return the program once more, loaded."""
        if not self._is_loaded and device.is_capturing(stream):
            raise ProblemError(
                "gemm: a matrix by its own transpose has another program, and a CUDA graph captures this call",
                expected="such a product that has been computed before",
                fix="call it once before the capture begins, with arrays of which b is a.T, or is not, as here",
            )
        self._is_loaded = True
        return PackedProgram(self._program, self._itemsizes)


class SelfRepeat:
    """Products of arrays of such layouts that B may be A transposed, and then is another program's.

    Parameters
    ----------
    of_others, of_self : GpuRepeat
    """

    def __init__(self, of_others: GpuRepeat, of_self: GpuRepeat) -> None:
        self._of_others, self._of_self = of_others, of_self
        self.takes_addresses = of_self.takes_addresses

    def __call__(self, *arrays: Any) -> None:
        """Compute, as `GpuRepeat`."""
        (self._of_self if begin_together(arrays[0], arrays[1]) else self._of_others)(*arrays)


def begin_together(x: Any, y: Any) -> bool:
    """Return whether two arrays of a GPU begin at one address."""
    return bool(x.data.ptr == y.data.ptr)


def launch_with_scratch(
    packed: PackedProgram, addresses: list[int], stream: int, shifts: list[tuple[int, ...]] | None = None
) -> None:
    """Launch with a new block of scratch, if any; it belongs to the stream, or to the graph that captures the call."""
    if not packed.scratch_bytes:
        launch_all(packed, addresses, stream, shifts)
        return
    cuda, size = device.cupy().cuda, packed.scratch_bytes
    is_captured = device.is_capturing(stream)
    if is_captured:
        address = cuda.runtime.mallocAsync(size, stream)  # a node of the graph, which thus owns the memory
    else:
        block = device.allocating(functools.partial(cuda.alloc, size), size)  # goes back to the pool at the end
        address = block.ptr
    if packed.zeroed_bytes:
        cuda.runtime.memsetAsync(address, 0, packed.zeroed_bytes, stream)
    launch_all(packed, [*addresses, address], stream, shifts)
    if is_captured:
        cuda.runtime.freeAsync(address, stream)
