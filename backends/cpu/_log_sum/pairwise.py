"""Lines of a logaddexp_plus product in two passes over k, where a product of exponentials would be inaccurate.

    top[j]   = max_p (a[p] + b[p, j])
    total[j] = sum_p exp(a[p] + b[p, j] - top[j])          result = top + log total

As accurate as the definition: the largest term has weight 1, so only negligible terms underflow. A strip of columns of
B is copied into contiguous rows once, and serves every line of the strip while it stays in L2. The inner loop over j is
vectorised.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._ladder.jit import jit, output, scratch, strided
from backends.cpu._log_sum.exp_log import elementary, exp_scale, inlined
from backends.cpu._log_sum.lines import build_add_line, build_copy_line


@functools.cache
def build_pairwise(dtype: np.dtype[Any]) -> Any:
    """Compile ``out := [out (+)] a (x) b`` on the lines that ``doubt[strip, i]`` names.

    The compiled function gets a, b and doubt (strips, m). Work arrays follow: strips (k n,), totals (m, n), lines
    (blocks of rows, columns of a strip). Then follow out and whether to accumulate.
    """
    raise_tops, add_terms, finish = _build_passes(dtype)
    add_line, copy_line = build_add_line(dtype), build_copy_line(dtype)
    lowest, zero = dtype.type(-np.inf), dtype.type(0)
    matrix, flags = scratch(dtype, 2), types.Array(types.boolean, 2, "C")
    operands, result = (strided(dtype), strided(dtype)), (output(dtype), types.boolean)

    @jit(None, *operands, flags, scratch(dtype, 1), matrix, matrix, *result)
    def pairwise(
        a: np.ndarray,
        b: np.ndarray,
        doubt: np.ndarray,
        strips: np.ndarray,
        totals: np.ndarray,
        lines: np.ndarray,
        out: np.ndarray,
        accumulate: bool,
    ) -> None:
        (m, k), n = a.shape, b.shape[1]
        blocks, width = lines.shape
        rows = (m + blocks - 1) // blocks
        for strip in prange(doubt.shape[0]):
            if doubt[strip].any():
                first, end = strip * width, min((strip + 1) * width, n)
                columns = strips[first * k : end * k].reshape((k, end - first))
                for p in range(k):
                    copy_line(b[p, first:end], columns[p])
        for block in prange(blocks):
            for strip in range(doubt.shape[0]):
                first, end = strip * width, min((strip + 1) * width, n)
                columns = strips[first * k : end * k].reshape((k, end - first))
                for i in range(block * rows, min((block + 1) * rows, m)):
                    if doubt[strip, i]:
                        top, total = lines[block, : end - first], totals[i, first:end]
                        top[:], total[:] = lowest, zero
                        raise_tops(a[i], columns, top)
                        add_terms(a[i], columns, top, total)
                        finish(top, total)
                        add_line(total, top, out[i, first:end], accumulate)

    return pairwise


def _build_passes(dtype: np.dtype[Any]) -> tuple[Any, Any, Any]:
    """Return the two passes over k, for one row of A and one strip of B, and the function that finishes a line."""
    functions = elementary(dtype)
    exp, log, greater = functions.exp, functions.log, functions.greater
    zero, highest = dtype.type(0), dtype.type(np.inf)
    scale, floor = exp_scale(dtype, 0)

    @inlined
    def raise_tops(a: np.ndarray, columns: np.ndarray, top: np.ndarray) -> None:
        for p in range(a.size):
            x, y = a[p], columns[p]
            for j in range(top.size):
                top[j] = greater(top[j], x + y[j])

    @inlined
    def add_terms(a: np.ndarray, columns: np.ndarray, top: np.ndarray, total: np.ndarray) -> None:
        """Add ``exp(term - top)``; where `top` is infinite, e^min(term, 0), which only has to keep NaN."""
        for p in range(a.size):
            x, y = a[p], columns[p]
            for j in range(top.size):
                shift = top[j] if abs(top[j]) < highest else zero
                below = (x + y[j]) - shift
                total[j] += exp(min(below, zero), scale, floor)

    @inlined
    def finish(top: np.ndarray, total: np.ndarray) -> None:
        for j in range(top.size):
            total[j] = top[j] + log(total[j], zero)

    return raise_tops, add_terms, finish
