"""Passes that yield, for each element of a product over min or max, the smallest k that attains it.

    packing  integers with room for k in their low bits: the product yields k `packed`
    merge    c := c (+) terms, and block := q where that changed c        for backends that do not number blocks of k
    search   in the block of each element                                 `_argk.search`

Over integers one scan of A and B decides whether there is room, and which form of (x) the search uses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import prange, types

from backends.cpu._argk import packed
from backends.cpu._argk.packed import Ranges
from backends.cpu._argk.search import build_search, build_transpose, searches_by_vectors
from backends.cpu._compile.scratch import scratch as scratch_memory
from backends.cpu._ladder.jit import jit, output, scratch
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.block_tracker import BLOCK
from backends.cpu._simd.loops import row_bytes
from backends.cpu._simd.value_scan import Look
from backends.cpu._vector.operators import Guard, guard
from harness.semiring import Semiring

packing = packed.packing


class Passes(NamedTuple):
    """Passes compiled for one semiring, dtype and length of blocks.

    Attributes
    ----------
    merge : function
        ``merge(terms, c, block, q)``.
    search : function
        ``search(a, b, c, block, argk, ranges, across, down, height, columns)``, with `ranges` of `ranges_of`, over C as
        `harness.tuning.argk.Searched` says. It returns whether each element is attained by a term of its block.
    """

    merge: Callable[..., None]
    search: Callable[..., bool]


@functools.cache
def passes(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Passes:
    """Compile the passes for a semiring whose (+) is selective."""

    def merge(*arguments: Any) -> None:  # compiled when a backend that numbers no blocks needs it
        build_merge(semiring, dtype)(*arguments)

    return Passes(merge, functools.partial(_search, semiring, dtype, steps))


def ranges_of(semiring: Semiring, a: np.ndarray, b: np.ndarray) -> Ranges | None:
    """Return the least and the greatest element of A, and those of B; None if no pass depends on them."""
    dtype = a.dtype
    if not searches_by_vectors(semiring, dtype):
        return None
    if guard(semiring, dtype) is not Guard.NO_EXTREME and not packed.can_carry_k(semiring, dtype):
        return None
    look = Look(Guard.NO_EXTREME, semiring, dtype)
    return look.extremes(a), look.extremes(b)


def blocks_of(rows: int, columns: int) -> np.ndarray:
    """Return work memory for the numbers of blocks, of int8."""
    return scratch_memory(rows * columns * BLOCK.itemsize, "blocks").array((rows, columns), BLOCK)


@functools.cache
def build_merge(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``merge``: a tile of C takes the better elements of `terms`, from block q."""
    add = operators(semiring, dtype).add

    def merge(terms: np.ndarray, c: np.ndarray, block: np.ndarray, q: int) -> None:
        """Compute ``c := c (+) terms``; ``block`` becomes q where c has changed."""
        for i in prange(c.shape[0]):
            t, x, which = terms[i], c[i], block[i]
            for j in range(x.size):
                better = add(x[j], t[j])
                which[j] = q if better != x[j] else which[j]
                x[j] = better

    tile = (output(dtype), output(BLOCK))
    return jit(semiring, scratch(dtype, 2), *tile, types.int32)(merge)


def _search(
    semiring: Semiring, dtype: np.dtype[Any], steps: int, a: np.ndarray, b: np.ndarray, c: np.ndarray,
    block: np.ndarray, argk: np.ndarray, ranges: Ranges | None, across: int, down: int, height: int, columns: int,
) -> bool:  # fmt: skip
    """Write `argk`; return whether each element was found."""
    (m, k), n = a.shape, b.shape[1]
    condition = guard(semiring, dtype)
    is_careful = condition is Guard.NO_NAN_IN_A  # no scan: the search finds NaN at no cost
    if condition is Guard.NO_EXTREME and ranges is not None:
        is_careful = not Look(condition, semiring, dtype).allows(*ranges)
    search = build_search(semiring, dtype, steps, is_careful)
    length = row_bytes(max(k, steps), dtype.itemsize) // dtype.itemsize
    parts, width = across * down, min(columns, -(-n // across))
    panels = scratch_memory(parts * width * length * dtype.itemsize, "panels of B").array((parts, width, length), dtype)
    if k < steps or a.strides[1] != dtype.itemsize:
        rows = scratch_memory(m * length * dtype.itemsize, "rows of A").array((m, length), dtype)
        build_transpose(dtype)(a.T, rows)
        rows[:, k:] = panels[:, :, k:] = 0  # a match there comes after the first match
        a = rows[:, : max(k, steps)]
    missing = np.zeros(parts, np.int64)
    search(a, b, c, block, argk, across, height, panels, missing)
    return not missing.any()
