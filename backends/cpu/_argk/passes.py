"""Passes that yield, for each element of a product over min or max, the smallest k that attains it.

    packing  integers with room for k in their low bits: the product yields k `packed`
    merge    c := c (+) terms, and block := q where that changed c        for backends that do not number blocks of k
    search   in the block of each element                                 `_argk.search`

All of them can be prepared for arrays that are kept, and then run any number of times.

Over integers one scan of A and B decides whether there is room, and which form of (x) the search uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._argk import packed, work
from backends.cpu._argk.packed import Ranges
from backends.cpu._argk.search import build_search, searches_by_vectors
from backends.cpu._argk.transpose import transpose
from backends.cpu._argk.work import Work
from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, scratch
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.block_tracker import BLOCK
from backends.cpu._simd.loops import row_bytes
from backends.cpu._simd.value_scan import Look
from backends.cpu._vector.operators import Guard, guard
from harness.operands import Operands
from harness.semiring import Semiring
from harness.tuning.argk import Searched

packing, CarryingProduct = packed.packing, packed.CarryingProduct
memory_of_its_own, scratch_of_thread = work.memory_of_its_own, work.scratch_of_thread


def ranges_of(semiring: Semiring, a: np.ndarray, b: np.ndarray) -> Ranges | None:
    """Return the least and the greatest element of A, and those of B; None if no pass depends on them."""
    dtype = a.dtype
    if not searches_by_vectors(semiring, dtype):
        return None
    if guard(semiring, dtype) is not Guard.NO_EXTREME and not packed.can_carry_k(semiring, dtype):
        return None
    look = Look(Guard.NO_EXTREME, semiring, dtype)
    return look.extremes(a), look.extremes(b)


def blocks_of(rows: int, columns: int, memory: Work) -> np.ndarray:
    """Return work memory for the numbers of blocks, of int8."""
    return memory((rows, columns), BLOCK, "blocks")


@kernel_builder
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


class BlockSearch:
    """The search for k in the block of each element, ready to run any number of times.

    Parameters
    ----------
    semiring : Semiring
    steps : int
        Terms in a block.
    divided : Searched
        How C is divided.
    memory : callable
        As `_argk.work` has it.
    operands : Operands
        `out` holds the product when it runs.
    block, argk : (m, n) array of int8, of int32
    """

    def __init__(
        self, semiring: Semiring, steps: int, divided: Searched, memory: Work, operands: Operands, block: np.ndarray,
        argk: np.ndarray,
    ) -> None:  # fmt: skip
        a, dtype = operands.a, operands.a.dtype
        (m, k), n, parts = a.shape, operands.b.shape[1], divided.across * divided.down
        self._semiring, self._steps, self._height = semiring, steps, divided.rows
        self._operands, self._block, self._argk, self._across = operands, block, argk, divided.across
        length = row_bytes(max(k, steps), dtype.itemsize) // dtype.itemsize
        width = min(divided.columns, -(-n // divided.across))
        self._panels = memory((parts, width, length), dtype, "panels of B")
        is_in_place = k >= steps and a.strides[1] == dtype.itemsize
        self._copy = None if is_in_place else memory((m, length), dtype, "rows of A")
        self._missing = np.zeros(parts, np.int64)
        self._forms: dict[bool, Callable[[], None]] = {}

    def run(self, ranges: Ranges | None) -> bool:
        """Write `argk`, for values within `ranges`; return whether each element was found."""
        a, k = self._operands.a, self._operands.a.shape[1]
        if self._copy is not None:
            transpose(a.T, self._copy)
            self._copy[:, k:] = self._panels[:, :, k:] = 0  # a match there comes after the first match
        is_careful = self._is_careful(ranges)
        if is_careful not in self._forms:
            self._forms[is_careful] = self._prepared(is_careful)
        self._missing.fill(0)
        self._forms[is_careful]()
        return not self._missing.any()

    def _is_careful(self, ranges: Ranges | None) -> bool:
        """Return whether (x) is computed in its careful form."""
        dtype = self._operands.a.dtype
        condition = guard(self._semiring, dtype)
        if condition is Guard.NO_EXTREME and ranges is not None:
            return not Look(condition, self._semiring, dtype).allows(*ranges)
        return condition is Guard.NO_NAN_IN_A  # no scan: the search finds NaN at no cost

    def _prepared(self, is_careful: bool) -> Callable[[], None]:
        (a, b, c), k = (self._operands.a, self._operands.b, self._operands.out), self._operands.a.shape[1]
        rows = a if self._copy is None else self._copy[:, : max(k, self._steps)]
        prepare = build_search(self._semiring, a.dtype, self._steps, is_careful)
        return prepare(rows, b, c, self._block, self._argk, self._across, self._height, self._panels, self._missing)
