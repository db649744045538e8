"""Panels of B and strips of A for a kernel over tiles: each is packed and scanned by one of the parts that need it.

Where parts share a piece, its claim says which of them does it (`amx_claims`); the others wait until it is done. The
address 0 of a claim stands for a piece of the part's own.
"""

from __future__ import annotations

import functools

from backends.cpu._mixed import amx_claims
from backends.cpu._mixed.amx_code import ROW_BYTES, ROWS
from backends.cpu._mixed.methods import MixedKey
from backends.cpu._mixed.packing import element_bytes, emit_clear, emit_pack_a, emit_pack_b
from backends.cpu._mixed.packing_columns import emit_pack_a_columns, emit_pack_b_columns
from backends.cpu._mixed.subnormals import emit_look
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.scalar import ScalarCode


def emit_obtain_panel(
    key: MixedKey, b: Builder, vectors: Value, k_cur: Value, source: Value, rs_b: Value, cs_b: Value, panel: Value,
    present: Value, claim: Value, lost: Value,
) -> None:  # fmt: skip
    """Emit a function that returns when whole tiles of B are there, packed and scanned."""
    code, tile_row = ScalarCode(b), v.size(ROW_BYTES)

    def pack() -> None:
        with b.if_else(code.is_not(cs_b, element_bytes(key))) as (by_columns, by_rows):
            with by_columns:
                ldb = b.mul(vectors, tile_row)
                columns = b.add(b.mul(b.sub(vectors, v.size(1)), v.size(ROWS)), present)
                pack = v.calls("pack_b_columns", emit_pack_b_columns(key))
                pack(b, k_cur, source, cs_b, panel, columns, ldb)
            with by_rows:
                v.calls_numbered("pack_b", key.nv, functools.partial(emit_pack_b, key))(
                    b, vectors, k_cur, source, rs_b, panel, present
                )
        words = code.parts(k_cur, key.method.group)
        steps = code.parts(words, ROWS)
        beyond = b.sub(b.mul(steps, v.size(ROWS)), words)
        v.calls("clear", emit_clear)(b, code.at(panel, (words, b.mul(vectors, tile_row))), b.mul(beyond, vectors))
        lines = b.mul(b.mul(steps, v.size(ROWS)), vectors)
        _look(key, b, v.size(1), lines, panel, v.size(0), tile_row, lost)

    with b.if_else(_is_to_do(b, claim)) as (mine, anothers):
        with mine:
            pack()
            _publish(b, claim)
        with anothers:
            amx_claims.await_done(b, claim)


def emit_obtain_strip(
    key: MixedKey, b: Builder, rows: Value, k_cur: Value, source: Value, rs_a: Value, cs_a: Value, strip: Value,
    lda: Value, a_step: Value, is_packed: Value, claim: Value, lost: Value,
) -> None:  # fmt: skip
    """Emit a function that returns when a strip of A can be read, packed if `is_packed` is not 0, and scanned."""
    code = ScalarCode(b)
    packs = code.is_not(is_packed, 0)
    with b.if_else(_is_to_do(b, claim)) as (mine, anothers):
        with mine:
            with b.if_then(packs):
                _pack_strip(key, b, rows, k_cur, source, rs_a, cs_a, strip, lda, a_step)
            steps = code.parts(b.mul(k_cur, v.size(element_bytes(key))), ROW_BYTES)
            _look(key, b, rows, steps, strip, lda, a_step, lost)
            _publish(b, claim)
        with anothers, b.if_then(packs):
            amx_claims.await_done(b, claim)


def _pack_strip(key: MixedKey, b: Builder, *arguments: Value) -> None:
    """Emit the packing of a strip, from rows of A or from columns."""
    rows, k_cur, source, rs_a, cs_a, *target = arguments
    with b.if_else(ScalarCode(b).is_not(cs_a, element_bytes(key))) as (by_columns, by_rows):
        with by_columns:
            v.calls("pack_a_columns", emit_pack_a_columns(key))(b, rows, k_cur, source, cs_a, *target)
        with by_rows:
            v.calls("pack_a", emit_pack_a(key))(b, rows, k_cur, source, rs_a, *target)


def _look(key: MixedKey, b: Builder, *arguments: Value) -> None:
    """Emit the scan for numbers that the method would lose, if it loses any and `lost`, the last argument, is not 0."""
    if key.method.loses_subnormals:
        with b.if_then(ScalarCode(b).is_not(arguments[-1], 0)):
            v.calls("look", emit_look(key.method.operands))(b, *arguments)


def _is_to_do(b: Builder, claim: Value) -> Value:
    """Return whether this thread has to do a piece: its own, or one that no other has claimed."""
    code = ScalarCode(b)
    return code.where(code.is_not(claim, 0), lambda: amx_claims.claim(b, claim), v.YES)


def _publish(b: Builder, claim: Value) -> None:
    with b.if_then(ScalarCode(b).is_not(claim, 0)):
        amx_claims.publish(b, claim)
