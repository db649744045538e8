"""The search for the smallest k that attains an element, in the block of k that it is known to come from.

    sort     of each row of a tile of C: its columns by their block
    search   for q: for each row i of the tile, for each column j of block q:
             argk := the first p of the block with a[i, p] (x) b[p, j] == c[i, j]

A (x) of one pair rounds the same each time, so equality finds the term exactly. A block is compared as a few vectors
along k, without a branch that depends on values, so that several elements are looked up at the same time; sorted, they
find what they read in L2, where by row and column they would wait for main memory (n = 2048: 30 ns each). Who looks up
a block asks for the next slab of B, whose lines are wanted in no order that the processor could foresee.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic

from backends.cpu import _vector_code as v
from backends.cpu._block_tracker import BLOCK
from backends.cpu._generated_kernel import INTO_L2
from backends.cpu._jit import jit, output, scalar, scratch
from backends.cpu._operators import operators
from backends.cpu._vector_operators import Guard, guard, operations
from backends.cpu._vector_unit import VectorUnit
from harness.operands import CACHE_LINE
from harness.semiring import Semiring

WORD_BITS = 64  # terms compared at once, at most
ORDER = np.dtype(np.uint16)  # of the numbers of columns in a tile
PADDING = 32  # elements that rows of sorted ones are kept apart: a power of two would share sets of the caches


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
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, height: int, width: int,
        missing: np.ndarray,
    ) -> None:  # fmt: skip
        """Search tile by tile of `height` rows and `width` columns."""
        rows, columns = c.shape
        blocks = a.shape[0]
        length = (width // PADDING | 1) * PADDING + PADDING
        for part in prange((rows + height - 1) // height):
            upper, lower = part * height, min((part + 1) * height, rows)
            order, values = np.empty((height, length), ORDER), np.empty((height, length), c.dtype)
            found, ends = np.empty((height, length), np.int32), np.empty((height, blocks + 1), np.int32)
            last = 0
            for left in range(0, columns, width):
                right = min(left + width, columns)
                for i in range(upper, lower):
                    row = i - upper
                    _sort(block[i, left:right], c[i, left:right], order[row], values[row], ends[row])
                    found[row, : ends[row, 0]] = -1
                for q in range(blocks):
                    ahead = b[min(q + 1, blocks - 1), left:right]
                    place = search_block(a[q, upper:lower], b[q, left:right], ahead, order, values, found, ends, q)
                    last = max(last, place)
                for i in range(upper, lower):
                    row = argk[i, left:right]
                    for place in range(row.size):
                        row[np.uintp(order[i - upper, place])] = found[i - upper, place]
            if last == steps:
                missing[0] = 1

    slabs = types.Array(scalar(dtype), 3, "A", readonly=True)
    numbers = output(BLOCK)
    c, missing = output(dtype), scratch(np.dtype(np.int64), 1)
    return jit(semiring, slabs, slabs, c, numbers, numbers, types.intp, types.intp, missing)(search)


def build_search_block(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Return ``search_block(a, b, ahead, order, values, found, ends, q)``: some rows' elements of block q are found.

    It returns the last place in a block at which one was found, or `steps` if one was found nowhere. On the way it asks
    for the cache lines of `ahead`. As vector code where there is vector code of (x), else term by term.
    """
    if not numba.config.DISABLE_JIT and operations(semiring, dtype) is not None:
        return _search_block_by_vectors(semiring, dtype, steps)
    multiply = operators(semiring, dtype).multiply

    @numba.njit(error_model="numpy")
    def search_block(
        a: np.ndarray, b: np.ndarray, ahead: np.ndarray, order: np.ndarray, values: np.ndarray, found: np.ndarray,
        ends: np.ndarray, q: int,
    ) -> int:  # fmt: skip
        last = 0
        for i in range(len(a)):
            for place in range(ends[i, q], ends[i, q + 1]):
                k, j = steps, order[i, place]
                for step in range(steps - 1, -1, -1):
                    k = step if multiply(a[i, step], b[j, step]) == values[i, place] else k
                last = max(last, k)
                found[i, place] = q * steps + k
        return last

    return search_block


def _data(b: v.Builder, array: Any) -> Any:
    """Return the address of an array's first element."""
    return b.bitcast(array.data, v.POINTER)


