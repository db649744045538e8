"""A block of vertices that is closed by itself: it stays in L1 or L2, where three loops are faster than products.

Source: Floyd (1962), Warshall (1962).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, scratch
from backends.cpu._ladder.operators import operators
from harness.semiring import Semiring


@kernel_builder
def build_close_block(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``close_block(d)``: all paths between the vertices of `d`, in place, with the one on its diagonal."""
    add, multiply, _ = operators(semiring, dtype, reduces=False)

    @jit(semiring, scratch(dtype, 2), parallel=False)
    def close_block(d: np.ndarray) -> None:
        n = d.shape[0]
        # loop over pivots
        for k in range(n):
            for i in range(n):
                factor = d[i, k]
                for j in range(n):
                    d[i, j] = add(d[i, j], multiply(factor, d[k, j]))

    return close_block
