"""What finds, for each element of a product over min or max, the smallest k that attains it.

    merge    c := c (+) terms, and block := q where that changed c        for backends that do not number blocks of k
    slabs    A and B transposed, block of k by block of k                 slab q of both fits L2
    sort     of each row of C: its columns by their block
    search   for q: for each row i, for each column j of block q:
             argk := the first p of the block with a[i, p] (x) b[p, j] == c[i, j]

A (x) of one pair rounds the same each time, so equality finds the term exactly. A block is compared as a few vectors
along k, without a branch that depends on values, so that several elements are looked up at the same time; sorted, they
find what they read in L2, where by row and column they would wait for main memory (n = 2048: 30 ns each). The last
block is filled up; what its filling gives comes after the term that is looked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic

from backends.cpu import _vector_code as v
from backends.cpu._block_tracker import BLOCK
from backends.cpu._generated_kernel import KernelKey
from backends.cpu._generated_packing import build_gather
from backends.cpu._jit import jit, output, scalar, scratch, strided
from backends.cpu._operators import operators
from backends.cpu._scratch import scratch as scratch_memory
from backends.cpu._vector_operators import Guard, Operations, guard, operations
from backends.cpu._vector_unit import VectorUnit, usable_units
from harness.operands import CACHE_LINE
from harness.semiring import Semiring

WORD_BITS = 64  # terms compared at once, at most
COLUMNS = 1 << 16  # numbers of columns take 16 bits: a wider C is done in parts


class Passes(NamedTuple):
    """Compiled for one semiring and dtype, and blocks of a number of steps.

    Attributes
    ----------
    merge : function
        ``merge(terms, c, block, q)``.
    slabs : function
        ``slabs(x, purpose)``: an (m, k) array as (blocks, m, steps), in work memory kept for that purpose.
    search : function
        ``search(a, b, c, block, argk, height, missing)``, with slabs of A and of B transposed, by so many rows.
    """

    merge: Callable[..., None]
    slabs: Callable[[np.ndarray, str], np.ndarray]
    search: Callable[..., None]


@functools.cache
def passes(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Passes:
    """Compile the passes for a semiring whose (+) is selective."""
    search = build_search(semiring, dtype, steps)

    def search_all(
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        block: np.ndarray,
        argk: np.ndarray,
        height: int,
        missing: np.ndarray,
    ) -> None:
        for j in range(0, c.shape[1], COLUMNS):
            columns = slice(j, j + COLUMNS)
            search(a, b[:, columns], c[:, columns], block[:, columns], argk[:, columns], height, missing)

    return Passes(build_merge(semiring, dtype), functools.partial(_slabs, dtype, steps), search_all)


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


@numba.njit
def _sort(block: np.ndarray, c: np.ndarray, order: np.ndarray, values: np.ndarray, ends: np.ndarray) -> None:
    """Write the columns of a row, and its values, by the number of their block, -1 first; ``ends[q + 1]``: q's end."""
    ends[:] = 0
    for j in range(block.size):
        ends[np.uintp(block[j] + 1)] += 1  # unsigned: no look for a negative index
    before = 0
    for q in range(ends.size):
        before, ends[q] = before + ends[q], before
    for j in range(block.size):
        q = np.uintp(block[j] + 1)
        place = np.uintp(ends[q])
        order[place], values[place] = j, c[j]
        ends[q] = place + 1


