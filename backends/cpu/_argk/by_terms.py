"""The search for operations without vector code: term by term, the last of a block first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange, types

from backends.cpu._argk.matches import POSITION
from backends.cpu._argk.transpose import transpose_in_loops
from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, scratch, strided
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.block_tracker import BLOCK, NO_BLOCK
from harness.semiring import Semiring


@kernel_builder
def build_search_by_terms(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Callable[..., Any]:
    """Compile ``prepare(...)``, as `_argk.search.build_search` does, for any operations."""
    search_panel = _search_panel_by_terms(semiring, dtype, steps)

    def search(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, across: int, height: int,
        panels: np.ndarray, missing: np.ndarray,
    ) -> None:  # fmt: skip
        """Search part by part and panel by panel."""
        (m, n), (parts, width, _) = c.shape, panels.shape
        down = parts // across
        for part in prange(parts):
            i, j = np.intp(part) // across, np.intp(part) % across
            bottom, end = m * (i + 1) // down, n * (j + 1) // across
            for upper in range(m * i // down, bottom, height):
                lower = min(upper + height, bottom)
                for left in range(n * j // across, end, width):
                    right = min(left + width, end)
                    panel = panels[part, : right - left]
                    transpose_in_loops(b[:, left:right], panel)
                    tile = (c[upper:lower, left:right], block[upper:lower, left:right], argk[upper:lower, left:right])
                    if search_panel(a[upper:lower], panel, *tile):
                        missing[part] = 1

    compiled = jit(
        semiring, strided(dtype), strided(dtype), scratch(dtype, 2), scratch(BLOCK, 2), scratch(POSITION, 2),
        types.intp, types.intp, scratch(dtype, 3), scratch(np.dtype(np.int64), 1),
    )(search)  # fmt: skip
    return functools.partial(functools.partial, compiled)


def _search_panel_by_terms(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Return ``search_panel(a, panel, c, block, argk)``: whether an element is attained by no term of its block."""
    multiply = operators(semiring, dtype).multiply

    @numba.njit(error_model="numpy")
    def search_panel(a: np.ndarray, panel: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray) -> bool:
        (rows, count), is_missing = c.shape, False
        for i in range(rows):
            for j in range(count):
                k, begin = NO_BLOCK, min(np.intp(block[i, j]) * steps, a.shape[1] - steps)
                if block[i, j] != NO_BLOCK:
                    for p in range(begin + steps - 1, begin - 1, -1):
                        k = p if multiply(a[i, p], panel[j, p]) == c[i, j] else k
                    is_missing |= k == NO_BLOCK
                argk[i, j] = k
        return is_missing

    return search_panel
