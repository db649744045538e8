"""The search for the smallest k that attains an element, in the block of k that it is known to come from.

    panel    some columns of B, transposed                                  their rows share L2
    search   for each row i, for each column j of the panel:
             argk := the first p of block[i, j] with a[i, p] (x) b[p, j] == c[i, j]

(x) of the same pair rounds the same each time, so a comparison for equality finds the term. A row takes three passes
over arrays in L1: first index of each block, mask of equal terms, first bit of the mask. A mask is made block by block,
as a few vectors along k. No pass branches on values, so the processor overlaps several elements. Rows of A stream past
the panel; while one is searched, the next is prefetched.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, prange, types
from numba.core import cgutils

from backends.cpu._compile.call_by_address import address_of, call, call_function
from backends.cpu._compile.functions import compile_functions
from backends.cpu._ladder.jit import jit, scalar, scratch, strided
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.block_tracker import BLOCK, NO_BLOCK
from backends.cpu._simd.kernel import INTO_L1, KernelKey
from backends.cpu._simd.packing import build_gather
from backends.cpu._vector import code as v
from backends.cpu._vector.intrinsics import Emit, as_pointer, emits
from backends.cpu._vector.operators import Operations, operations
from backends.cpu._vector.unit import VectorUnit, usable_units
from harness.operands import CACHE_LINE
from harness.semiring import Semiring

WORD_BITS = 64  # terms compared at once, at most: a chunk
GROUP = 16  # columns between two groups of prefetches for the next row
POSITION = np.dtype(np.int32)


@functools.cache
def build_search(semiring: Semiring, dtype: np.dtype[Any], steps: int, is_careful: bool = False) -> Any:
    """Compile ``search(a, b, c, block, argk, across, height, panels, missing)``: the smallest k in its block.

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
        return _build_search_by_terms(semiring, dtype, steps)
    word, compare = word_of(steps), _compare(semiring, dtype, steps, is_careful)
    search_part, run, chunks = build_search_part(word), build_run_parts(), len(chunk_begins(steps))
    gather = address_of(_gather_of(dtype))

    def search(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, across: int, height: int,
        panels: np.ndarray, missing: np.ndarray,
    ) -> None:  # fmt: skip
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

        run(address_of(search_part), np.array([words(part) for part in range(parts)], np.int64))

    return search


def _address(x: np.ndarray, *index: int) -> int:
    """Return the address of an element, or of the first one of a row."""
    address: int = x.ctypes.data
    return address + sum(i * stride for i, stride in zip(index, x.strides, strict=False))


