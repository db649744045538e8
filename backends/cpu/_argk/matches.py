"""Masks of the terms that equal an element, as vector code along k: a few vectors yield a word of bits.

(x) of the same pair rounds the same each time, so a comparison for equality finds the term. A block of k is compared in
chunks of up to 64 terms, one word each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._ir.functions import compile_functions
from backends.cpu._simd.block_tracker import BLOCK
from backends.cpu._simd.prefetch import INTO_L1
from backends.cpu._vector import code as v
from backends.cpu._vector.intrinsics import Emit
from backends.cpu._vector.operators import Operations, operations
from backends.cpu._vector.unit import VectorUnit
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import dtype_name, is_float
from harness.operands import CACHE_LINE
from harness.semiring import Semiring

WORD_BITS = 64  # terms compared at once, at most: a chunk
GROUP = 16  # columns between two groups of prefetches for the next row
POSITION = np.dtype(np.int32)


def chunk_begins(steps: int) -> list[int]:
    """Return the offsets in a block of the chunks that are compared at once, the last first."""
    chunk = min(steps, WORD_BITS)
    return sorted({min(begin, steps - chunk) for begin in range(0, steps, chunk)}, reverse=True)


def word_of(steps: int) -> np.dtype[Any]:
    """Return the unsigned integer that has a bit for each term of a chunk."""
    return np.dtype(f"u{max(1 << (min(steps, WORD_BITS) - 1).bit_length(), 8) // 8}")


def compile_compare(semiring: Semiring, dtype: np.dtype[Any], steps: int, is_careful: bool) -> int:
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

    (address,) = compile_functions("compare", (ops, dtype_name(dtype), steps), emit, unrolls=True)
    return address


def _emit_compare(ops: Operations, dtype: np.dtype[Any], steps: int) -> Emit:
    """Return the emitter of `compile_compare`."""
    chunk, word, itemsize, begins = min(steps, WORD_BITS), word_of(steps), dtype.itemsize, chunk_begins(steps)
    code = VectorCode(VectorUnit("chunk", (), chunk * itemsize, 1, 1, 1), dtype)
    has_nan = is_float(dtype)
    # no term of a NaN of A equals anything: a test of A is cheaper than the careful (x)
    term = ops._replace(is_careful=ops.is_careful and not has_nan).term

    def equal_terms(b: v.Builder, of_a: Any, of_b: Any, value: Any) -> Any:
        x, y = code.load(b, of_a), code.load(b, of_b)
        equal = (b.fcmp_ordered if has_nan else b.icmp_signed)("==", term(code, b, x, y), value)
        if ops.is_careful and has_nan:
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
