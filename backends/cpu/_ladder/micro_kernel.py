"""The 4x4 micro-kernel: sixteen sums over k that stay in registers, from four rows of A and four of B transposed.

    tile[i, j] = (+)_p  a[i, p] (x) b[j, p]        a (4, k_cur) and b (4, k_cur): packed micro-panels

Eight loaded values serve sixteen pairs, and sixteen independent sums hide the latency of the addition. The scalars are
written out because Numba keeps scalars, not arrays, in registers; LLVM's loop vectoriser makes each of them a vector of
partial sums over k. That is why k runs fastest in a micro-panel here, where BLIS, with vectors along n, lets mr or nr
run fastest. Assumes whole micro-panels; `store` handles what sticks out.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from backends.cpu._ladder.operators import operators
from harness.semiring import Semiring


def build_micro_kernel(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return ``micro_kernel(a, b, k_cur, tile)``: tile := a (x) b, 4x4."""
    add, multiply, zero = operators(semiring, dtype)

    @numba.njit(error_model="numpy")
    def micro_kernel(a: np.ndarray, b: np.ndarray, k_cur: int, tile: np.ndarray) -> None:
        """Compute ``tile := a (x) b`` over the first k_cur steps of the panels."""
        c00 = c01 = c02 = c03 = zero
        c10 = c11 = c12 = c13 = zero
        c20 = c21 = c22 = c23 = zero
        c30 = c31 = c32 = c33 = zero
        x0, x1, x2, x3 = a[0, :k_cur], a[1, :k_cur], a[2, :k_cur], a[3, :k_cur]
        y0, y1, y2, y3 = b[0, :k_cur], b[1, :k_cur], b[2, :k_cur], b[3, :k_cur]
        for p in range(x0.size):
            a0, a1, a2, a3 = x0[p], x1[p], x2[p], x3[p]
            b0, b1, b2, b3 = y0[p], y1[p], y2[p], y3[p]
            c00, c01 = add(c00, multiply(a0, b0)), add(c01, multiply(a0, b1))
            c02, c03 = add(c02, multiply(a0, b2)), add(c03, multiply(a0, b3))
            c10, c11 = add(c10, multiply(a1, b0)), add(c11, multiply(a1, b1))
            c12, c13 = add(c12, multiply(a1, b2)), add(c13, multiply(a1, b3))
            c20, c21 = add(c20, multiply(a2, b0)), add(c21, multiply(a2, b1))
            c22, c23 = add(c22, multiply(a2, b2)), add(c23, multiply(a2, b3))
            c30, c31 = add(c30, multiply(a3, b0)), add(c31, multiply(a3, b1))
            c32, c33 = add(c32, multiply(a3, b2)), add(c33, multiply(a3, b3))
        tile[0, 0], tile[0, 1], tile[0, 2], tile[0, 3] = c00, c01, c02, c03
        tile[1, 0], tile[1, 1], tile[1, 2], tile[1, 3] = c10, c11, c12, c13
        tile[2, 0], tile[2, 1], tile[2, 2], tile[2, 3] = c20, c21, c22, c23
        tile[3, 0], tile[3, 1], tile[3, 2], tile[3, 3] = c30, c31, c32, c33

    return micro_kernel


def build_store(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return ``store(tile, c, accumulate)``: c := [c (+)] tile on the part of the tile that c has."""
    add = operators(semiring, dtype).add

    @numba.njit(error_model="numpy")
    def store(tile: np.ndarray, c: np.ndarray, accumulate: bool) -> None:
        for i in range(min(tile.shape[0], c.shape[0])):
            for j in range(min(tile.shape[1], c.shape[1])):
                c[i, j] = add(c[i, j], tile[i, j]) if accumulate else tile[i, j]

    return store
