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
        self.by_columns = {name: self._is_by_columns(name, x) for name, x in self._inputs.items()}
        self.buffers = {name: self._placed(x, by_columns=self.by_columns[name]) for name, x in self._inputs.items()}
        self.is_uploaded = not all(map(is_on_device, self._inputs.values()))
        self._out = operands.out
        self.by_columns["out"] = self._is_by_columns("out", self._out)
        stays = is_on_device(self._out) and (self.by_columns["out"] or _has_contiguous_rows(self._out))
        self.buffers["out"] = self._out if stays else device.empty(self._out.shape, self._out.dtype)
        if is_triangle and not is_on_device(self._out):  # all of it comes back, also what the product leaves as it is
            self.buffers["out"][...] = device.upload(self._out)
        is_copied = is_on_device(self._out) and not stays
        self._below = device.cupy().tri(self._out.shape[-2], dtype=np.bool_) if is_copied and is_triangle else None
        self._argk = argk
        if argk is not None:
            self.by_columns["which"] = False
            self.buffers["which"] = argk if is_on_device(argk) else device.empty(argk.shape, argk.dtype)
        written = [self._out] if argk is None else [self._out, argk]
        self.are_on_device = not self.is_uploaded and all(map(is_on_device, written))
        self.are_in_place = stays and all(self.buffers[name] is x for name, x in self._inputs.items())

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
        by_columns, strides, itemsize = self.by_columns[name], x.strides, x.itemsize
        lines, line = x.shape[-1:-3:-1] if by_columns else x.shape[-2:]
        ld = strides[-1 if by_columns else -2] // itemsize if lines > 1 else max(line, 1)
        is_aligned = x.data.ptr % _ALIGNMENT == 0 and not any(step % _ALIGNMENT for step in strides[:-2])
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

    def _is_by_columns(self, name: str, x: Any) -> bool:
        is_taken = name in self.takes_columns
        return is_taken and not _has_contiguous_rows(x) and _has_contiguous_rows(_transposed(x))

    def _placed(self, x: Any, *, by_columns: bool) -> Any:
        """Return `x` on the GPU, in the memory order that kernels take; the array itself if it has that order there."""
        if by_columns:
            return x if is_on_device(x) else _transposed(_on_device(_transposed(x)))
        return _on_device(x)

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


def _has_contiguous_rows(x: Any) -> bool:
    (rows, columns), (across, along), itemsize = x.shape[-2:], x.strides[-2:], x.itemsize
    return (columns <= 1 or along == itemsize) and (rows <= 1 or across >= columns * itemsize)


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
