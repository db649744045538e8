"""Copies of lines between matrices of any strides and the contiguous memory that SIMD works on.

A line is a row, or the part of one that lies in one strip of columns.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from backends.cpu._log_sum.exp_log import elementary, exp_scale, inlined

# Rows that one thread takes at a time; bytes of one row of a strip of columns. Eight cache lines amortise the loop
# around them, and k rows of a strip stay in L2.
ROWS, LINE_BYTES = 8, 512


@functools.cache
def build_copy_line(dtype: np.dtype[Any]) -> Any:
    """Return ``copy_line(source, target)``, for one line of any strides."""
    size = dtype.itemsize

    @inlined
    def copy_line(source: np.ndarray, target: np.ndarray) -> None:
        # The same loop twice: LLVM vectorises it only where it knows both strides
        if (source.strides[0] == size) & (target.strides[0] == size):
            for j in range(target.size):
                target[j] = source[j]
        else:
            for j in range(target.size):
                target[j] = source[j]

    return copy_line


@functools.cache
def build_copy_lines(dtype: np.dtype[Any]) -> Any:
    """Return ``copy_lines(source, target)``, for a few lines, in the order in which `source` lies in memory."""
    copy_line = build_copy_line(dtype)

    @inlined
    def copy_lines(source: np.ndarray, target: np.ndarray) -> None:
        if abs(source.strides[1]) <= abs(source.strides[0]):
            for i in range(source.shape[0]):
                copy_line(source[i], target[i])
        else:
            for j in range(source.shape[1]):
                for i in range(source.shape[0]):
                    target[i, j] = source[i, j]

    return copy_lines


@functools.cache
def build_add_line(dtype: np.dtype[Any]) -> Any:
    """Return ``add_line(line, work, out, accumulate)``: out := [out (+)] line, (+) being logaddexp.

    `line` and `work` are contiguous and are written to; `out` is a line of any stride.
    """
    functions, copy_line = elementary(dtype), build_copy_line(dtype)
    exp, log, maximum = functions.exp, functions.log, functions.maximum
    zero, one = dtype.type(0), dtype.type(1)
    scale, floor = exp_scale(dtype, 0)

    @inlined
    def logaddexp(line: np.ndarray, work: np.ndarray) -> None:
        for j in range(line.size):
            x, y = line[j], work[j]
            ratio = exp(zero if x == y else -abs(x - y), scale, floor)  # equal operands may be infinite
            total = one + ratio
            lost = ratio - (total - one)  # rounding error of the addition; the whole ratio, if it is small
            line[j] = maximum(x, y) + (log(total, zero) + lost / total)

    @inlined
    def add_line(line: np.ndarray, work: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        if accumulate:
            copy_line(out, work)
            logaddexp(line, work)
        copy_line(line, out)

    return add_line
