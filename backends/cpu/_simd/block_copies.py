"""Copies of blocks of a matrix, each by a compiled `gather` (`_simd.packing`), which threads take in turn.

A copy is one row of a table: the sizes, offsets and strides that `gather` takes. The addresses of the matrices are
separate, so that other matrices change two numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.call_by_address import address_of, call
from backends.cpu._compile.jit import jit
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.packing import build_gather
from backends.cpu._simd.run_parts import entry_point
from backends.cpu._threads.atomics import add
from backends.cpu._threads.limits import limit_threads, restore_threads


class BlockCopy(NamedTuple):
    """``target[i, j] := source[i, j]``: sizes in elements, offsets and strides in bytes.

    Rows of the target are contiguous.
    """

    rows: int
    columns: int
    source: int
    row_stride: int
    column_stride: int
    target: int
    target_stride: int


class BlockCopies:
    """Independent copies of blocks from one matrix to another, or to another part of the same.

    Parameters
    ----------
    key : KernelKey
        Of the dtype that is copied.
    copies : list of BlockCopy
        At least one.
    threads : int
    """

    def __init__(self, key: KernelKey, copies: list[BlockCopy], threads: int) -> None:
        self._gather, self._table, self._taken = address_of(build_gather(key)), np.array(copies), np.zeros(1, np.int64)
        self._threads = min(threads, len(copies))

    def run(self, source: int, target: int) -> None:
        """Copy from the matrix at one address to that at the other."""
        entry_point(_build_run_copies())(self._gather, source, target, self._table, self._taken, self._threads)


@kernel_builder
def _build_run_copies() -> Any:
    """Compile ``run_copies(gather, source, target, table, taken, threads)``, the same for every kernel."""

    def run_copies(gather: int, source: int, target: int, table: np.ndarray, taken: np.ndarray, threads: int) -> None:
        taken[0] = 0
        before = limit_threads(threads)
        for _ in prange(threads):
            while True:
                i = add(taken.ctypes.data, 1)
                if i >= table.shape[0]:
                    break
                x = table[i]
                call(gather, (x[0], x[1], source + x[2], x[3], x[4], target + x[5], x[6]))
        restore_threads(before)

    words = types.Array(types.int64, 1, "C")
    return jit(None, *[types.intp] * 3, types.Array(types.int64, 2, "C"), words, types.intp)(run_copies)
