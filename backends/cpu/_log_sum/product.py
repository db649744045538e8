"""logaddexp_plus as an ordinary product: the running maximum of rows and columns, and a real product of exponentials.

    C[i, j] = log sum_p exp(A[i, p] + B[p, j])
            = log (X Y)[i, j] + u[i] + v[j] - 2 h ln 2,     X[i, p] = 2^h exp(A[i, p] - u[i]),  u[i] = max_p A[i, p]
                                                            Y[p, j] = 2^h exp(B[p, j] - v[j]),  v[j] = max_p B[p, j]

This takes m k + k n exponentials and m n logarithms beside the m n k multiply-adds of ``X Y``. The definition takes
both for every pair. A maximum of -inf is replaced by 0, since -inf - (-inf) would be NaN.

Underflow: an exponential, or a product of two, below the smallest normal number s may be lost from X Y. The factor 2^h,
as large as k terms allow, makes that rarer. Two tests tell which elements can be trusted:

* Narrow row and narrow column: no finite term makes an element of X or Y smaller than sqrt(s). Then no
  product of two falls below s. A sum of 0 means that every term is -inf, so X Y is right whatever it is.
* Otherwise the k losses of at most ``4 s 2^h`` are below 4 roundings if ``X Y >= k s 2^h / eps``.

Elements that pass neither test, or are NaN, are *in doubt* unless u[i] + v[j] determines the result. They are computed
pairwise (`_log_sum.pairwise`), which is always right and slower by an exponential for every pair.

The logarithm of an exponential is rounded. So a row or column with a *single* term, all others being -inf, uses that
term unchanged: A (x) I is A, bit for bit.

Source: the log-sum-exp trick; Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax
functions" (2021), sections 2 and 3, for its rounding errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._ladder.jit import jit, output, scalar, scratch, strided
from backends.cpu._log_sum.exp_log import elementary, inlined
from backends.cpu._log_sum.lines import LINE_BYTES, ROWS, build_add_line
from backends.cpu._log_sum.pairwise import build_pairwise
from backends.cpu._log_sum.scaling import INDEX, Scale, build_scale_columns, build_scale_rows
from harness.operands import aligned_empty
from harness.semiring import Semiring

# product(x, y, out, accumulate): out := x y, or out + x y; all C-ordered, of one dtype.
Product = Callable[[np.ndarray, np.ndarray, np.ndarray, bool], None]


class LogSumExp:
    """The kernel of logaddexp_plus around a kernel of plus_times.

    Parameters
    ----------
    semiring : Semiring
        logaddexp_plus.
    dtype : dtype
        float32 or float64.
    shape : (m, n, k)
        Of the products that it will compute.
    product : callable
        ``product(x, y, out, accumulate)``: out := x y, or out + x y, with x (m, k), y (k, n) and out (m, n) C-ordered
        arrays of `dtype`. It may take the sums in any order, but must not subtract: the error bound of Strassen's
        method holds for the largest element, not for each one.

    Notes
    -----
    Works in scratch that is allocated here: X, Y and X Y, as large as the operands together.
    """

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any], shape: tuple[int, int, int], product: Product) -> None:
        assert (semiring.add.name, semiring.multiply.name) == ("logaddexp", "plus"), semiring.name
        (m, n, k), width = shape, LINE_BYTES // dtype.itemsize
        self._product, self._scale, strips = product, Scale.of(dtype, k), -(-n // width)
        self._scale_rows, self._scale_columns = build_scale_rows(dtype), build_scale_columns(dtype)
        self._logarithms, self._dtype = build_logarithms(dtype), dtype
        self._x, self._y, self._sums = (aligned_empty(size, dtype) for size in ((m, k), (k, n), (m, n)))
        self._rows, self._columns = aligned_empty((2, m), dtype), aligned_empty((2, n), dtype)
        self._row_single, self._column_singles = np.empty(m, np.intp), np.empty((2, n), np.intp)
        self._lines = aligned_empty((-(-m // ROWS), width), dtype)
        self._doubt = aligned_empty((strips, m), np.dtype(np.bool_))

    def __call__(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        """Compute ``out := a (x) b``, or ``out (+) a (x) b``, for m, n, k >= 1 and any strides."""
        x, y, sums, doubt = self._x, self._y, self._sums, self._doubt
        rows, columns = (self._rows, self._row_single), (self._columns, self._column_singles)
        self._scale_rows(a, x, *rows, self._scale)
        self._scale_columns(b, y, *columns, self._scale)
        self._product(x, y, sums, False)
        self._logarithms(a, b, sums, *rows, *columns, self._scale.exponent, self._lines, doubt, out, accumulate)
        if doubt.any():
            # X Y and Y are no longer needed: their memory serves as work arrays of the pairwise pass, which is compiled
            # when it is first needed: it takes a third of the time to compile, and rarely runs
            build_pairwise(self._dtype)(a, b, doubt, y.reshape(-1), sums, self._lines, out, accumulate)


@functools.cache
def build_logarithms(dtype: np.dtype[Any]) -> Any:
    """Compile ``out := [out (+)] log(sums) + u + v - 2 h ln 2``, except for lines with an element in doubt.

    A line is the part of a row of `sums` in one strip of columns; ``doubt[strip, i]`` marks lines in doubt. The other
    arguments are the results of `build_scale_rows` and `build_scale_columns`, and the work array ``lines``, one line
    for each block of rows.
    """
    log, add_line = elementary(dtype).log, build_add_line(dtype)
    lowest, highest, width = dtype.type(-np.inf), dtype.type(np.inf), LINE_BYTES // dtype.itemsize

    @inlined
    def log_line(sums: np.ndarray, u: Any, row_limit: Any, v: np.ndarray, limits: np.ndarray, exponent: Any) -> bool:
        """Compute ``sums := log(sums) + u + v`` and return whether an element is in doubt."""
        in_doubt = False
        for j in range(sums.size):
            total = sums[j]
            is_trusted = (total >= limits[j]) & (total >= row_limit)
            # u + v is NaN if row or column holds a NaN, and -inf if one is all -inf: so is the sum
            in_doubt |= (not is_trusted) & (u + v[j] > lowest)
            sums[j] = (log(total, exponent) + u) + v[j]
        return in_doubt

    @inlined
    def take_single_of_row(line: np.ndarray, u: Any, v: np.ndarray, b: np.ndarray) -> None:
        for j in range(line.size):
            if v[j] < highest:  # else -inf + inf, or NaN, is among the other terms
                line[j] = u + b[j]

    @inlined
    def take_singles_of_columns(sums: np.ndarray, u: Any, v: np.ndarray, a: np.ndarray, singles: np.ndarray) -> None:
        for index in range(singles.shape[1]):
            j = singles[0, index]
            if j < 0 or not u < highest:
                return
            sums[j] = a[singles[1, index]] + v[j]

    @jit(None, *_logarithms_signature(dtype))
    def logarithms(
        a: np.ndarray,
        b: np.ndarray,
        sums: np.ndarray,
        rows: np.ndarray,
        row_single: np.ndarray,
        columns: np.ndarray,
        column_singles: np.ndarray,
        exponent: Any,
        lines: np.ndarray,
        doubt: np.ndarray,
        out: np.ndarray,
        accumulate: bool,
    ) -> None:
        m, n = sums.shape
        for block in prange((m + ROWS - 1) // ROWS):
            for i in range(block * ROWS, min((block + 1) * ROWS, m)):
                u, single = rows[0, i], row_single[i]
                for strip in range((n + width - 1) // width):
                    first, end = strip * width, min((strip + 1) * width, n)
                    line, v = sums[i, first:end], columns[0, first:end]
                    doubt[strip, i] = log_line(line, u, rows[1, i], v, columns[1, first:end], exponent)
                    if not doubt[strip, i]:
                        if single >= 0:
                            take_single_of_row(line, u, v, b[single, first:end])
                        take_singles_of_columns(sums[i], u, columns[0], a[i], column_singles[:, first:end])
                        add_line(line, lines[block, : end - first], out[i, first:end], accumulate)

    return logarithms


def _logarithms_signature(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    matrix, flags = scratch(dtype, 2), types.Array(types.boolean, 2, "C")
    rows, columns = (matrix, scratch(INDEX, 1)), (matrix, scratch(INDEX, 2))
    options = (scalar(dtype), matrix, flags, output(dtype), types.boolean)
    return strided(dtype), strided(dtype), matrix, *rows, *columns, *options
