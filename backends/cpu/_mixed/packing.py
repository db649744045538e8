"""Packing of narrow operands into words, from contiguous rows; a last word that k does not fill ends in zeros.

    A: a row of words for each row        elements along k are neighbours already: widened, and stored
    B: a row of words for each `group` of rows of B, a micro-panel as `_simd.packing` makes it

Where A is shifted to be unsigned, a panel of B begins with a row of -128 times the sums of its columns. The tiles of C
begin with these values; `seed` stores them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._mixed.methods import ONE_IN_BYTES, SIGN_OF_BYTES, WORD_BITS, Dot, MixedKey, widen
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import Emit
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import TABLE
from harness.operands import CACHE_LINE

SHIFT_BITS = 7  # of 128


def emit_pack_a(key: MixedKey) -> Emit:
    """Return the emitter of ``pack_a(rows, k, a, lda, target, target_stride, vector_stride)``, strides in bytes.

    Rows of `target` are written in whole vectors, `vector_stride` from one to the next.
    """
    method, code = key.method, key.kernel.code()
    elements = elements_of(key, code.lanes * method.group)

    def convert(b: Builder, source: Value, target: Value, edge: Value | None) -> None:
        words = b.bitcast(widen(method, b, elements.load(b, source, edge)), vector_of_words(code))
        if method.is_shifted:
            words = b.xor(words, ir.Constant(words.type, [SIGN_OF_BYTES] * code.lanes))
        b.store(words, target, align=1)

    def emit(
        b: Builder, rows: Value, k: Value, a: Value, lda: Value, target: Value, stride: Value, further: Value
    ) -> None:
        vectors, left = b.udiv(k, v.size(elements.lanes)), b.urem(k, v.size(elements.lanes))
        has_edge = b.icmp_signed(">", left, v.size(0))

        def row(state: list[Value]) -> list[Value]:
            def vector(ends: list[Value]) -> list[Value]:
                convert(b, *ends, None)
                return [v.advance(b, ends[0], elements.size_bytes), v.advance(b, ends[1], further)]

            ends = v.loop(b, vectors, state, vector)
            with b.if_then(has_edge):
                convert(b, *ends, elements.edge(b, left))
            return [v.advance(b, state[0], lda), v.advance(b, state[1], stride)]

        v.loop(b, rows, [b.inttoptr(a, v.POINTER), b.inttoptr(target, v.POINTER)], row)

    return emit


def emit_pack_b(key: MixedKey, vectors: int) -> Emit:
    """Return the emitter of ``pack_b(k, b, ldb, panel, lanes)``; `lanes` exist of the last of some vectors."""
    method, code = key.method, key.kernel.code()
    elements = elements_of(key, code.lanes)

    def emit(b: Builder, k: Value, source: Value, ldb: Value, panel: Value, lanes: Value) -> None:
        edges = [None] * (vectors - 1) + [elements.edge(b, lanes)]
        left = b.urem(k, v.size(method.group))

        def row(state: list[Value], is_last: bool = False) -> list[Value]:
            from_, to, *sums = state
            rows = [v.advance(b, from_, b.mul(ldb, v.size(t))) for t in range(method.group)]
            exists = [b.icmp_signed("<", v.size(t), left) for t in range(method.group)]
            if is_last:  # missing rows: another one is read, and not used
                rows = [b.select(there, x, from_) for there, x in zip(exists, rows, strict=True)]
            for j, edge in enumerate(edges):
                parts = [elements.load(b, v.advance(b, x, j * elements.size_bytes), edge) for x in rows]
                if is_last:
                    nothing = ir.Constant(elements.vector, None)
                    parts = [b.select(there, x, nothing) for there, x in zip(exists, parts, strict=True)]
                words = join(b, [widen(method, b, x) for x in parts])
                b.store(words, v.advance(b, to, j * code.size_bytes), align=1)
                if method.is_shifted:
                    sums[j] = Dot("plus", method.dot, 0).extend(code, b, sums[j], code.constant(ONE_IN_BYTES), words)
            further = v.advance(b, from_, b.mul(ldb, v.size(method.group)))
            return [further, v.advance(b, to, vectors * code.size_bytes), *sums]

        sums = [code.constant(0)] * vectors if method.is_shifted else []
        begin = v.advance(b, b.inttoptr(panel, v.POINTER), len(sums) * code.size_bytes)
        state = v.loop(b, b.udiv(k, v.size(method.group)), [b.inttoptr(source, v.POINTER), begin, *sums], row)
        is_partial = b.zext(b.icmp_signed(">", left, v.size(0)), v.SIZE)
        _, _, *sums = v.loop(b, is_partial, state, lambda state: row(state, is_last=True))
        for j, total in enumerate(sums):
            correction = b.neg(b.shl(total, code.constant(SHIFT_BITS)))
            b.store(correction, v.advance(b, b.inttoptr(panel, v.POINTER), j * code.size_bytes), align=1)

    return emit


def emit_seed(key: MixedKey, vectors: int) -> Emit:
    """Return the emitter of ``seed(rows, sums, c, ldc, accumulate, lanes)`` for tiles of some vectors.

    Every row of a tile of C becomes `sums`, or has it added if `accumulate` is not 0.
    """
    code = key.kernel.code()

    def emit(b: Builder, rows: Value, sums: Value, c: Value, ldc: Value, accumulate: Value, lanes: Value) -> None:
        edges = [None] * (vectors - 1) + [code.edge(b, lanes)]
        source = b.inttoptr(sums, v.POINTER)
        begin = [code.load(b, v.advance(b, source, j * code.size_bytes)) for j in range(vectors)]

        def row(state: list[Value], is_adding: bool) -> list[Value]:
            for j, edge in enumerate(edges):
                target = v.advance(b, state[0], j * code.size_bytes)
                value = b.add(begin[j], code.load(b, target, edge)) if is_adding else begin[j]
                code.store(b, value, target, edge)
            return [v.advance(b, state[0], ldc)]

        def all_rows(is_adding: bool) -> None:
            v.loop(b, rows, [b.inttoptr(c, v.POINTER)], lambda state: row(state, is_adding))

        v.in_both_forms(b, accumulate, all_rows)

    return emit


def emit_clear(b: Builder, address: Value, lines: Value) -> None:
    """Emit ``clear(address, lines)``: `lines` times 64 bytes become zeros."""
    vector = ir.VectorType(v.INDEX, CACHE_LINE // 4)

    def line(state: list[Value]) -> list[Value]:
        b.store(ir.Constant(vector, None), state[0], align=1)
        return [v.advance(b, state[0], CACHE_LINE)]

    v.loop(b, lines, [b.inttoptr(address, v.POINTER)], line)


def elements_of(key: MixedKey, count: int) -> VectorCode:
    """Return the emitter for vectors of `count` elements of A or B, as integers; they need not fill a register."""
    dtype = np.dtype(f"u{element_bytes(key)}")
    return VectorCode(key.kernel.vector_unit._replace(size_bytes=count * dtype.itemsize), dtype)


def element_bytes(key: MixedKey) -> int:
    """Return the size of an element of A or B."""
    return TABLE[key.method.operands].itemsize


def vector_of_words(code: VectorCode) -> Any:
    return ir.VectorType(v.INDEX, code.lanes)


def join(b: Builder, parts: list[Value]) -> Value:
    """Return words joined from `parts`, the lowest bits first."""
    vector = ir.VectorType(v.INDEX, parts[0].type.count)
    words = b.zext(parts[0], vector) if len(parts) > 1 else parts[0]
    for t, part in enumerate(parts[1:], 1):
        shift = ir.Constant(vector, [t * (WORD_BITS // len(parts))] * vector.count)
        words = b.or_(words, b.shl(b.zext(part, vector), shift))
    return words
