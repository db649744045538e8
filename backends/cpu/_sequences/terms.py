"""Sums of a step term by term, as instructions, and the way back along the best terms.

    loop  q over j by GROUP vectors, in registers
    loop  p over i: one term of each                             s[j] (+)= x[p] (x) A[p, j], and p if it is better

Sums over logaddexp of a matrix that changes are computed term by term::

    s[j] = log(sum_p exp(x[p] + A[p, j] - top[j])) + top[j],  top[j] = max_p x[p] + A[p, j]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from backends.cpu._log_sum.exp_log import exp_scale
from backends.cpu._sequences.step import WORDS, Code, Form, Here, Lines, settle
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.scalar import WORD, ScalarCode
from harness.dtypes import is_float

GROUP = 4  # vectors of sums side by side: they hide the latency of an addition


def advance(
    code: Code, w: Any, lines: Lines, matrix: Value | None, pointers: Value, here: Here, offset: Value
) -> list[Value]:
    """Compute a step, and return the new offset; without a matrix the first one, of the states in `sums`."""

    def some(at: Value, count: int, edge: Value | None) -> list[Value]:
        if code.form.is_log:
            code.store(sum_of_terms(code, w, lines, code.at(matrix, (at, 1)), edge), code.b.add(lines.sums, at))
        else:
            best_terms(code, w, lines, matrix, pointers, at, count, edge)
        return []

    if matrix is not None:
        code.over_vectors(w.states, [], some, 1 if code.form.is_log else GROUP)
    return [settle(code, w.states, lines, here, offset)]


def best_terms(
    code: Code, w: Any, lines: Lines, matrix: Value, pointers: Value, at: Value, count: int, edge: Value | None
) -> None:
    """Compute vectors of sums side by side, and where each element comes from."""
    b, form = code.b, code.form
    indices = ir.VectorType(v.INDEX, code.lanes)
    columns = b.add(matrix, at)
    is_numbered = form.pointer_bytes > 0

    def one(p: Value, *now: Value) -> list[Value]:
        x, row = code.splat_at(code.at(lines.x, (p, code.size))), code.at(columns, (p, w.transition_line))
        totals, numbers = now[:count], now[count:]
        loaded = [code.load(b.add(row, v.size(i * code.bytes)), edge) for i in range(count)]
        if not is_numbered:
            return [
                form.operations.extend(code.vectors, b, total, x, y) for total, y in zip(totals, loaded, strict=True)
            ]
        number = b.trunc(p, v.INDEX)
        here = b.insert_element(v.undefined(indices), number, v.index(0))
        here = b.shuffle_vector(here, here, v.zeros(indices))
        terms = [code.term(x, y) for y in loaded]
        compare = b.fcmp_ordered if is_float(code.dtype) else b.icmp_signed
        better = [compare("<", total, term) for total, term in zip(totals, terms, strict=True)]
        choose = list(zip(better, terms, totals, numbers, strict=True))
        return [b.select(c, term, total) for c, term, total, _ in choose] + [
            b.select(c, here, n) for c, _, _, n in choose
        ]

    begin = [code.zero] * count + ([ir.Constant(indices, [0] * code.lanes)] * count if is_numbered else [])
    result = code.for_each(w.states, begin, one)
    for i in range(count):
        code.store(result[i], b.add(lines.sums, b.add(at, v.size(i * code.bytes))))
        if is_numbered:
            kind = ir.VectorType(ir.IntType(8 * form.pointer_bytes), code.lanes)
            number = result[count + i] if form.pointer_bytes == 4 else b.trunc(result[count + i], kind)
            j = b.add(b.sdiv(at, v.size(code.size)), v.size(i * code.lanes))
            b.store(number, code.pointer(code.at(pointers, (j, form.pointer_bytes))), align=form.pointer_bytes)


def sum_of_terms(code: Code, w: Any, lines: Lines, columns: Value, edge: Value | None) -> Value:
    """Return a vector of sums over logaddexp, term by term."""
    b, math = code.b, code.math
    assert math is not None
    scale, floor = (code.vectors.constant(x) for x in exp_scale(code.dtype, 0))

    def term(p: Value) -> Value:
        x = code.splat_at(code.at(lines.x, (p, code.size)))
        return b.fadd(x, code.load(code.at(columns, (p, w.transition_line)), edge))

    (top,) = code.for_each(w.states, [code.zero], lambda p, top: [code.combine(top, term(p))])
    shift = b.select(b.fcmp_ordered("==", top, code.zero), code.vectors.constant(0), top)
    (total,) = code.for_each(
        w.states,
        [code.vectors.constant(0)],
        lambda p, total: [b.fadd(total, math.exp(b.fsub(term(p), shift), scale, floor))],
    )
    return b.fadd(math.log(total, code.vectors.constant(0)), shift)


def emit_walk(form: Form) -> Callable[[Builder, Value, Value], None]:
    """Return what writes ``walk(table, row)``: from the last state of a path, which is there, back to the first."""

    def emit(b: Builder, table: Value, row: Value) -> None:
        code = ScalarCode(b)
        w = code.words(table, WORDS)
        bytes_, number = form.pointer_bytes, ir.IntType(8 * form.pointer_bytes)
        length = b.load(code.pointer(code.at(w.lengths, (row, WORD))), typ=v.SIZE)
        path, pointers = code.at(w.out, (row, w.out_row)), code.at(w.pointers, (row, w.pointers_row))
        last = b.sub(length, v.size(1))

        def step(i: Value, state: Value) -> list[Value]:
            t = b.sub(b.sub(last, i), v.size(1))
            where = code.pointer(code.at(pointers, (t, w.pointers_step), (state, bytes_)))
            before = b.zext(b.load(where, typ=number, align=bytes_), v.SIZE)
            b.store(b.trunc(before, v.INDEX), code.pointer(code.at(path, (t, w.out_step))))
            return [before]

        with b.if_then(b.icmp_signed(">", length, v.size(0))):
            final = b.load(code.pointer(code.at(path, (last, w.out_step))), typ=v.INDEX)
            code.for_each(last, [b.sext(final, v.SIZE)], step)

    return emit
