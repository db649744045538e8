"""Scan of A and B for the condition of the fast form of (x): O(m k + k n) beside O(m n k)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import carray, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import entry_point, jit, scalar
from backends.cpu._vector.intrinsics import as_pointer
from backends.cpu._vector.operators import Guard
from harness.dtypes import is_integer
from harness.operands import collapsed
from harness.semiring import Semiring, highest, lowest


class Look:
    """Scan of A and B that decides whether the fast form of (x) is right for their values.

    Parameters
    ----------
    condition : Guard
    semiring : Semiring
    dtype : numpy dtype
    """

    def __init__(self, condition: Guard, semiring: Semiring, dtype: np.dtype[Any]) -> None:
        self._condition, self._dtype = condition, dtype
        self._look = (build_extremes if condition is Guard.NO_EXTREME else build_has_nan)(dtype)
        values = semiring.zero(dtype), lowest(dtype), highest(dtype)
        self._zero, *self._range = (int(x) for x in values) if is_integer(dtype) else (0, 0, 0)

    def allows(self, range_a: tuple[int, int], range_b: tuple[int, int]) -> bool:
        """Return whether plain sums of integers from these ranges (least, greatest) are right."""
        (low_a, high_a), (low_b, high_b) = range_a, range_b
        low, high = self._range
        absent = self._zero not in (low_a, high_a, low_b, high_b)
        return absent and low_a + low_b >= low and high_a + high_b <= high

    def extremes(self, x: np.ndarray) -> tuple[int, int]:
        """Return the least and the greatest integer of `x`."""
        result = np.empty(2, self._dtype)
        self._look(*_pieces(x), result)
        return int(result[0]), int(result[1])

    def on(self, a: np.ndarray, b: np.ndarray) -> Callable[[], bool] | None:
        """Return ``holds()``: whether the fast form is right for the values that these two have then.

        Both must outlive it. Shapes and strides are looked up once: at n = 257 that takes as long as the scan itself.
        None: matrices of a batch are not evenly apart, and are not looked at.
        """
        result, look = np.empty((2, 2), self._dtype), entry_point(self._look)
        whole_a, whole_b = (x if x.ndim == 2 else _stacked(x) for x in (a, b))
        if whole_a is None or whole_b is None:
            return None
        over_a, over_b = (functools.partial(look, *_pieces(x), result[i]) for i, x in enumerate((whole_a, whole_b)))

        def has_no_nan() -> bool:
            over_a()
            return not result[0, 0]

        def stays_in_range() -> bool:
            over_a()
            over_b()
            return self.allows(*result.tolist())

        return has_no_nan if self._condition is Guard.NO_NAN_IN_A else stays_in_range


def _stacked(x: np.ndarray) -> np.ndarray | None:
    """Return the different matrices of a batch below each other, as a view; None if they are not evenly apart."""
    *batch, rows, _ = x.shape
    strides = x.strides
    sizes = [1 if stride == 0 else size for size, stride in zip(batch, strides, strict=False)]
    if abs(strides[-2]) < abs(strides[-1]):
        x, rows, strides = x.swapaxes(-1, -2), x.shape[-1], (*strides[:-2], strides[-1], strides[-2])
    pieces = collapsed((*sizes, rows), strides[:-1])
    if len(pieces) > 1:
        return None
    size, stride = pieces[0] if pieces else (1, strides[-2])
    return np.lib.stride_tricks.as_strided(x, (size, x.shape[-1]), (stride, strides[-1]), writeable=False)


def _pieces(x: np.ndarray) -> tuple[int, int, int, int, int]:
    """Return address, rows, columns and strides in bytes, of rows as long as possible."""
    if x.shape[1] == 1 or (x.shape[0] > 1 and abs(x.strides[0]) < abs(x.strides[1])):  # a stride along 1 says nothing
        x = x.T
    (rows, columns), (row_stride, column_stride) = x.shape, x.strides
    if row_stride == columns * column_stride:  # one piece: no reduction at the end of each row
        rows, columns = 1, rows * columns
    return x.__array_interface__["data"][0], rows, columns, row_stride, column_stride


def _over_rows(visit: Any, dtype: np.dtype[Any]) -> Any:
    """Compile ``look(address, rows, columns, row_stride, column_stride, result)``: `visit` on contiguous pieces."""
    itemsize = dtype.itemsize
    visit = numba.njit(visit)

    def look(address: int, rows: int, columns: int, row_stride: int, column_stride: int, result: np.ndarray) -> None:
        pieces, length = (1, columns) if column_stride == itemsize else (columns, 1)
        is_first = True
        for i in range(rows):
            for j in range(pieces):
                start = address + i * row_stride + j * column_stride
                visit(carray(as_pointer(start), (length,), dtype), result, is_first)
                is_first = False

    return jit(None, *[types.intp] * 5, types.Array(scalar(dtype), 1, "C"), parallel=False)(look)


@kernel_builder
def build_extremes(dtype: np.dtype[Any]) -> Any:
    """Compile the look for the least and the greatest element."""

    def visit(piece: np.ndarray, result: np.ndarray, is_first: bool) -> None:
        low = piece[0] if is_first else result[0]
        high = piece[0] if is_first else result[1]
        for j in range(piece.size):
            value = piece[j]
            low = value if value < low else low  # noqa: FURB136 (LLVM takes this for a reduction)
            high = value if value > high else high  # noqa: FURB136
        result[0], result[1] = low, high

    return _over_rows(visit, dtype)


@kernel_builder
def build_has_nan(dtype: np.dtype[Any]) -> Any:
    """Compile the look for a NaN."""
    word = np.dtype(f"i{dtype.itemsize}").type  # as wide as an element, so that vectors of both have equal lanes

    def visit(piece: np.ndarray, result: np.ndarray, is_first: bool) -> None:
        seen = word(0)
        for j in range(piece.size):
            value = piece[j]
            seen |= word(value != value)  # noqa: PLR0124 x != x: NaN
        before = False if is_first else result[0] != 0
        result[0], result[1] = 1 if seen != 0 or before else 0, 0

    return _over_rows(visit, dtype)
