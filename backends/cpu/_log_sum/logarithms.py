"""The last pass of a logaddexp_plus product: ``out := [out (+)] log(sums) + u + v - 2 h ln 2``, line by line.

A line with an element in doubt (see `_log_sum.product`) is marked, and left to `_log_sum.pairwise`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from backends.cpu._log_sum.lines import ROWS, WORDS, Code
from backends.cpu._log_sum.scaling import load_scale
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Value
from backends.cpu._vector.scalar import WORD


def logarithms(code: Code, table: Value, block: Value) -> None:
    """Finish one block of rows. ``doubt[strip, i]`` says which lines are in doubt."""
    w, b = code.words(table), code.b
    first, rows = code.block(block, w.m, ROWS)
    work = code.at(w.lines, (block, code.width * code.size))

    def one_row(i: Value) -> None:
        row = b.add(first, i)
        u, row_limit = (code.load(code.pointer(address), row) for address in (w.row_shifts, w.row_limits))
        single = b.load(code.pointer(code.at(w.row_singles, (row, WORD))), typ=v.SIZE)
        sums = code.at(w.sums, (code.at(v.size(0), (row, w.n)), code.size))
        a, out = code.at(w.a, (row, w.rs_a)), code.at(w.c, (row, w.rs_c))

        def one_strip(strip: Value) -> None:
            begin, count = code.block(strip, w.n, code.width)
            line, shifts, limits = (code.at(x, (begin, code.size)) for x in (sums, w.column_shifts, w.column_limits))
            in_doubt = code.on_lines(
                "log_line", _log_line, count, line, shifts, limits, u, row_limit, w.scale, result=v.BIT
            )
            b.store(b.zext(in_doubt, v.BYTE), code.pointer(code.at(w.doubt, (strip, w.m), (row, 1))))
            with b.if_then(in_doubt):
                b.store(v.size(1), code.pointer(b.add(table, v.size(WORD * WORDS.index("is_any_in_doubt")))))
            with b.if_then(b.not_(in_doubt)):
                with b.if_then(b.icmp_signed(">=", single, v.size(0))):
                    term = code.load(code.pointer(a), single, w.cs_a)
                    terms = code.at(w.b, (single, w.rs_b), (begin, w.cs_b))
                    code.function("take_single_of_row", _take_single_of_row, count, line, term, shifts, terms, w.cs_b)
                listed = (code.at(x, (begin, WORD)) for x in (w.singles, w.single_terms))
                number = b.load(code.pointer(code.at(w.counts, (strip, WORD))), typ=v.SIZE)
                is_finite = b.fcmp_ordered("<", u, code.number(np.inf))  # else there is NaN or inf - inf among them
                with b.if_then(b.and_(is_finite, b.icmp_signed(">", number, v.size(0)))):
                    arguments = number, sums, a, w.cs_a, w.b, w.rs_b, w.cs_b, *listed
                    code.function("take_singles_of_columns", _take_singles_of_columns, *arguments)
                code.add_line(count, line, work, code.at(out, (begin, w.cs_c)), w.cs_c, w.accumulate)

        strips = b.sdiv(b.add(w.n, v.size(code.width - 1)), v.size(code.width))
        code.for_each(strips, (), one_strip)

    code.for_each(rows, (), one_row)


def _log_line(
    code: Code, count: Value, sums: Value, shifts: Value, limits: Value, u: Value, row_limit: Value, scale: Value
) -> Value:
    """Compute ``sums := log(sums) + u + v`` and return whether an element is in doubt."""
    b, exponent = code.b, load_scale(code, scale).exponent
    of_sums, of_shifts, of_limits = map(code.pointer, (sums, shifts, limits))

    def one(j: Value, in_doubt: Value) -> list[Value]:
        total = code.load(of_sums, j)
        is_trusted = b.and_(
            b.fcmp_ordered(">=", total, code.load(of_limits, j)), b.fcmp_ordered(">=", total, row_limit)
        )
        shift = b.fadd(u, code.load(of_shifts, j))  # NaN if the row or the column holds a NaN: so is the sum
        is_open = b.fcmp_ordered(">", shift, code.number(-np.inf))
        code.store(code.log_and(total, exponent, shift), of_sums, j)
        return [b.or_(in_doubt, b.and_(b.not_(is_trusted), is_open))]

    (in_doubt,) = code.for_each(count, [ir.Constant(v.BIT, 0)], one)
    return in_doubt


def _take_single_of_row(
    code: Code, count: Value, line: Value, term: Value, shifts: Value, terms: Value, stride: Value
) -> None:
    b, of_line, of_shifts, of_terms = code.b, *map(code.pointer, (line, shifts, terms))

    def one(j: Value) -> None:
        is_finite = b.fcmp_ordered("<", code.load(of_shifts, j), code.number(np.inf))
        with b.if_then(is_finite):  # else -inf + inf, or NaN, is among the other terms
            code.store(b.fadd(term, code.load(of_terms, j, stride)), of_line, j)

    code.for_each(count, (), one)


def _take_singles_of_columns(
    code: Code, count: Value, sums: Value, a: Value, cs_a: Value, of_b: Value, rs_b: Value, cs_b: Value,
    singles: Value, terms: Value,
) -> None:  # fmt: skip
    b, of_sums, of_row = code.b, code.pointer(sums), code.pointer(a)

    def one(index: Value) -> None:
        j, p = (b.load(code.pointer(code.at(x, (index, WORD))), typ=v.SIZE) for x in (singles, terms))
        column = code.pointer(code.at(of_b, (j, cs_b)))
        code.store(b.fadd(code.load(of_row, p, cs_a), code.load(column, p, rs_b)), of_sums, j)

    code.for_each(count, (), one)
