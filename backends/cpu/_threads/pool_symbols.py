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
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.np.ufunc import parallel

from backends.cpu._cache.cache import compile_kernel
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
    word = types.intp
    head = {
        threads_pool.MOST: most,
        threads_pool.LOOKS: tuning_pool.POOL_LOOKS,
        threads_pool.YIELDS: tuning_pool.POOL_YIELDS,
        threads_pool.PATIENCE: tuning_pool.POOL_PATIENCE,
        threads_pool.NUMBA: llvm.address_of_symbol("get_num_threads"),
        threads_pool.LAYER: llvm.address_of_symbol("numba_parallel_for"),
    }
    functions = {"numba_parallel_for": (threads_pool.parallel_for_on_layer, types.void(*[word] * 8))}
    if sys.platform.startswith("linux"):
        head[threads_pool.WORKER] = _address_in_c(threads_pool.run_worker, word(word))
        functions["numba_parallel_for"] = threads_pool.parallel_for, types.void(*[word] * 8)
        functions["get_num_threads"] = threads_pool.get_num_threads, word()
        threads.use_own_loops()
    for offset, value in head.items():
        pool[offset // WORD_BYTES] = value
    _kept.append(pool)
    return {name: _address_in_c(*function) for name, function in functions.items()}


_kept: list[np.ndarray] = []  # compiled code knows the pool by its address alone


def _address_in_c(function: Any, signature: Any) -> int:
    """Compile a function, and return the address at which C can call it."""
    compiled = compile_kernel(function, signature, {"error_model": "numpy"})
    (result,) = compiled.overloads.values()
    address: int = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
    return address