@functools.cache
def build_search(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Compile ``search``: from the number of its block, the smallest k of each element; -1 stays.

    ``missing[0]`` becomes 1 if an element is attained by no term of its block.
    """
    search_block = build_search_block(semiring, dtype, steps)

    def search(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, height: int,
        missing: np.ndarray,
    ) -> None:  # fmt: skip
        """Search parts of `height` rows."""
        rows, columns = c.shape
        blocks = a.shape[0]
        for part in prange((rows + height - 1) // height):
            first, lost = part * height, 0
            count = min(height, rows - first)
            order, values = np.empty((count, columns), np.uint16), np.empty((count, columns), c.dtype)
            found, ends = np.empty((count, columns), np.int32), np.empty((count, blocks + 1), np.int32)
            for i in range(count):
                _sort(block[first + i], c[first + i], order[i], values[i], ends[i])
                found[i, : ends[i, 0]] = -1
            for q in range(blocks):
                for i in range(count):
                    chosen = slice(ends[i, q], ends[i, q + 1])
                    a_row = a[q, first + i]
                    lost |= search_block(a_row, b[q], order[i, chosen], values[i, chosen], found[i, chosen], q * steps)
            for i in range(count):
                row = argk[first + i]
                for j in range(columns):
                    row[np.uintp(order[i, j])] = found[i, j]
            if lost:
                missing[0] = 1

    slabs = types.Array(scalar(dtype), 3, "A", readonly=True)
    numbers = output(BLOCK)
    c, missing = output(dtype), scratch(np.dtype(np.int64), 1)
    return jit(semiring, slabs, slabs, c, numbers, numbers, types.intp, missing)(search)


def build_search_block(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Return ``search_block(a, b, columns, values, found, first)``, for some columns of one row.

    It returns 0 unless a term is missing.

    As vector code where there is vector code of (x), else term by term.
    """
    if not numba.config.DISABLE_JIT and operations(semiring, dtype) is not None:
        return _search_block_by_vectors(semiring, dtype, steps)
    multiply = operators(semiring, dtype).multiply

    @numba.njit(error_model="numpy")
    def search_block(
        a: np.ndarray, b: np.ndarray, columns: np.ndarray, values: np.ndarray, found: np.ndarray, first: int
    ) -> int:
        lost = 0
        for place in range(columns.size):
            k = steps
            for step in range(steps - 1, -1, -1):
                k = step if multiply(a[step], b[columns[place], step]) == values[place] else k
            lost |= k == steps
            found[place] = first + k
        return lost

    return search_block


def _search_block_by_vectors(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Return `search_block` as vector code: no branch but the loop."""
    wanted = operations(semiring, dtype)
    assert wanted is not None
    wanted = wanted._replace(is_careful=guard(semiring, dtype) is not Guard.NONE)
    chunk = min(steps, WORD_BITS)
    code = v.VectorCode(VectorUnit("chunk", (), chunk * dtype.itemsize, 1, 1), dtype)
    word, itemsize, none = ir.IntType(chunk), dtype.itemsize, v.size(steps)

    def first_match(b: v.Builder, of_a: Any, of_b: Any, value: Any) -> Any:
        """Return which term is the first to equal `value`, or `steps`: chunks from last to first."""
        found = none
        for begin in sorted({min(begin, steps - chunk) for begin in range(0, steps, chunk)}, reverse=True):
            x, y = (code.load(b, v.advance(b, row, begin * itemsize)) for row in (of_a, of_b))
            compare = b.fcmp_ordered if dtype.kind == "f" else b.icmp_signed
            bits = b.bitcast(compare("==", wanted.term(code, b, x, y), code.splat(b, value)), word)
            count = v.declare(b, f"llvm.cttz.i{chunk}", word, [word, v.BIT])
            position = b.call(count, [bits, ir.Constant(v.BIT, 1)])
            position = b.zext(position, v.SIZE) if chunk < WORD_BITS else position
            found = b.select(b.icmp_signed("!=", bits, ir.Constant(word, 0)), b.add(position, v.size(begin)), found)
        return found

    def emit(
        b: v.Builder, a: Any, slab: Any, columns: Any, values: Any, found: Any, stride: Any, count: Any, first: Any
    ) -> Any:
        def element(state: list[Any]) -> list[Any]:
            column, value, place, lost = state
            j = b.zext(b.load(column, typ=ir.IntType(16)), v.SIZE)
            of_b = v.advance(b, slab, b.mul(j, stride))
            k = first_match(b, a, of_b, b.load(value, typ=code.element))
            b.store(b.trunc(b.add(first, k), v.INDEX), place)
            following = [v.advance(b, x, step) for x, step in ((column, 2), (value, itemsize), (place, 4))]
            return [*following, b.or_(lost, b.zext(b.icmp_signed("==", k, none), v.SIZE))]

        *_, lost = v.loop(b, count, [columns, values, found, v.size(0)], element)
        return lost

    @intrinsic
    def search_block(typing_context: Any, a: Any, b: Any, columns: Any, values: Any, found: Any, first: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = (a, b, columns, values, found)
            parts = [context.make_array(t)(context, builder, x) for t, x in zip(kinds, arguments, strict=False)]
            pointers = [builder.bitcast(part.data, v.POINTER) for part in parts]
            stride, count = (builder.extract_value(x, 0) for x in (parts[1].strides, parts[2].shape))
            return emit(builder, *pointers, stride, count, arguments[-1])

        return types.intp(a, b, columns, values, found, types.intp), generate

    return search_block
