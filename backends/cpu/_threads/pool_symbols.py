"""Connect `prange` loops to the pool of `_threads.pool`, by the symbols that Numba's code for a loop calls.

While a kernel of the project is compiled or loaded, the symbols stand for functions of the pool. At other times they
stand for Numba's, so loops of other programs stay on Numba's threading layer. The pool is for Linux; elsewhere the
project's loops run on Numba's layer too, those of one caller at a time.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator

import llvmlite.binding as llvm
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.np.ufunc import parallel

from backends.cpu._ir.integers import compiled_for_c
from backends.cpu._threads import fork_locks  # noqa: F401 it prepares the start of Numba's threads
from backends.cpu._threads import pool as threads_pool
from backends.cpu._threads.atomics import WORD_BYTES
from harness import threads
from harness.operands import aligned_empty, data_address
from harness.tuning import pool as tuning_pool


@contextlib.contextmanager
def pool_for_loops() -> Iterator[None]:
    """Connect the loops of kernels that are compiled or loaded inside the block, and no others."""
    with global_compiler_lock:
        ours = _symbols()
        numbas = {name: llvm.address_of_symbol(name) for name in ours}
        _define(ours)
        try:
            yield
        finally:
            _define(numbas)


def start() -> None:
    """Make the pool, whose symbol functions of integers have: before they are loaded."""
    with global_compiler_lock:
        _symbols()


def _define(symbols: dict[str, int]) -> None:
    for name, address in symbols.items():
        llvm.add_symbol(name, address)


@functools.cache
def _symbols() -> dict[str, int]:
    """Make the pool of this process, and return the addresses of its functions by Numba's names for them."""
    threads.available()  # has Numba define its symbols, which must come first
    most = parallel.NUM_THREADS - 1
    size = (threads_pool.HEAD_BYTES + most * threads_pool.SEAT_BYTES) // WORD_BYTES
    pool = aligned_empty((size,), np.dtype(np.int64))
    pool.fill(0)
    _define({threads_pool.SYMBOL: data_address(pool)})
    head = {
        threads_pool.MOST: most,
        threads_pool.LOOKS: tuning_pool.POOL_LOOKS,
        threads_pool.YIELDS: tuning_pool.POOL_YIELDS,
        threads_pool.PATIENCE: tuning_pool.POOL_PATIENCE,
        threads_pool.NUMBA: llvm.address_of_symbol("get_num_threads"),
        threads_pool.LAYER: llvm.address_of_symbol("numba_parallel_for"),
    }
    if sys.platform.startswith("linux"):
        own = threads_pool.parallel_for, threads_pool.call_piece, threads_pool.run_worker, threads_pool.get_num_threads
        loops, head[threads_pool.PIECE], head[threads_pool.WORKER], numbers = compiled_for_c(*own)
        found = {"numba_parallel_for": loops, "get_num_threads": numbers}
        threads.use_own_loops()
    else:
        own_on_layer = threads_pool.parallel_for_on_layer, threads_pool.call_piece
        loops, head[threads_pool.PIECE] = compiled_for_c(*own_on_layer)
        found = {"numba_parallel_for": loops}
    head[threads_pool.LOOPS] = loops
    for offset, value in head.items():
        pool[offset // WORD_BYTES] = value
    _kept.append(pool)
    return found


_kept: list[np.ndarray] = []  # compiled code knows the pool by its address alone
