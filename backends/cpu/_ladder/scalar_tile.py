"""The 4x4 micro-kernel on scalars: what it computes where nothing is a vector (``simd="off"``)."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from backends.cpu._ladder.operators import operators
from harness.semiring import Semiring


def build_micro_kernel(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return ``micro_kernel(a, b, k_cur, tile)``: ``tile[i, j] := (+)_p a[p, i] (x) b[p, j]``, four columns at a time.

    Eight loaded values serve sixteen pairs, and sixteen independent sums hide the latency of the addition. The scalars
    are written out because Numba keeps scalars, not arrays, in registers.
    """
    add, multiply, zero = operators(semiring, dtype)

    @numba.njit(error_model="numpy")
    def micro_kernel(a: np.ndarray, b: np.ndarray, k_cur: int, tile: np.ndarray) -> None:
        """Compute the tile over the first k_cur steps of the panels."""
        for column in range(tile.shape[1] // 4):
            j = 4 * column
            c00 = c01 = c02 = c03 = zero
            c10 = c11 = c12 = c13 = zero
            c20 = c21 = c22 = c23 = zero
            c30 = c31 = c32 = c33 = zero
            for p in range(k_cur):  # sixteen pairs from eight loaded values
                a0, a1, a2, a3 = a[p, 0], a[p, 1], a[p, 2], a[p, 3]
                b0, b1, b2, b3 = b[p, j], b[p, j + 1], b[p, j + 2], b[p, j + 3]
                c00, c01 = add(c00, multiply(a0, b0)), add(c01, multiply(a0, b1))
                c02, c03 = add(c02, multiply(a0, b2)), add(c03, multiply(a0, b3))
                c10, c11 = add(c10, multiply(a1, b0)), add(c11, multiply(a1, b1))
                c12, c13 = add(c12, multiply(a1, b2)), add(c13, multiply(a1, b3))
                c20, c21 = add(c20, multiply(a2, b0)), add(c21, multiply(a2, b1))
                c22, c23 = add(c22, multiply(a2, b2)), add(c23, multiply(a2, b3))
                c30, c31 = add(c30, multiply(a3, b0)), add(c31, multiply(a3, b1))
                c32, c33 = add(c32, multiply(a3, b2)), add(c33, multiply(a3, b3))
            tile[0, j], tile[0, j + 1], tile[0, j + 2], tile[0, j + 3] = c00, c01, c02, c03
            tile[1, j], tile[1, j + 1], tile[1, j + 2], tile[1, j + 3] = c10, c11, c12, c13
            tile[2, j], tile[2, j + 1], tile[2, j + 2], tile[2, j + 3] = c20, c21, c22, c23
            tile[3, j], tile[3, j + 1], tile[3, j + 2], tile[3, j + 3] = c30, c31, c32, c33

    return micro_kernel
