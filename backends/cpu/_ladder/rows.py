"""Contiguous rows of an operand: the operand itself if its rows are contiguous, else a copy of each call.

    rows of A              (m, k)   a row of A is a contiguous line along k
    rows of B transposed   (n, k)   a column of B is a contiguous line along k

A copy depends on the values of the operand, so it belongs to the product and is timed with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, scratch, strided
from harness.operands import aligned_empty

# Width of the strip that `transpose` copies at a time: a cache line of 8-byte elements.
_STRIP = 8


def contiguous_rows(like: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return ``rows_of(x)``: `x` itself if its rows are contiguous, else a copy, which the next call overwrites.

    `like` has the shape, dtype and strides of every later argument.
    """
    copy = None if like.flags.c_contiguous else aligned_empty(like.shape, like.dtype)
    transpose = build_transpose(like.dtype)

    def rows_of(x: np.ndarray) -> np.ndarray:
        if x.flags.c_contiguous or copy is None:
            return x
        transpose(x.T, copy)
        return copy

    return rows_of


@kernel_builder
def build_transpose(dtype: np.dtype[Any]) -> Any:
    """Compile ``rows[j, p] := b[p, j]``, strip by strip, so that both sides use whole cache lines."""

    @jit(None, strided(dtype), scratch(dtype, 2))
    def transpose(b: np.ndarray, rows: np.ndarray) -> None:
        k, n = b.shape
        for strip in prange((n + _STRIP - 1) // _STRIP):
            first = strip * _STRIP
            for p in range(k):
                for j in range(first, min(first + _STRIP, n)):
                    rows[j, p] = b[p, j]

    return transpose
