"""Copies of blocks of a matrix, each by a compiled `gather` (`_simd.packing`), which threads take in turn.

A copy is one row of a table: the sizes, offsets and strides that `gather` takes. The addresses of the matrices are
separate, so that other matrices change two numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from backends.cpu._compile.pieces import compiled_for_threads
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.packing import build_gather
from backends.cpu._threads.atomics import add
from backends.cpu._threads.pool import for_each
from backends.cpu._vector.intrinsics import on_stack, words_at
from harness.operands import data_address


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
        self._table, self._threads = np.array(copies, np.int64), min(threads, len(copies))
        self._of_all = address_of(build_gather(key)), data_address(self._table), len(copies)

    def run(self, source: int, target: int) -> None:
        """Copy from the matrix at one address to that at the other."""
        _build_run_copies()(*self._of_all, source, target, self._threads)


_run_at, _copy_at, _COPY_BYTES = words_at(5), words_at(len(BlockCopy._fields)), 8 * len(BlockCopy._fields)


def take_copies(run: int, thread: int) -> None:
    """Make copies until none is left, by the words of a run."""
    gather, table, copies, source, target = _run_at(run)
    while True:
        i = add(run + 40, 1)
        if i >= copies:
            break
        rows, columns, begin, row_stride, column_stride, to, target_stride = _copy_at(table + _COPY_BYTES * i)
        call(gather, (rows, columns, source + begin, row_stride, column_stride, target + to, target_stride))


@functools.cache
def _build_run_copies() -> Callable[..., None]:
    """Compile ``run_copies(gather, table, copies, source, target, threads)``, the same for every kernel."""

    def run_copies(take: int, gather: int, table: int, copies: int, source: int, target: int, threads: int) -> None:
        """Make all copies."""
        taken = 0
        for_each(take, on_stack((gather, table, copies, source, target, taken)), threads)

    return compiled_for_threads(take_copies, run_copies)
