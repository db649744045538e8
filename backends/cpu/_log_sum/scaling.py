"""Rows of A and columns of B, each scaled by its maximum, as exponentials: the factors of a logaddexp_plus product.

    x[i, p] = 2^h exp(a[i, p] - u[i]),  u[i] = max_p a[i, p]        y[p, j] = 2^h exp(b[p, j] - v[j]),  v[j] likewise

A maximum of -inf is replaced by 0, since -inf - (-inf) would be NaN; a NaN comes through. The least finite term of each
line is kept too: it tells which sums of products can be trusted (see `_log_sum.product`). Where it equals the maximum,
the line may have a single term.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numba import prange, types

from backends.cpu._ladder.jit import jit, scalar, scratch, strided
from backends.cpu._log_sum.exp_log import elementary, exp_scale, inlined
from backends.cpu._log_sum.lines import LINE_BYTES, ROWS, build_copy_lines

INDEX = np.dtype(np.intp)


class Scale(NamedTuple):
    """Scale of the exponentials of one product, and thresholds of its tests; all of the product's dtype.

    Attributes
    ----------
    scale, floor : float
        Of `_exp_log.exp_scale` for 2^h.
    exponent : float
        2 h.
    narrow : float
        Least ``A[i, p] - u[i]`` of a narrow row.
    limit : float
        Least trusted element of X Y where a row or a column is not narrow.
    """

    scale: Any
    floor: Any
    exponent: Any
    narrow: Any
    limit: Any

    @classmethod
    def of(cls, dtype: np.dtype[Any], k: int) -> Scale:
        """Return the largest scale with which k products cannot overflow."""
        info = np.finfo(dtype)
        h = (int(info.maxexp) - 2 - max(k - 1, 0).bit_length()) // 2
        scale, floor = exp_scale(dtype, h)
        narrow = (int(info.minexp) // 2 + 1 - h) * math.log(2.0)
        limit = max(k, 1) * math.ldexp(float(info.smallest_normal), h) / float(info.eps)
        return cls(scale, floor, *(dtype.type(value) for value in (2 * h, narrow, limit)))


@inlined
def _single(terms: np.ndarray) -> int:
    """Return the index of the only term that is not -inf, or -1 if there are more."""
    position = -1
    for p in range(terms.size):
        if terms[p] > -np.inf:
            if position >= 0:
                return -1
            position = p
    return position


def _scale_type(dtype: np.dtype[Any]) -> Any:
    return types.NamedUniTuple(scalar(dtype), len(Scale._fields), Scale)


@functools.cache
def build_scale_rows(dtype: np.dtype[Any]) -> Any:
    """Compile ``x := 2^h exp(a - u)`` and, for each row, u, the limit of its sums, its single.

    The compiled function gets a (m, k), x (m, k), rows (2, m), single (m,) and the Scale. It writes u and the limits to
    `rows`, and the index of a row's single term, or -1, to `single`.
    """
    functions, copy_lines = elementary(dtype), build_copy_lines(dtype)
    exp, maximum, smaller = functions.exp, functions.maximum, functions.smaller
    zero, lowest, highest = dtype.type(0), dtype.type(-np.inf), dtype.type(np.inf)

    @inlined
    def scale_row(x: np.ndarray, scale: Scale) -> Any:
        top, least = lowest, highest
        for p in range(x.size):
            top = maximum(top, x[p])
            least = smaller(least, x[p] if x[p] > lowest else highest)
        single = _single(x) if least == top else -1
        shift = zero if top == lowest else top
        for p in range(x.size):
            x[p] = exp(x[p] - shift, scale.scale, scale.floor)
        return top, zero if least - shift >= scale.narrow else scale.limit, single

    @jit(None, strided(dtype), scratch(dtype, 2), scratch(dtype, 2), scratch(INDEX, 1), _scale_type(dtype))
    def scale_rows(a: np.ndarray, x: np.ndarray, rows: np.ndarray, single: np.ndarray, scale: Scale) -> None:
        m = a.shape[0]
        for block in prange((m + ROWS - 1) // ROWS):
            first, end = block * ROWS, min((block + 1) * ROWS, m)
            copy_lines(a[first:end], x[first:end])
            for i in range(first, end):
                rows[0, i], rows[1, i], single[i] = scale_row(x[i], scale)

    return scale_rows


@functools.cache
def build_scale_columns(dtype: np.dtype[Any]) -> Any:
    """Compile ``y := 2^h exp(b - v)`` and, for each column, v, the limit of its sums, its single.

    The compiled function gets b (k, n), y (k, n), columns (2, n) for v and the limits, singles (2, n), and the Scale.
    For each strip of columns, `singles` lists those with a single term and the index of that term; -1 ends the list.
    """
    functions, copy_lines = elementary(dtype), build_copy_lines(dtype)
    exp, maximum, smaller = functions.exp, functions.maximum, functions.smaller
    zero, lowest, highest = dtype.type(0), dtype.type(-np.inf), dtype.type(np.inf)
    width = LINE_BYTES // dtype.itemsize

    @inlined
    def extend(top: np.ndarray, least: np.ndarray, y: np.ndarray) -> None:
        for j in range(y.size):
            top[j] = maximum(top[j], y[j])
            least[j] = smaller(least[j], y[j] if y[j] > lowest else highest)

    @inlined
    def scale_line(y: np.ndarray, top: np.ndarray, scale: Scale) -> None:
        for j in range(y.size):
            y[j] = exp(y[j] - (zero if top[j] == lowest else top[j]), scale.scale, scale.floor)

    @jit(None, strided(dtype), scratch(dtype, 2), scratch(dtype, 2), scratch(INDEX, 2), _scale_type(dtype))
    def scale_columns(b: np.ndarray, y: np.ndarray, columns: np.ndarray, singles: np.ndarray, scale: Scale) -> None:
        k, n = b.shape
        for strip in prange((n + width - 1) // width):
            first, end = strip * width, min((strip + 1) * width, n)
            top, least = columns[0, first:end], columns[1, first:end]
            top[:], least[:] = lowest, highest
            for begin in range(0, k, ROWS):
                copy_lines(b[begin : begin + ROWS, first:end], y[begin : begin + ROWS, first:end])
                for p in range(begin, min(begin + ROWS, k)):
                    extend(top, least, y[p, first:end])
            for p in range(k):
                scale_line(y[p, first:end], top, scale)
            singles[0, first:end] = -1
            listed = first
            for j in range(end - first):
                single = _single(b[:, first + j]) if least[j] == top[j] else -1
                if single >= 0:
                    singles[0, listed], singles[1, listed] = first + j, single
                    listed += 1
                shift = zero if top[j] == lowest else top[j]
                least[j] = zero if least[j] - shift >= scale.narrow else scale.limit

    return scale_columns