def _build_search_by_terms(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Compile the search for operations without vector code."""
    transpose, search_panel = build_transpose(dtype), _search_panel_by_terms(semiring, dtype, steps)

    def search(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, across: int, height: int,
        panels: np.ndarray, missing: np.ndarray,
    ) -> None:  # fmt: skip
        """Search part by part and panel by panel."""
        (m, n), (parts, width, _) = c.shape, panels.shape
        down = parts // across
        for part in prange(parts):
            i, j = np.intp(part) // across, np.intp(part) % across
            bottom, end = m * (i + 1) // down, n * (j + 1) // across
            for upper in range(m * i // down, bottom, height):
                lower = min(upper + height, bottom)
                for left in range(n * j // across, end, width):
                    right = min(left + width, end)
                    panel = panels[part, : right - left]
                    transpose(b[:, left:right], panel)
                    tile = (c[upper:lower, left:right], block[upper:lower, left:right], argk[upper:lower, left:right])
                    if search_panel(a[upper:lower], panel, *tile):
                        missing[part] = 1

    return jit(
        semiring, strided(dtype), strided(dtype), scratch(dtype, 2), scratch(BLOCK, 2), scratch(POSITION, 2),
        types.intp, types.intp, scratch(dtype, 3), scratch(np.dtype(np.int64), 1),
    )(search)  # fmt: skip


@functools.cache
def build_transpose(dtype: np.dtype[Any]) -> Any:
    """Return ``transpose(b, panel)``: ``panel[j, p] := b[p, j]``."""
    if numba.config.DISABLE_JIT:
        return _transpose_in_python
    gather = _gather_of(dtype)

    def transpose(b: np.ndarray, panel: np.ndarray) -> None:
        (k, n), (row_stride, stride) = b.shape, b.strides
        gather(n, k, b.ctypes.data, stride, row_stride, panel.ctypes.data, panel.strides[0])

    return jit(None, strided(dtype), scratch(dtype, 2), parallel=False)(transpose)


def _gather_of(dtype: np.dtype[Any]) -> Any:
    """Return the function that copies a block, as the widest unit has it."""
    unit = usable_units()[0]
    return build_gather(KernelKey(Operations("min", "plus", 0), dtype.name, unit.name, unit.mr, unit.nv))


def _transpose_in_python(b: np.ndarray, panel: np.ndarray) -> None:
    panel[:, : len(b)] = b.T


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


@functools.cache
def build_run_parts() -> Any:
    """Compile ``run(function, table)``: call a function, by its address, with the address of each row."""

    def run(function: int, table: np.ndarray) -> None:
        for part in prange(table.shape[0]):
            call(function, (table[part].ctypes.data,))

    return jit(None, types.intp, types.Array(types.int64, 2, "C"))(run)


def searches_by_vectors(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether there is vector code of (x), and it can run."""
    return not numba.config.DISABLE_JIT and operations(semiring, dtype) is not None


def _search_panel_by_terms(semiring: Semiring, dtype: np.dtype[Any], steps: int) -> Any:
    """Return ``search_panel(a, panel, c, block, argk)``: whether an element is attained by no term of its block."""
    multiply = operators(semiring, dtype).multiply

    @numba.njit(error_model="numpy")
    def search_panel(a: np.ndarray, panel: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray) -> bool:
        (rows, count), is_missing = c.shape, False
        for i in range(rows):
            for j in range(count):
                k, begin = NO_BLOCK, min(np.intp(block[i, j]) * steps, a.shape[1] - steps)
                if block[i, j] != NO_BLOCK:
                    for p in range(begin + steps - 1, begin - 1, -1):
                        k = p if multiply(a[i, p], panel[j, p]) == c[i, j] else k
                    is_missing |= k == NO_BLOCK
                argk[i, j] = k
        return is_missing

    return search_panel


def chunk_begins(steps: int) -> list[int]:
    """Return the offsets in a block of the chunks that are compared at once, the last first."""
    chunk = min(steps, WORD_BITS)
    return sorted({min(begin, steps - chunk) for begin in range(0, steps, chunk)}, reverse=True)


def word_of(steps: int) -> np.dtype[Any]:
    """Return the unsigned integer that has a bit for each term of a chunk."""
    return np.dtype(f"u{max(1 << (min(steps, WORD_BITS) - 1).bit_length(), 8) // 8}")


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


def _compare(semiring: Semiring, dtype: np.dtype[Any], steps: int, is_careful: bool) -> int:
    """Compile ``compare(count, a, panel, panel_stride, c, starts, masks, masks_stride, *ahead)``; return its address.

    All are addresses, sizes and strides in bytes. ``masks[i, j]`` becomes the mask of terms equal to ``c[j]`` in chunk
    i of `chunk_begins`, in the block that begins ``starts[j]`` bytes into the row. Meanwhile the next rows of A, C,
    argk and blocks are prefetched. The only branches are loops.
    """
    ops = operations(semiring, dtype)
    assert ops is not None
    ops = ops._replace(is_careful=is_careful)

    def emit(module: ir.Module) -> list[Any]:
        return [v.own_function(module, "compare", [v.SIZE] * 13, _emit_compare(ops, dtype, steps))]

    (address,) = compile_functions("compare", (ops, dtype.name, steps), emit, unrolls=True)
    return address


def _emit_compare(ops: Operations, dtype: np.dtype[Any], steps: int) -> Emit:
    """Return the emitter of `_compare`."""
    chunk, word, itemsize, begins = min(steps, WORD_BITS), word_of(steps), dtype.itemsize, chunk_begins(steps)
    code = v.VectorCode(VectorUnit("chunk", (), chunk * itemsize, 1, 1), dtype)
    is_float = dtype.kind == "f"
    # no term of a NaN of A equals anything: a test of A is cheaper than the careful (x)
    term = ops._replace(is_careful=ops.is_careful and not is_float).term

    def equal_terms(b: v.Builder, of_a: Any, of_b: Any, value: Any) -> Any:
        x, y = code.load(b, of_a), code.load(b, of_b)
        equal = (b.fcmp_ordered if is_float else b.icmp_signed)("==", term(code, b, x, y), value)
        if ops.is_careful and is_float:
            equal = b.and_(equal, b.fcmp_ordered("ord", x, x))
        bits, whole = b.bitcast(equal, ir.IntType(chunk)), v.element_type(word)
        return b.zext(bits, whole) if chunk < whole.width else bits

    def emit(b: v.Builder, *values: Any) -> None:
        count, a, panel, panel_stride, c, starts, masks, masks_stride, next_a, a_bytes, *ahead = values
        a, panel, c, starts, masks, next_a, *ahead = (
            b.inttoptr(x, v.POINTER) for x in (a, panel, c, starts, masks, next_a, *ahead)
        )
        groups = b.udiv(b.add(count, v.size(GROUP - 1)), v.size(GROUP))
        lines = b.udiv(b.add(a_bytes, v.size(CACHE_LINE - 1)), v.size(CACHE_LINE))
        lines_a_group = b.udiv(b.add(lines, b.sub(groups, v.size(1))), groups)

        def ask(state: list[Any]) -> list[Any]:
            v.prefetch(b, state[0], INTO_L1)
            return [v.advance(b, state[0], CACHE_LINE)]

        def element(state: list[Any]) -> list[Any]:
            j, of_b = state
            value, start, mask = (
                v.advance(b, row, b.mul(j, v.size(width)))
                for row, width in ((c, itemsize), (starts, POSITION.itemsize), (masks, word.itemsize))
            )
            wide, begin = code.broadcast(b, value), b.sext(b.load(start, typ=v.INDEX), v.SIZE)
            for i, offset in enumerate(begins):
                addresses = (v.advance(b, v.advance(b, row, begin), offset * itemsize) for row in (a, of_b))
                b.store(equal_terms(b, *addresses, wide), v.advance(b, mask, b.mul(masks_stride, v.size(i))))
            return [b.add(j, v.size(1)), v.advance(b, of_b, panel_stride)]

        widths = (GROUP * itemsize, GROUP * POSITION.itemsize, GROUP * BLOCK.itemsize)

        def group(state: list[Any]) -> list[Any]:
            line, left, *state = state
            ahead, state = state[: len(widths)], state[len(widths) :]
            (line,) = v.loop(b, lines_a_group, [line], ask)
            for address, width in zip(ahead, widths, strict=True):
                for offset in range(0, width, CACHE_LINE):
                    v.prefetch(b, v.advance(b, address, offset), INTO_L1)
            ahead = [v.advance(b, address, width) for address, width in zip(ahead, widths, strict=True)]
            here = v.smaller(b, left, v.size(GROUP))
            return [line, b.sub(left, here), *ahead, *v.loop(b, here, state, element)]

        v.loop(b, groups, [next_a, count, *ahead, v.size(0), panel], group)

    return emit
