"""Copies of operands in the order in which kernels read them. They depend on values, so they are made inside `run`.

    rows of B transposed   (n, k)             the column B[:, j] lies as one contiguous row j
    packed_a               (mc/mr, mr, kc)    micro-panels of A: mr rows, k fastest
    packed_b               (nc/nr, nr, kc)    micro-panels of B transposed: nr rows, k fastest

The last micro-panel is filled up with the semiring's zero, so a micro-kernel only ever sees whole panels.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from numba import prange

from backends.cpu._ladder.jit import jit, scratch, strided
from harness.operands import CACHE_LINE, aligned_empty

# Side of the square that `transpose` copies at a time: a cache line of 8-byte elements each way.
_SIDE = 8


@functools.cache
def build_transpose(dtype: np.dtype[Any]) -> Any:
    """Compile ``rows[j, p] := b[p, j]``, square by square, so that neither side strides through memory alone."""

    @jit(None, strided(dtype), scratch(dtype, 2))
    def transpose(b: np.ndarray, rows: np.ndarray) -> None:
        k, n = b.shape
        for strip in prange((n + _SIDE - 1) // _SIDE):
            first = strip * _SIDE
            for p in range(k):
                for j in range(first, min(first + _SIDE, n)):
                    rows[j, p] = b[p, j]

    return transpose


def empty_panels(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialised work array whose rows begin on cache lines and do not all fall into the same cache sets.

    A row of kc elements that is a multiple of 4 KiB would put the mr + nr rows that a micro-kernel reads together into
    one set of L1, so every row is one cache line longer than it must be.
    """
    line = CACHE_LINE // dtype.itemsize
    row = (-(-shape[-1] // line) + 1) * line
    return aligned_empty((*shape[:-1], row), dtype)


@numba.njit(error_model="numpy")
def pack_a(a: np.ndarray, first: int, begin: int, m_cur: int, k_cur: int, zero: Any, packed: np.ndarray) -> None:
    """Pack the block ``a[first : first + m_cur, begin : begin + k_cur]`` into micro-panels of mr rows."""
    mr = packed.shape[1]
    for panel in range((m_cur + mr - 1) // mr):
        for r in range(mr):
            i = panel * mr + r
            row = packed[panel, r]
            if i < m_cur:
                for p in range(k_cur):
                    row[p] = a[first + i, begin + p]
            else:
                row[:k_cur] = zero


@numba.njit(error_model="numpy")
def pack_b_panel(b: np.ndarray, begin: int, first: int, k_cur: int, n_end: int, zero: Any, panel: np.ndarray) -> None:
    """Pack ``b[begin : begin + k_cur, first : first + nr]`` into one micro-panel; columns from `n_end` on are zero."""
    nr = panel.shape[0]
    if first + nr <= n_end:
        for p in range(k_cur):
            for r in range(nr):
                panel[r, p] = b[begin + p, first + r]
        return
    for r in range(nr):
        for p in range(k_cur):
            panel[r, p] = b[begin + p, first + r] if first + r < n_end else zero
