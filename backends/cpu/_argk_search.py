"""The search for the smallest k that attains an element, in the block of k that it is known to come from.

    panel    some columns of B, transposed                                  their rows share L2
    search   for each row i, for each column j of the panel:
             argk := the first p of block[i, j] with a[i, p] (x) b[p, j] == c[i, j]

A (x) of one pair rounds the same each time, so equality finds the term exactly. A block is compared as a few vectors
along k, without a branch that depends on values, so that several elements are looked up at the same time. Rows of A
stream past the panel; while one is looked at, all that the next one needs is asked for.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import prange

from backends.cpu import _vector_code as v
from backends.cpu._block_tracker import BLOCK, NO_BLOCK
from backends.cpu._generated_kernel import INTO_L1, KernelKey, size_intrinsic
from backends.cpu._generated_packing import build_gather
from backends.cpu._jit import jit, scratch, strided
from backends.cpu._operators import operators
from backends.cpu._vector_operators import Operations, operations
from backends.cpu._vector_unit import VectorUnit, usable_units
from harness.operands import CACHE_LINE
from harness.semiring import Semiring

WORD_BITS = 64  # terms compared at once, at most
GROUP = 16  # columns between two requests for what the next row needs
PLACE = np.dtype(np.int32)


@functools.cache
def build_search(semiring: Semiring, dtype: np.dtype[Any], steps: int, is_careful: bool = False) -> Any:
    """Compile ``search(a, b, c, block, argk, panels, missing)``: from the number of its block, the smallest k.

    a : (m, k) array
        Rows contiguous, k >= steps.
    b : (k', n) array
        Of any strides, k' <= k: if it is less, what the columns of A beyond it hold is no term.
    c, block, argk : (m, n) array
        C-contiguous, `block` of int8, `argk` of int32. Where the number of a block is -1, so is argk.
    panels : (parts, width, length) array
        Rows of C are shared by the parts. Work memory for columns of B, length >= k.
    missing : (parts,) array of int64
        Becomes 1 where an element is attained by no term of its block.
    """
    search_row, transpose = build_search_row(semiring, dtype, steps, is_careful), build_transpose(dtype)

    def search(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, panels: np.ndarray,
        missing: np.ndarray,
    ) -> None:  # fmt: skip
        """Search part by part and panel by panel."""
        (m, n), (parts, width, _) = c.shape, panels.shape
        for part in prange(parts):
            upper, lower = m * part // parts, m * (part + 1) // parts
            for left in range(0, n, width):
                right = min(left + width, n)
                panel = panels[part, : right - left]
                transpose(b[:, left:right], panel)
                for i in range(upper, lower):
                    row = (c[i, left:right], block[i, left:right], argk[i, left:right])
                    following = min(i + 1, lower - 1)
                    ahead = (a[following], c[following, left:right], argk[following, left:right])
                    if search_row(a[i], panel, *row, *ahead):
                        missing[part] = 1

    return jit(
        semiring, strided(dtype), strided(dtype), scratch(dtype, 2), scratch(BLOCK, 2), scratch(PLACE, 2),
        scratch(dtype, 3), scratch(np.dtype(np.int64), 1),
    )(search)  # fmt: skip


@functools.cache
def build_transpose(dtype: np.dtype[Any]) -> Any:
    """Return ``transpose(b, panel)``: ``panel[j, p] := b[p, j]``."""
    if numba.config.DISABLE_JIT:
        return _transpose_in_python
    unit = usable_units()[0]
    gather = build_gather(KernelKey(Operations("min", "plus", 0), dtype.name, unit.name, unit.mr, unit.nv))

    def transpose(b: np.ndarray, panel: np.ndarray) -> None:
        (k, n), (row_stride, stride) = b.shape, b.strides
        gather(n, k, b.ctypes.data, stride, row_stride, panel.ctypes.data, panel.strides[0])

    return jit(None, strided(dtype), scratch(dtype, 2), parallel=False)(transpose)


def _transpose_in_python(b: np.ndarray, panel: np.ndarray) -> None:
    panel[:, : len(b)] = b.T


def build_search_row(semiring: Semiring, dtype: np.dtype[Any], steps: int, is_careful: bool) -> Any:
    """Return ``search_row(a, panel, c, block, argk, *ahead)``, which writes `argk` of a row of C and a panel.

    It returns whether an element is attained by no term of its block, and on the way asks for the rows of A, of C and
    of argk that come next. As vector code where there is vector code of (x), in its careful form if need be, else term
    by term.
    """
    if not searches_by_vectors(semiring, dtype):
        return _search_row_by_terms(semiring, dtype, steps)
    wanted = operations(semiring, dtype)
    assert wanted is not None
    find, itemsize = _find_by_vectors(wanted._replace(is_careful=is_careful), dtype, steps), dtype.itemsize
    step, nowhere, nothing = np.int32(steps), np.int32(NO_BLOCK), np.int32(0)  # int64 would halve the width of vectors

    @numba.njit
    def search_row(
        a: np.ndarray, panel: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, next_a: np.ndarray,
        next_c: np.ndarray, next_argk: np.ndarray,
    ) -> bool:  # fmt: skip
        count, latest = argk.size, np.int32(a.size - steps)
        for j in range(count):
            argk[j] = max(min(np.int32(block[j] * step), latest), nothing)
        row = (count, a.ctypes.data, panel.ctypes.data, panel.strides[0], c.ctypes.data, argk.ctypes.data)
        find((*row, next_a.ctypes.data, a.size * itemsize, next_c.ctypes.data, next_argk.ctypes.data))
        lost = nothing
        for j in range(count):
            q, place = np.int32(block[j]), argk[j]
            begin = max(min(np.int32(q * step), latest), nothing)
            lost |= np.int32((place == step) & (q >= nothing))
            argk[j] = np.int32(begin + place) if q >= nothing else nowhere
        return lost != nothing

    return search_row


def searches_by_vectors(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Whether there is vector code of (x), and it can run."""
    return not numba.config.DISABLE_JIT and operations(semiring, dtype) is not None


def _search_row_by_terms(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    multiply = operators(semiring, dtype).multiply

    @numba.njit(error_model="numpy")
    def search_row(
        a: np.ndarray, panel: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, next_a: np.ndarray,
        next_c: np.ndarray, next_argk: np.ndarray,
    ) -> bool:  # fmt: skip
        is_missing = False
        for j in range(c.size):
            k, begin = NO_BLOCK, min(np.intp(block[j]) * steps, a.size - steps)
            if block[j] != NO_BLOCK:
                for p in range(begin + steps - 1, begin - 1, -1):
                    k = p if multiply(a[p], panel[j, p]) == c[j] else k
                is_missing |= k == NO_BLOCK
            argk[j] = k
        return is_missing

    return search_row


def _find_by_vectors(wanted: Operations, dtype: np.dtype[Any], steps: int) -> Any:
    """Return the intrinsic ``find((count, a, panel, panel_stride, c, places, *ahead))``, of addresses.

    ``places[j]``, where a block begins, becomes where in it ``c[j]`` is attained first, or `steps`; on the way the
    next row of A, of so many bytes, of C and of places are asked for. No branch but the loops.
    """
    chunk = min(steps, WORD_BITS)
    code = v.VectorCode(VectorUnit("chunk", (), chunk * dtype.itemsize, 1, 1), dtype)
    word, itemsize = ir.IntType(chunk), dtype.itemsize
    begins = sorted({min(begin, steps - chunk) for begin in range(0, steps, chunk)}, reverse=True)

    def first_match(b: v.Builder, of_a: Any, of_b: Any, value: Any) -> Any:
        """Return which of `steps` terms is the first to equal `value`, or `steps`."""
        found = None
        for begin in begins:
            x, y = (code.load(b, v.advance(b, row, begin * itemsize)) for row in (of_a, of_b))
            compare = b.fcmp_ordered if dtype.kind == "f" else b.icmp_signed
            bits = b.bitcast(compare("==", wanted.term(code, b, x, y), code.splat(b, value)), word)
            count = v.declare(b, f"llvm.cttz.i{chunk}", word, [word, v.BIT])
            position = b.call(count, [bits, ir.Constant(v.BIT, 0)])  # of no bit: chunk
            position = b.add(b.zext(position, v.SIZE) if chunk < WORD_BITS else position, v.size(begin))
            found = position if found is None else b.select(b.icmp_signed("!=", bits, word(0)), position, found)
        return found

    def emit(b: v.Builder, values: list[Any]) -> None:
        count, a, panel, panel_stride, c, places, next_a, a_bytes, *ahead = values
        a, panel, c, places, next_a, *ahead = (b.inttoptr(x, v.POINTER) for x in (a, panel, c, places, next_a, *ahead))
        groups = b.udiv(b.add(count, v.size(GROUP - 1)), v.size(GROUP))
        lines = b.udiv(b.add(a_bytes, v.size(CACHE_LINE - 1)), v.size(CACHE_LINE))
        lines_a_group = b.udiv(b.add(lines, b.sub(groups, v.size(1))), groups)

        def ask(state: list[Any]) -> list[Any]:
            v.prefetch(b, state[0], INTO_L1)
            return [v.advance(b, state[0], CACHE_LINE)]

        def element(state: list[Any]) -> list[Any]:
            value, place, of_b = state
            begin = b.mul(b.sext(b.load(place, typ=v.INDEX), v.SIZE), v.size(itemsize))
            k = first_match(b, v.advance(b, a, begin), v.advance(b, of_b, begin), b.load(value, typ=code.element))
            b.store(b.trunc(k, v.INDEX), place)
            return [
                v.advance(b, value, itemsize),
                v.advance(b, place, PLACE.itemsize),
                v.advance(b, of_b, panel_stride),
            ]

        widths = (GROUP * itemsize, GROUP * PLACE.itemsize)

        def group(state: list[Any]) -> list[Any]:
            line, left, *state = state
            ahead, state = state[:2], state[2:]
            (line,) = v.loop(b, lines_a_group, [line], ask)
            for place, width in zip(ahead, widths, strict=True):
                for offset in range(0, width, CACHE_LINE):
                    v.prefetch(b, v.advance(b, place, offset), INTO_L1)
            ahead = [v.advance(b, place, width) for place, width in zip(ahead, widths, strict=True)]
            here = v.smaller(b, left, v.size(GROUP))
            return [line, b.sub(left, here), *ahead, *v.loop(b, here, state, element)]

        v.loop(b, groups, [next_a, count, *ahead, c, places, panel], group)

    return size_intrinsic(10, emit)
