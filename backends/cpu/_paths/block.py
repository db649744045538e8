"""What a closure has beside products, for a square of a matrix as a `Part` describes it: `m` rows at `c`.

`close_block` closes a block that stays in L1, by three loops. `mirror` copies the lower triangle to the upper.
`run_in_order` computes rows of a table of arguments one after the other.

Source: Floyd (1962), Warshall (1962).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit
from backends.cpu._ir.call_by_address import call
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.numpy_object import fields_of
from backends.cpu._simd.part import PART, Part
from backends.cpu._simd.run_parts import row_at
from backends.cpu._vector.intrinsics import as_pointer
from harness.semiring import Semiring

_TILE = 32  # rows and columns of a piece that is mirrored: its lines stay in cache


@kernel_builder
def build_close_block(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``close_block(part)``: all paths between the vertices of a block, with the one on its diagonal."""
    add, multiply, _ = operators(semiring, dtype, reduces=False)

    def close_block(part: Part) -> None:
        n = part.m
        # loop over pivots
        for k in range(n):
            pivot = carray(as_pointer(part.c + k * part.rs_c), (n,), dtype)
            for i in range(n):
                row = carray(as_pointer(part.c + i * part.rs_c), (n,), dtype)
                factor = row[k]
                for j in range(n):
                    row[j] = add(row[j], multiply(factor, pivot[j]))

    return jit(semiring, PART, parallel=False)(close_block)


@kernel_builder
def build_mirror(itemsize: int) -> Any:
    """Compile ``mirror(part)``: what is below the diagonal goes above it."""
    word = np.dtype(f"u{itemsize}")

    def mirror(part: Part) -> None:
        n, c, rs_c = part.m, part.c, part.rs_c
        for first in range(0, n, _TILE):  # rows below each other
            last = min(first + _TILE, n)
            for j in range(last):
                upper = carray(as_pointer(c + j * rs_c), (n,), word)
                for i in range(max(first, j + 1), last):
                    upper[i] = carray(as_pointer(c + i * rs_c), (n,), word)[j]

    return jit(None, PART, parallel=False)(mirror)


@functools.cache
def build_run_in_order() -> Callable[[np.ndarray], None]:
    """Compile ``run_in_order(table)``: compute every row after the one before. The same for every kernel."""

    def run_in_order(table: Any) -> None:
        """Compute all rows."""
        address, rows, _, row_bytes, _ = fields_of(table)
        for number in range(rows):
            loops, part = row_at(address + number * row_bytes, 0)
            call(loops, (part,))

    return compiled_for_python(run_in_order, releases_gil=True)
