"""Contiguous rows of an operand: the operand itself where its rows are contiguous, else a copy made in every call.

    rows of A              (m, k)   a row of A is a contiguous line along k
    rows of B transposed   (n, k)   a column of B is a contiguous line along k

A copy depends on the values of the operand, so it belongs to the product and is timed with it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import prange

from backends.cpu._ladder.jit import jit, scratch, strided
from harness.operands import aligned_empty

# Width of the strip that `transpose` copies at a time: a cache line of 8-byte elements.
_STRIP = 8


class ContiguousRows:
    """Callable that returns a matrix with contiguous rows.

    Parameters
    ----------
    like : (rows, columns) array
        Shape, dtype and strides of every matrix that it will be called with.
    """

    def __init__(self, like: np.ndarray) -> None:
        self._copy = None if like.flags.c_contiguous else aligned_empty(like.shape, like.dtype)
        self._transpose = build_transpose(like.dtype)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return `x` itself, or its values in the copy, which the next call overwrites."""
        if x.flags.c_contiguous or self._copy is None:
            return x
        self._transpose(x.T, self._copy)
        return self._copy


@functools.cache
def build_transpose(dtype: np.dtype[Any]) -> Any:
    """Compile ``rows[j, p] := b[p, j]``, strip by strip, so that neither side strides through memory alone."""

    @jit(None, strided(dtype), scratch(dtype, 2))
    def transpose(b: np.ndarray, rows: np.ndarray) -> None:
        k, n = b.shape
        for strip in prange((n + _STRIP - 1) // _STRIP):
            first = strip * _STRIP
            for p in range(k):
                for j in range(first, min(first + _STRIP, n)):
                    rows[j, p] = b[p, j]

    return transpose
