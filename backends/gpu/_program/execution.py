"""A program on a GPU by CuPy: operands uploaded and kernels loaded beforehand, then launches one after the other.

`GpuExecution` computes with the arrays that it was prepared for, `GpuRepeat` with any others of the same layouts.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.queue import CudaQueue, current_queue
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.program import Matrix, Place, Program
from harness.errors import ProblemError
from harness.interface import Execution, Repeat
from harness.operands import Operands, collapsed, distinct

_ALIGNMENT = 16  # bytes of the widest load


class GpuOperands:
    """The operands of a product in the memory of the current GPU, row by row, or by columns where a rung takes that.

    Host arrays are uploaded; arrays of CuPy are used in place if their rows are contiguous, else copied.

    Parameters
    ----------
    operands : Operands
    takes_columns : set of str
        Names of the buffers that stay as they lie if their columns are contiguous, and not their rows.
    is_triangle : bool
        Whether an output that is copied back keeps what it holds above its diagonal.

    Attributes
    ----------
    buffers : dict
        ``{"a": ..., "b": ..., "c": ..., "out": ...}``, CuPy arrays; no c without a C.
    is_uploaded : bool
        Whether there are host arrays among the inputs.
    are_on_device, are_in_place : bool
        Whether all of them, and `out`, are arrays of CuPy; and whether none of those is copied.
    """

    def __init__(
        self, operands: Operands, *, takes_columns: frozenset[str] = frozenset(), is_triangle: bool = False
    ) -> None:
        inputs = {"a": operands.a, "b": operands.b, "c": operands.c}
        self.takes_columns, self.is_triangle = takes_columns, is_triangle
        self.sizes = operands.out.shape[:-2]
        self._inputs = {name: _spread(x, self.sizes) for name, x in inputs.items() if x is not None}
        self.buffers = {name: self._placed(name, x) for name, x in self._inputs.items()}
        self.is_uploaded = not all(map(is_on_device, self._inputs.values()))
        self._out = operands.out
        stays = is_on_device(self._out) and (_has_contiguous_rows(self._out) or self._is_by_columns("out", self._out))
        self.buffers["out"] = self._out if stays else device.empty(self._out.shape, self._out.dtype)
        is_copied = is_on_device(self._out) and not stays
        self._below = device.cupy().tri(self._out.shape[-2], dtype=np.bool_) if is_copied and is_triangle else None
        self.are_on_device = not self.is_uploaded and is_on_device(self._out)
        self.are_in_place = stays and all(self.buffers[name] is x for name, x in self._inputs.items())

    @classmethod
    def of(cls, names: Sequence[str], arrays: Sequence[Any], **options: Any) -> GpuOperands:
        """Return the operands whose `buffers` have these names; `arrays` are in their order."""
        given = dict(zip(names, arrays, strict=True))
        return cls(Operands(given["a"], given["b"], given.get("c"), given["out"]), **options)

    def upload(self) -> None:
        """Copy the host arrays anew after their values changed, including `out` with its poison."""
        for name, x in {**self._inputs, "out": self._out}.items():
            if not is_on_device(x):
                distinct(self.buffers[name])[...] = device.upload(distinct(x))

    def matrix(self, name: str, following: tuple[int, int] = (0, 0)) -> Matrix:
        """Return the matrix in buffer `name`: its beginning, and the distance of its rows or columns.

        Of a batch it is the first one, and `following` is its `Matrix.next`.
        """
        x = self.buffers[name]
        if x is self.buffers["out"]:
            name = "out"  # a C that is the output
        by_columns = self._is_by_columns(name, x)
        across, along = (-1, -2) if by_columns else (-2, -1)
        ld = x.strides[across] // x.itemsize if x.shape[across] > 1 else max(x.shape[along], 1)
        is_aligned = x.data.ptr % _ALIGNMENT == 0 and all(step % _ALIGNMENT == 0 for step in x.strides[:-2])
        return Matrix(Place(name), ld, _ALIGNMENT if is_aligned else x.itemsize, by_columns, following)

    def batch(self, at_once: int) -> tuple[tuple[int, ...], dict[str, tuple[int, int]], list[tuple[int, ...]]]:
        """Return the batch in as few dimensions as possible, the longest `at_once` of them apart.

        Returns
        -------
        sizes : tuple of int
            Of the dimensions for one program.
        steps : dict
            By buffer its `Matrix.next` along these.
        shifts : list of tuples of int
            For every place in the other dimensions, how many bytes on each buffer begins.
        """
        dimensions = sorted(collapsed(self.sizes, *(x.strides[:-2] for x in self.buffers.values())))
        others, together = dimensions[: len(dimensions) - at_once], dimensions[len(dimensions) - at_once :]
        if at_once > len(dimensions):
            others, together = [], dimensions
        moves = {
            name: [dimension[1 + i] // x.itemsize for dimension in together]
            for i, (name, x) in enumerate(self.buffers.items())
        }
        steps = {name: (*[0] * (2 - len(each)), *each)[-2:] for name, each in moves.items()}
        shifts = [
            tuple(
                sum(i * step for i, step in zip(index, along, strict=True)) for along in _columns(others, self.buffers)
            )
            for index in np.ndindex(*(size for size, *_ in others))
        ]
        return tuple(size for size, *_ in together), steps, shifts

    def _is_by_columns(self, name: str, x: Any) -> bool:
        is_taken = name in self.takes_columns
        return is_taken and not _has_contiguous_rows(x) and _has_contiguous_rows(_transposed(x))

    def _placed(self, name: str, x: Any) -> Any:
        """Return `x` on the GPU, in the memory order that kernels take; the array itself if it has that order there."""
        if self._is_by_columns(name, x):
            return x if is_on_device(x) else _transposed(_on_device(_transposed(x)))
        return _on_device(x)

    def result(self) -> Any:
        """Return D: as a host array, or as an array of CuPy if `out` is one."""
        produced = self.buffers["out"]
        if not is_on_device(self._out):
            return produced.get()
        if self._below is not None:
            device.cupy().copyto(self._out, produced, where=self._below)
        elif produced is not self._out:
            self._out[...] = produced
        return self._out


class GpuExecution(Execution):
    """A product by a program.

    Parameters
    ----------
    program : Program
    operands : GpuOperands
    shifts : list of tuples of int, optional
        The program computes some products of a batch, and is launched once for each of these: bytes that the buffers
        begin further on. None: it computes all.
    of_self : Program, optional
        Takes the place of `program` where A and B begin at one address: B, so laid out, then is A transposed.
    """

    def __init__(
        self,
        program: Program,
        operands: GpuOperands,
        shifts: list[tuple[int, ...]] | None = None,
        of_self: Program | None = None,
    ) -> None:
        self._operands, buffers = operands, operands.buffers
        self._shifts = shifts if shifts is not None and len(shifts) != 1 else None
        self._programs, self._itemsizes = (program, of_self), {name: x.itemsize for name, x in buffers.items()}
        is_of_self = of_self is not None and _begin_together(buffers["a"], buffers["b"])
        self._packed = PackedProgram(of_self if of_self and is_of_self else program, self._itemsizes)
        self._scratch = device.empty((self._packed.scratch_bytes,), np.dtype(np.uint8))
        if self._packed.zeroed_bytes:
            self._scratch.fill(0)
        self._addresses = [x.data.ptr for x in (*buffers.values(), self._scratch)]
        if operands.is_uploaded:  # else the current stream keeps the order without waiting
            device.synchronize()

    @property
    def queue(self) -> CudaQueue:
        """Where `run` launches, as the harness times it."""
        return current_queue()

    @property
    def extra_bytes(self) -> int:
        """Bytes of GPU memory beside the operands and the result."""
        return self._packed.scratch_bytes

    def upload(self) -> None:
        """Read the operands anew: their values have changed on the host."""
        self._operands.upload()
        device.synchronize()

    def run(self) -> None:
        """Launch every step on the current stream."""
        launch_all(self._packed, self._addresses, device.current_stream(), self._shifts)

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
        repeats = [
            GpuRepeat(x, self._itemsizes, self._operands, self._shifts, self._packed) for x in self._programs if x
        ]
        return SelfRepeat(*repeats) if len(repeats) > 1 else repeats[0]


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
            if packed.scratch_bytes:
                _launch_with_scratch(packed, addresses, stream, self._shifts)
            else:
                launch_all(packed, addresses, stream, self._shifts)
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
        (self._of_self if _begin_together(arrays[0], arrays[1]) else self._of_others)(*arrays)


def _begin_together(x: Any, y: Any) -> bool:
    return bool(x.data.ptr == y.data.ptr)


def launch_all(packed: PackedProgram, addresses: list[int], stream: int, shifts: list[tuple[int, ...]] | None) -> None:
    """Launch a program, or for each of `shifts` with buffers that begin further on; scratch, the last, stays."""
    if shifts is None:
        packed.launch(addresses, stream)
        return
    for shift in shifts:
        packed.launch([*map(operator.add, addresses, shift), *addresses[len(shift) :]], stream)


def _launch_with_scratch(
    packed: PackedProgram, addresses: list[int], stream: int, shifts: list[tuple[int, ...]] | None
) -> None:
    """Launch with a new block of scratch, which belongs to the stream or to the graph that captures the call."""
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


def is_on_device(x: Any) -> bool:
    """Return whether `x` is an array on a GPU."""
    return hasattr(type(x), "__cuda_array_interface__")  # of the array itself it would be made, which takes time


def _has_contiguous_rows(x: Any) -> bool:
    rows, columns = x.shape[-2:]
    is_unit = columns <= 1 or x.strides[-1] == x.itemsize
    return bool(is_unit and (rows <= 1 or x.strides[-2] >= columns * x.itemsize))


def _on_device(x: Any) -> Any:
    """Return `x` on the GPU with contiguous rows; of a batch every different matrix is copied once."""
    if is_on_device(x) and _has_contiguous_rows(x):
        return x
    copied = device.cupy().ascontiguousarray if is_on_device(x) else device.upload
    return _spread(copied(distinct(x)), x.shape[:-2])


def _spread(x: Any, batch: tuple[int, ...]) -> Any:
    """Return `x` broadcast to a batch."""
    if x.shape[:-2] == batch:
        return x
    module = device.cupy() if is_on_device(x) else np
    return module.broadcast_to(x, (*batch, *x.shape[-2:]))


def _transposed(x: Any) -> Any:
    """Return the transposed matrices of a batch."""
    return x.T if x.ndim == 2 else x.swapaxes(-1, -2)


def _columns(dimensions: list[tuple[int, ...]], buffers: dict[str, Any]) -> list[list[int]]:
    """Return for each buffer its strides along the dimensions."""
    return [[dimension[1 + i] for dimension in dimensions] for i in range(len(buffers))]
