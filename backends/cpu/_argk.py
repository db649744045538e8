"""What finds, for each element of a product over min or max, the smallest k that attains it.

    merge    c := c (+) terms, and block := q where that changed c        for backends that do not number blocks of k
    slabs    A and B transposed, block of k by block of k                 slab q of both fits L2
    search   in the block of each element                                 `_argk_search`

The last block is filled up; what its filling gives comes after the term that is looked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import prange, types

from backends.cpu._argk_search import build_search
from backends.cpu._block_tracker import BLOCK
from backends.cpu._generated_kernel import KernelKey
from backends.cpu._generated_packing import build_gather
from backends.cpu._jit import jit, output, scratch, strided
from backends.cpu._operators import operators
from backends.cpu._scratch import scratch as scratch_memory
from backends.cpu._vector_operators import Operations
from backends.cpu._vector_unit import usable_units
from harness.operands import CACHE_LINE
from harness.semiring import Semiring


class Passes(NamedTuple):
    """Compiled for one semiring and dtype, and blocks of a number of steps.

    Attributes
    ----------
    merge : function
        ``merge(terms, c, block, q)``.
    slabs : function
        ``slabs(x, purpose)``: an (m, k) array as (blocks, m, steps), in work memory kept for that purpose.
    search : function
        ``search(a, b, c, block, argk, height, width, missing)``, with slabs of A and of B transposed, by tiles of C.
    """

    merge: Callable[..., None]
    slabs: Callable[[np.ndarray, str], np.ndarray]
    search: Callable[..., None]


@functools.cache
def passes(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Passes:
    """Compile the passes for a semiring whose (+) is selective."""
    return Passes(
        build_merge(semiring, dtype), functools.partial(_slabs, dtype, steps), build_search(semiring, dtype, steps)
    )


def blocks_of(rows: int, columns: int) -> np.ndarray:
    """Return work memory for the numbers of blocks: int32, its rows an odd number of cache lines apart.

    Rows whose distance is a power of two would share the sets of the caches with those of C.
    """
    line = CACHE_LINE // BLOCK.itemsize
    width = (-(-columns // line) | 1) * line
    return scratch_memory(rows * width * BLOCK.itemsize, "blocks").array((rows, width), BLOCK)[:, :columns]


@functools.cache
def build_merge(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``merge``: a tile of C takes what is better in `terms`, from block q."""
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


def _slabs(dtype: np.dtype[Any], steps: int, x: np.ndarray, purpose: str) -> np.ndarray:
    """Return `x` block of columns by block of columns, the last filled up with zeros; a view where rows allow it."""
    count, k = x.shape
    blocks = -(-k // steps)
    if k % steps == 0 and x.strides[1] == x.itemsize:
        return x.reshape(count, blocks, steps).swapaxes(0, 1)
    slabs = scratch_memory(blocks * count * steps * dtype.itemsize, purpose).array((blocks, count, steps), dtype)
    slabs[-1, :, k - (blocks - 1) * steps :] = 0  # no NaN, no denormal number: they would only cost time
    build_copy(dtype)(x, slabs)
    return slabs


@functools.cache
def build_copy(dtype: np.dtype[Any]) -> Any:
    """Compile ``slabs[q, i, p] := x[i, q * steps + p]``."""
    if numba.config.DISABLE_JIT:
        return _copy_in_python
    unit = usable_units()[0]
    gather = build_gather(KernelKey(Operations("min", "plus", 0), dtype.name, unit.name, unit.mr, unit.nv))
    itemsize = dtype.itemsize

    def copy(x: np.ndarray, slabs: np.ndarray) -> None:
        (count, k), (row_stride, stride) = x.shape, x.strides
        steps = slabs.shape[2]
        for q in prange(slabs.shape[0]):
            source, target = x.ctypes.data + q * steps * stride, slabs.ctypes.data + q * slabs.strides[0]
            gather(count, min(steps, k - q * steps), source, row_stride, stride, target, steps * itemsize)

    return jit(None, strided(dtype), scratch(dtype, 3))(copy)


def _copy_in_python(x: np.ndarray, slabs: np.ndarray) -> None:
    for q, slab in enumerate(slabs):
        part = x[:, q * slab.shape[1] : (q + 1) * slab.shape[1]]
        slab[:, : part.shape[1]] = part
