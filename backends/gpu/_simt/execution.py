"""A program on a GPU by CuPy: operands uploaded and kernels loaded beforehand, then launches one after the other.

`GpuExecution` computes with the arrays that it was prepared for, `GpuRepeat` with any others of the same layouts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.queue import CudaQueue, current_queue
from backends.gpu._simt.packed import PackedProgram
from backends.gpu._simt.program import Matrix, Place, Program
from harness.errors import ProblemError
from harness.interface import Execution, Repeat
from harness.operands import Operands


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
        self._inputs = {name: x for name, x in inputs.items() if x is not None}
        self.buffers = {name: self._placed(name, x) for name, x in self._inputs.items()}
        self.is_uploaded = not all(map(is_on_device, self._inputs.values()))
        self._out = operands.out
        stays = is_on_device(self._out) and (_has_contiguous_rows(self._out) or self._is_by_columns("out", self._out))
        self.buffers["out"] = self._out if stays else device.empty(self._out.shape, self._out.dtype)
        is_copied = is_on_device(self._out) and not stays
        self._below = device.cupy().tri(self._out.shape[0], dtype=np.bool_) if is_copied and is_triangle else None
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
                self.buffers[name][...] = device.upload(x)

    def matrix(self, name: str) -> Matrix:
        """Return the matrix in buffer `name`: its beginning, and the distance of its rows or columns."""
        x = self.buffers[name]
        if x is self.buffers["out"]:
            name = "out"  # a C that is the output
        by_columns = self._is_by_columns(name, x)
        across, along = (1, 0) if by_columns else (0, 1)
        ld = x.strides[across] // x.itemsize if x.shape[across] > 1 else max(x.shape[along], 1)
        return Matrix(Place(name), ld, 16 if x.data.ptr % 16 == 0 else x.itemsize, by_columns)

    def _is_by_columns(self, name: str, x: Any) -> bool:
        return name in self.takes_columns and not _has_contiguous_rows(x) and _has_contiguous_rows(x.T)

    def _placed(self, name: str, x: Any) -> Any:
        """Return `x` on the GPU, in the memory order that kernels take; the array itself if it has that order there."""
        if self._is_by_columns(name, x):
            return x if is_on_device(x) else device.upload(x.T).T
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
    """

    def __init__(self, program: Program, operands: GpuOperands) -> None:
        self._operands, buffers = operands, operands.buffers
        self._packed = PackedProgram(program, {name: x.itemsize for name, x in buffers.items()})
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

    def upload(self) -> None:
        """Read the operands anew: their values have changed on the host."""
        self._operands.upload()
        device.synchronize()

    def run(self) -> None:
        """Launch every step on the current stream."""
        self._packed.launch(self._addresses, device.current_stream())

    def wait(self) -> None:
        """Return when the current stream has done all of it."""
        device.synchronize()

    def result(self) -> Any:
        """Return D."""
        return self._operands.result()

    def repeat(self) -> Repeat | None:
        """Return the product of other arrays of the GPU; None where these are not all there."""
        return GpuRepeat(self._packed, self._operands) if self._operands.are_on_device else None


class GpuRepeat:
    """A product of other arrays of the same layouts, on the current GPU and in its current stream, by any thread.

    Scratch is taken from CuPy's pool in the order of the stream, so nothing is shared between streams or threads, and
    nothing kept. A call that is captured takes it from the graph itself, for as long as the graph exists.

    Parameters
    ----------
    packed : PackedProgram
    operands : GpuOperands
        Of the product that has been computed.
    """

    def __init__(self, packed: PackedProgram, operands: GpuOperands) -> None:
        self._program, self._itemsizes, self._has_scratch = packed.program, packed.itemsizes, packed.scratch_bytes > 0
        self._spare = [packed]  # those that no thread uses now
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
        except IndexError:  # several threads compute it at once
            packed = PackedProgram(self._program, self._itemsizes)
        try:
            addresses = [x.data.ptr for x in arrays]
            if self._has_scratch:
                _launch_with_scratch(packed, addresses, stream)
            else:
                packed.launch(addresses, stream)
        finally:
            self._spare.append(packed)
        if placed is not None:
            placed.result()


def _launch_with_scratch(packed: PackedProgram, addresses: list[int], stream: int) -> None:
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
    packed.launch([*addresses, address], stream)
    if is_captured:
        cuda.runtime.freeAsync(address, stream)


def is_on_device(x: Any) -> bool:
    """Return whether `x` is an array on a GPU."""
    return hasattr(type(x), "__cuda_array_interface__")  # of the array itself it would be made, which takes time


def _has_contiguous_rows(x: Any) -> bool:
    rows, columns = x.shape
    is_unit = columns <= 1 or x.strides[1] == x.itemsize
    return bool(is_unit and (rows <= 1 or x.strides[0] >= columns * x.itemsize))


def _on_device(x: Any) -> Any:
    if not is_on_device(x):
        return device.upload(x)
    return x if _has_contiguous_rows(x) else device.cupy().ascontiguousarray(x)
