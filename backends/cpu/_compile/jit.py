"""Compile a kernel by Numba: one signature for all strides, and the hints that let LLVM use SIMD.

* ``parallel=True``: `prange` loops run on the threads of `_threads.pool`.
* The inner loop of every rung runs over k into one or more sums, over contiguous memory where the rung provides it.
  LLVM's loop vectoriser makes vectors of partial sums of them, if it may reassociate. Floating-point sums may be
  reassociated and contracted to FMA; nothing else is loosened, so NaN and infinities keep their meaning. min and max
  need no such permission (see `_ladder.operators`).
* ``error_model="numpy"``: no check for a division by zero.
* ``vectorizes=False``: the loop vectoriser does not run. The kernel computes the same on scalars, so that the gain by
  SIMD can be measured alone.
* ``joins_lanes=True``: equal instructions on the lanes of a vector become one (LLVM's SLP vectoriser).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.compiler_lock import global_compiler_lock

from backends.cpu._cache.cache import compile_kernel
from backends.cpu._threads.pool_symbols import pool_for_loops
from harness.semiring import Semiring
from harness.surroundings import interrupts_held

SUMS_IN_ANY_ORDER = ("contract", "reassoc", "nsz")


def jit(
    semiring: Semiring | None,
    *signature: Any,
    parallel: bool = True,
    releases_gil: bool = True,
    vectorizes: bool = True,
    joins_lanes: bool = False,
    returns: Any = types.void,
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a kernel, or loads it (`_cache.cache`), at once and for one signature.

    The functions that the kernel calls are compiled with it and take over its floating-point flags. `semiring` decides
    those; None: the kernel only moves values. It runs without the GIL, unless it reads objects of Python.
    """
    fastmath: Any = set(SUMS_IN_ANY_ORDER) if semiring and semiring.add.name == "plus" else False
    options = {"parallel": parallel, "fastmath": fastmath, "error_model": "numpy", "nogil": releases_gil}
    options["no_cfunc_wrapper"] = True  # C code calls the kernel itself

    def compiled(function: Callable[..., Any]) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(interrupts_held())
            stack.enter_context(_vectorizers(loops=vectorizes, lanes=joins_lanes))
            if parallel and not numba.config.DISABLE_JIT:
                stack.enter_context(pool_for_loops())
            return compile_kernel(function, returns(*signature), options)

    return compiled


@contextlib.contextmanager
def _vectorizers(*, loops: bool, lanes: bool) -> Iterator[None]:
    """Compile with these vectorisers of LLVM inside the block; the key of a kernel in the cache has these settings."""
    with global_compiler_lock:
        before = numba.config.LOOP_VECTORIZE, numba.config.SLP_VECTORIZE
        numba.config.LOOP_VECTORIZE &= loops
        numba.config.SLP_VECTORIZE |= lanes
        try:
            yield
        finally:
            numba.config.LOOP_VECTORIZE, numba.config.SLP_VECTORIZE = before


def in_chunks(kernel: Callable[..., None], iterations: int) -> Callable[..., None]:
    """Return `kernel` with parallel loops whose threads take so many iterations at a time, and then the next."""

    def run(*arguments: Any) -> None:
        with numba.parallel_chunksize(iterations):
            kernel(*arguments)

    return run


@functools.cache  # the look-up compares keys in Python: where a signal handler raises meanwhile, it ends in a KeyError
def entry_point(compiled: Any) -> Any:
    """Return the function behind a dispatcher with one signature, to save a look-up in every call."""
    if not hasattr(compiled, "overloads"):
        return compiled
    (result,) = compiled.overloads.values()
    return result.entry_point


def assembly_of(kernel: Any, *, vectorizes: bool = True, joins_lanes: bool = False) -> str:
    """Return the assembly of a kernel that `jit` compiled for one signature, with that of its parallel loops.

    Code that was loaded from the cache cannot be inspected: Numba compiles it anew, by the same switches as `jit`.
    """
    (signature,) = kernel.signatures
    if kernel.stats.cache_hits:
        kernel = numba.jit(**kernel.targetoptions)(kernel.py_func)
        with _vectorizers(loops=vectorizes, lanes=joins_lanes):
            kernel.compile(signature)
    assembly: str = kernel.inspect_asm(signature)
    return assembly


def scalar(dtype: np.dtype[Any]) -> Any:
    """Return Numba's type of one element."""
    return numba.from_dtype(dtype)


def strided(dtype: np.dtype[Any]) -> types.Array:
    """Return the type of a read-only matrix of any strides; every matrix of `dtype` converts to it."""
    return types.Array(scalar(dtype), 2, "A", readonly=True)


def rows(dtype: np.dtype[Any]) -> types.Array:
    """Return the type of a read-only matrix with contiguous rows and no gap between them."""
    return types.Array(scalar(dtype), 2, "C", readonly=True)


def output(dtype: np.dtype[Any]) -> types.Array:
    """Return the type of a writable matrix of any strides."""
    return types.Array(scalar(dtype), 2, "A")


def scratch(dtype: np.dtype[Any], ndim: int) -> types.Array:
    """Return the type of a writable contiguous work array."""
    return types.Array(scalar(dtype), ndim, "C")
