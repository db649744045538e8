"""The search for the smallest k that attains an element, in the block of k that it is known to come from.

    panel    some columns of B, transposed                                  their rows share L2
    search   for each row i, for each column j of the panel:
             argk := the first p of block[i, j] with a[i, p] (x) b[p, j] == c[i, j]

A row takes three passes over arrays in L1: first index of each block, mask of equal terms (`_argk.matches`), first bit
of the mask. No pass branches on values, so the processor overlaps several elements. Rows of A stream past the panel;
while one is searched, the next is prefetched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, prange, types
from numba.core import cgutils

from backends.cpu._argk.by_terms import build_search_by_terms
from backends.cpu._argk.matches import POSITION, WORD_BITS, chunk_begins, compile_compare, word_of
from backends.cpu._argk.transpose import gather_of
from backends.cpu._compile.call_by_address import address_of, call, call_function
from backends.cpu._ladder.jit import jit, scalar
from backends.cpu._simd.block_tracker import BLOCK, NO_BLOCK
from backends.cpu._vector import code as v
from backends.cpu._vector.intrinsics import as_pointer, emits
from backends.cpu._vector.operators import operations
from harness.semiring import Semiring


@functools.cache
def build_search(semiring: Semiring, dtype: np.dtype[Any], steps: int, is_careful: bool = False) -> Any:
    """Compile ``prepare(a, b, c, block, argk, across, height, panels, missing)``, which returns ``search()``.

    That writes the smallest k in its block, for whatever the arrays hold when it is called.

    a : (m, k) array
        Rows contiguous, k >= steps.
    b : (k', n) array
        Of any strides, k' <= k; columns of A beyond k' hold no terms.
    c, block, argk : (m, n) array
        C-contiguous, `block` of int8, `argk` of int32. Where the number of a block is -1, so is argk.
    across, height : int
        Parts that share the columns of C; parts / across share its rows. Rows of C that pass a panel.
    panels : (parts, width, length) array
        Work memory for columns of B, length >= k.
    missing : (parts,) array of int64
        Becomes 1 where an element is attained by no term of its block.
    """
    if not searches_by_vectors(semiring, dtype):
        return build_search_by_terms(semiring, dtype, steps)
    word, compare = word_of(steps), compile_compare(semiring, dtype, steps, is_careful)
    search_part, run, chunks = build_search_part(word), build_run_parts(), len(chunk_begins(steps))
    gather = address_of(gather_of(dtype))

    def prepare(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, across: int, height: int,
        panels: np.ndarray, missing: np.ndarray,
    ) -> Callable[[], None]:  # fmt: skip
        (m, n), (parts, width, _), down = c.shape, panels.shape, len(panels) // across
        starts, masks = np.empty((parts, width), POSITION), np.empty((parts, chunks, width), word)
        same = {
            "k": a.shape[1], "k_of_b": len(b), "rs_a": a.strides[0], "rs_b": b.strides[0], "cs_b": b.strides[1],
            "rs_c": c.strides[0], "rs_block": block.strides[0], "rs_argk": argk.strides[0],
            "rs_panel": panels.strides[1], "rs_masks": masks.strides[1], "height": height, "width": width,
            "itemsize": dtype.itemsize, "steps": steps, "chunks": chunks, "compare": compare, "gather": gather,
        }  # fmt: skip

        def words(part: int) -> list[int]:
            i, j = divmod(part, across)
            top, bottom, left, right = m * i // down, m * (i + 1) // down, n * j // across, n * (j + 1) // across
            own = {
                "rows": bottom - top, "columns": right - left, "a": _address(a, top), "b": _address(b, 0, left),
                "c": _address(c, top, left), "block": _address(block, top, left), "argk": _address(argk, top, left),
                "panel": _address(panels, part), "starts": _address(starts, part), "masks": _address(masks, part),
                "missing": _address(missing, part),
            }  # fmt: skip
            return [(same | own)[name] for name in PART]

        table, function = np.array([words(part) for part in range(parts)], np.int64), address_of(search_part)

        def search() -> None:
            run(function, table)

        search.refers_to = a, b, c, block, argk, panels, missing, starts, masks  # type: ignore[attr-defined] # by address
        return search

    return prepare


def _address(x: np.ndarray, *index: int) -> int:
    """Return the address of an element, or of the first one of a row."""
    address: int = x.ctypes.data
    return address + sum(i * stride for i, stride in zip(index, x.strides, strict=False))


def searches_by_vectors(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether there is vector code of (x), and it can run."""
    return not numba.config.DISABLE_JIT and operations(semiring, dtype) is not None


# The words of a part of C: sizes of C, A and B; addresses and strides in bytes; and what `build_search` says.
PART = """
    rows columns k k_of_b a rs_a b rs_b cs_b c rs_c block rs_block argk rs_argk
    height width itemsize steps chunks compare gather panel starts masks missing rs_panel rs_masks
""".split()


@emits(types.UniTuple(types.intp, len(PART)), types.intp)
def _words_at(b: v.Builder, address: v.Value) -> v.Value:
    """Return the words of a part."""
    part = b.inttoptr(address, v.POINTER)
    return cgutils.pack_array(b, [b.load(v.advance(b, part, 8 * i), typ=v.SIZE) for i in range(len(PART))])


@functools.cache
def build_search_part(word: np.dtype[Any]) -> Any:
    """Compile ``search_part(part)``, the address of its words: panel by panel, row by row.

    The same for every semiring and dtype: `gather` and `compare` are addresses of functions. Where an element is
    attained by no term of its block, the word at `missing` becomes 1.
    """
    first_bit, chunk_bits, wide = _first_bit_intrinsic(word), WORD_BITS, POSITION.itemsize
    nowhere, nothing = np.int32(NO_BLOCK), np.int32(0)  # int64 would halve the lanes of a vector

    def search_part(part: int) -> None:
        (
            rows, columns, k, k_of_b, a, rs_a, b, rs_b, cs_b, c, rs_c, block, rs_block, argk, rs_argk,
            height, width, itemsize, steps, chunks, compare, gather, panel, starts, masks, missing, rs_panel, rs_masks,
        ) = _words_at(part)  # fmt: skip
        latest, furthest, step, size = np.int32(k - steps), nothing, np.int32(steps), np.int32(itemsize)
        for upper in range(0, rows, height):
            lower = min(upper + height, rows)
            for left in range(0, columns, width):
                count = min(width, columns - left)
                call(gather, (count, k_of_b, b + left * cs_b, cs_b, rs_b, panel, rs_panel))
                start = carray(as_pointer(starts), (count,), POSITION)
                for i in range(upper, lower):
                    ahead = min(i + 1, lower - 1)
                    which = carray(as_pointer(block + i * rs_block + left), (count,), BLOCK)
                    nearest = carray(as_pointer(argk + i * rs_argk + left * wide), (count,), POSITION)
                    for j in range(count):
                        start[j] = max(min(np.int32(which[j] * step), latest), nothing) * size
                    call_function(compare, (
                        count, a + i * rs_a, panel, rs_panel, c + i * rs_c + left * itemsize, starts, masks, rs_masks,
                        a + ahead * rs_a, k * itemsize, c + ahead * rs_c + left * itemsize,
                        argk + ahead * rs_argk + left * wide, block + ahead * rs_block + left,
                    ))  # fmt: skip
                    for chunk in range(chunks):  # the last of a block first
                        equal = carray(as_pointer(masks + chunk * rs_masks), (count,), word)
                        begin = np.int32(max(min((chunks - 1 - chunk) * chunk_bits, steps - chunk_bits), 0))
                        for j in range(count):
                            before = nearest[j] if chunk > 0 else step
                            nearest[j] = begin + first_bit(equal[j]) if equal[j] != 0 else before
                    for j in range(count):
                        q, position = np.int32(which[j]), nearest[j]
                        begin = max(min(np.int32(q * step), latest), nothing)
                        looked = position if q >= nothing else nothing
                        furthest = looked if looked > furthest else furthest  # noqa: FURB136 (a reduction to LLVM)
                        nearest[j] = np.int32(begin + position) if q >= nothing else nowhere
        if furthest == step:
            carray(as_pointer(missing), (1,), np.int64)[0] = 1

    return jit(None, types.intp, parallel=False)(search_part)


def _first_bit_intrinsic(word: np.dtype[Any]) -> Any:
    """Return the intrinsic ``first_bit(word)``, of int32: the position of the lowest bit that is set."""

    @emits(types.int32, scalar(word))
    def first_bit(b: v.Builder, bits: v.Value) -> v.Value:
        count = v.declare(b, f"llvm.cttz.i{bits.type.width}", bits.type, [bits.type, v.BIT])
        position = b.call(count, [bits, ir.Constant(v.BIT, 0)])
        if bits.type.width == v.INDEX.width:
            return position
        return (b.trunc if bits.type.width > v.INDEX.width else b.zext)(position, v.INDEX)

    return first_bit


@functools.cache
def build_run_parts() -> Any:
    """Compile ``run(function, table)``: call a function, by its address, with the address of each row."""

    def run(function: int, table: np.ndarray) -> None:
        for part in prange(table.shape[0]):
            call(function, (table[part].ctypes.data,))

    return jit(None, types.intp, types.Array(types.int64, 2, "C"))(run)