def _search_block_by_vectors(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Return `search_block` as vector code: no branch but the loops."""
    wanted = operations(semiring, dtype)
    assert wanted is not None
    wanted = wanted._replace(is_careful=guard(semiring, dtype) is not Guard.NONE)
    chunk = min(steps, WORD_BITS)
    code = v.VectorCode(VectorUnit("chunk", (), chunk * dtype.itemsize, 1, 1), dtype)
    word, itemsize = ir.IntType(chunk), dtype.itemsize

    begins = sorted({min(begin, steps - chunk) for begin in range(0, steps, chunk)}, reverse=True)

    def chunks(b: v.Builder, row: Any) -> list[Any]:
        """Load a block, from its last chunk to its first."""
        return [code.load(b, v.advance(b, row, begin * itemsize)) for begin in begins]

    def first_match(b: v.Builder, of_a: list[Any], of_b: list[Any], value: Any) -> Any:
        """Return which term is the first to equal `value`, or `steps`."""
        found = v.size(steps)
        for begin, x, y in zip(begins, of_a, of_b, strict=True):
            compare = b.fcmp_ordered if dtype.kind == "f" else b.icmp_signed
            bits = b.bitcast(compare("==", wanted.term(code, b, x, y), code.splat(b, value)), word)
            count = v.declare(b, f"llvm.cttz.i{chunk}", word, [word, v.BIT])
            position = b.call(count, [bits, ir.Constant(v.BIT, 1)])
            position = b.zext(position, v.SIZE) if chunk < WORD_BITS else position
            found = b.select(b.icmp_signed("!=", bits, ir.Constant(word, 0)), b.add(position, v.size(begin)), found)
        return found

    def emit(b: v.Builder, arrays: list[Any], q: Any) -> Any:
        slab_of_a, slab_of_b, ahead, *sorted_rows, ends = arrays
        count, first = b.extract_value(slab_of_a.shape, 0), b.mul(q, v.size(steps))
        lines = b.udiv(b.mul(b.extract_value(ahead.shape, 0), v.size(steps * itemsize)), v.size(CACHE_LINE))
        lines_a_row = b.udiv(b.add(lines, b.sub(count, v.size(1))), count)

        def ask(state: list[Any]) -> list[Any]:
            v.prefetch(b, state[0], INTO_L2)
            return [v.advance(b, state[0], CACHE_LINE)]

        def row(state: list[Any]) -> list[Any]:
            """Ask for a part of what comes next; look up the elements of one row."""
            line, of_a, order, values, found, range_of, last = state
            block_of_a = chunks(b, of_a)
            (line,) = v.loop(b, lines_a_row, [line], ask)
            begin, end = (
                b.sext(b.load(v.advance(b, range_of, place * BLOCK.itemsize), typ=v.INDEX), v.SIZE) for place in (0, 1)
            )
            places = [
                v.advance(b, x, b.mul(begin, v.size(step)))
                for x, step in ((order, ORDER.itemsize), (values, itemsize), (found, BLOCK.itemsize))
            ]

            def element(state: list[Any]) -> list[Any]:
                column, value, place, last = state
                j = b.zext(b.load(column, typ=ir.IntType(16)), v.SIZE)
                of_b = v.advance(b, _data(b, slab_of_b), b.mul(j, b.extract_value(slab_of_b.strides, 0)))
                k = first_match(b, block_of_a, chunks(b, of_b), b.load(value, typ=code.element))
                b.store(b.trunc(b.add(first, k), v.INDEX), place)
                following = [v.advance(b, x, step) for x, step in ((column, 2), (value, itemsize), (place, 4))]
                return [*following, b.select(b.icmp_signed(">", k, last), k, last)]

            *_, last = v.loop(b, b.sub(end, begin), [*places, last], element)
            rows = zip((of_a, order, values, found, range_of), (slab_of_a, *sorted_rows, ends), strict=True)
            return [line, *(v.advance(b, x, b.extract_value(array.strides, 0)) for x, array in rows), last]

        starts = [_data(b, x) for x in (ahead, slab_of_a, *sorted_rows)]
        first_range = v.advance(b, _data(b, ends), b.mul(q, v.size(BLOCK.itemsize)))
        *_, last = v.loop(b, count, [*starts, first_range, v.size(0)], row)
        return last

    @intrinsic
    def search_block(
        typing_context: Any, a: Any, b: Any, ahead: Any, order: Any, values: Any, found: Any, ends: Any, q: Any
    ) -> Any:
        kinds = (a, b, ahead, order, values, found, ends)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [context.make_array(t)(context, builder, x) for t, x in zip(kinds, arguments, strict=False)]
            return emit(builder, arrays, arguments[-1])

        return types.intp(*kinds, types.intp), generate

    return search_block
