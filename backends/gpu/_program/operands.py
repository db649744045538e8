"""Operands in the memory of a GPU: uploaded or used in place, by rows or by columns, and the dimensions of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._program.program import Matrix, Place
from harness.operands import Operands, collapsed, distinct

_ALIGNMENT = 16  # bytes of the widest load


class GpuOperands:
    """The operands of a product in the memory of the current GPU, row by row, or by columns where a rung takes that.

    Host arrays are uploaded; arrays of CuPy are used in place if their rows are contiguous, else copied.

    Parameters
    ----------
    operands : Operands
    argk : (..., m, n) array of int32, optional
        Without gaps, on the host or on the GPU: where a product that selects writes which k each element comes from.
    takes_columns : set of str
        Names of the buffers that stay as they lie if their columns are contiguous, and not their rows.
    is_triangle : bool
        Whether an output that is copied back keeps what it holds above its diagonal.

    Attributes
    ----------
    by_columns : dict
        By the same names: whether a buffer lies by columns.
    buffers : dict
        ``{"a": ..., "b": ..., "c": ..., "out": ..., "which": ...}``, CuPy arrays; no c without a C, "which" is argk.
    is_uploaded : bool
        Whether there are host arrays among the inputs.
    are_on_device, are_in_place : bool
        Whether all of them, `out` and `argk` are arrays of CuPy; and whether none of those is copied.
    """

    def __init__(
        self,
        operands: Operands,
        argk: Any = None,
        *,
        takes_columns: frozenset[str] = frozenset(),
        is_triangle: bool = False,
    ) -> None:
        inputs = {"a": operands.a, "b": operands.b, "c": operands.c}
        self.takes_columns, self.is_triangle = takes_columns, is_triangle
        self.sizes = operands.out.shape[:-2]
        self._inputs = {name: _spread(x, self.sizes) for name, x in inputs.items() if x is not None}
        self.by_columns, self.buffers = dict[str, bool](), dict[str, Any]()
        self.is_uploaded, are_in_place = False, True
        for name, x in self._inputs.items():
            stays, is_there = self._stays(name, x), is_on_device(x)
            self.buffers[name] = x if stays and is_there else self._copied(name, x)
            self.is_uploaded |= not is_there
            are_in_place &= stays and is_there
        self._out = operands.out
        is_there, stays = is_on_device(self._out), self._stays("out", self._out)
        if not is_there:  # it is copied back from rows
            self.by_columns["out"] = False
        self.buffers["out"] = self._out if stays and is_there else device.empty(self._out.shape, self._out.dtype)
        if is_triangle and not is_there:  # all of it comes back, also what the product leaves as it is
            self.buffers["out"][...] = device.upload(self._out)
        is_copied = is_there and not stays
        self._below = device.cupy().tri(self._out.shape[-2], dtype=np.bool_) if is_copied and is_triangle else None
        self._argk = argk
        if argk is not None:
            self.by_columns["which"] = False
            self.buffers["which"] = argk if is_on_device(argk) else device.empty(argk.shape, argk.dtype)
        self.are_on_device = not self.is_uploaded and is_there and (argk is None or is_on_device(argk))
        self.are_in_place = stays and is_there and are_in_place

    @property
    def itemsizes(self) -> dict[str, int]:
        """Bytes of an element of each buffer."""
        return {name: x.itemsize for name, x in self.buffers.items()}

    def others(self) -> Callable[[Sequence[Any]], GpuOperands]:
        """Return a function that places other arrays of the same layouts, in the order of `buffers`."""
        names = tuple(self.buffers)
        options: dict[str, Any] = {"takes_columns": self.takes_columns, "is_triangle": self.is_triangle}

        def place(arrays: Sequence[Any]) -> GpuOperands:
            given = dict(zip(names, arrays, strict=True))
            operands = Operands(given["a"], given["b"], given.get("c"), given["out"])
            return GpuOperands(operands, given.get("which"), **options)

        return place

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
        by_columns, (*others, across, along), itemsize = self.by_columns[name], x.strides, x.itemsize
        lines, line = x.shape[-2:]
        if by_columns:
            lines, line, across = line, lines, along
        ld = across // itemsize if lines > 1 else max(line, 1)
        is_aligned = x.data.ptr % _ALIGNMENT == 0 and not (others and any(step % _ALIGNMENT for step in others))
        return Matrix(Place(name), ld, _ALIGNMENT if is_aligned else itemsize, by_columns, following, line)

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

    def _stays(self, name: str, x: Any) -> bool:
        """Return whether `x` lies in a memory order that kernels take; note whether that is by columns."""
        (rows, columns), (across, along), itemsize = x.shape[-2:], x.strides[-2:], x.itemsize
        has_rows = (columns <= 1 or along == itemsize) and (rows <= 1 or across >= columns * itemsize)
        has_columns = (rows <= 1 or across == itemsize) and (columns <= 1 or along >= rows * itemsize)
        self.by_columns[name] = by_columns = not has_rows and has_columns and name in self.takes_columns
        return has_rows or by_columns

    def _copied(self, name: str, x: Any) -> Any:
        """Return a copy of `x` on the GPU in that order; of a batch every different matrix is copied once."""
        turned = _transposed if self.by_columns[name] else lambda x: x
        copied = device.cupy().ascontiguousarray if is_on_device(x) else device.upload
        return turned(_spread(copied(distinct(turned(x))), self.sizes))

    def result(self) -> Any:
        """Return D: as a host array, or as an array of CuPy if `out` is one. An `argk` on the host is copied to."""
        if self._argk is not None and self._argk is not self.buffers["which"]:
            self._argk[...] = self.buffers["which"].get()
        produced = self.buffers["out"]
        if not is_on_device(self._out):
            return produced.get()
        if self._below is not None:
            device.cupy().copyto(self._out, produced, where=self._below)
        elif produced is not self._out:
            self._out[...] = produced
        return self._out


def is_on_device(x: Any) -> bool:
    """Return whether `x` is an array on a GPU."""
    return hasattr(type(x), "__cuda_array_interface__")  # of the array itself it would be made, which takes time


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
