"""Lines of a logaddexp_plus product in two passes over k, where a product of exponentials would be inaccurate.

    top[j]   = max_p (a[p] + b[p, j])
    total[j] = sum_p exp(a[p] + b[p, j] - top[j])          result = top + log total

As accurate as the definition: the largest term has weight 1, so only negligible terms underflow. A strip of columns of
B is copied into contiguous rows once, and serves every line of the strip while it stays in L2. The inner loop over j is
vectorised.

X Y and Y are no longer needed: their memory serves as work arrays.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from backends.cpu._log_sum.exp_log import exp_scale
from backends.cpu._log_sum.lines import ROWS, Code
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Value


def copy_strip(code: Code, table: Value, strip: Value) -> None:
    """Copy a strip of columns of B to contiguous rows, if any of its lines is in doubt."""
    w, b = code.words(table), code.b
    first, count = code.block(strip, w.n, code.width)
    flags = code.pointer(code.at(w.doubt, (strip, w.m)))

    def either(i: Value, is_any: Value) -> list[Value]:
        return [b.or_(is_any, b.load(v.advance(b, flags, i), typ=v.BYTE))]

    (is_any,) = code.for_each(w.m, [ir.Constant(v.BYTE, 0)], either)
    size = v.size(code.size)

    def copy_row(p: Value) -> None:
        source, target = code.at(w.b, (p, w.rs_b), (first, w.cs_b)), code.at(_strip(code, w.y, first, w.k), (
            b.mul(p, count), code.size,
        ))  # fmt: skip
        code.copy_line(count, source, w.cs_b, target, size)

    with b.if_then(b.icmp_unsigned("!=", is_any, ir.Constant(v.BYTE, 0))):
        code.for_each(w.k, (), copy_row)


def pairwise(code: Code, table: Value, block: Value) -> None:
    """Compute ``out := [out (+)] a (x) b`` on the lines of one block of rows that are in doubt."""
    w, b = code.words(table), code.b
    top_row, rows = code.block(block, w.m, ROWS)
    top = code.at(w.lines, (block, code.width * code.size))

    def one_strip(strip: Value) -> None:
        first, count = code.block(strip, w.n, code.width)
        columns = _strip(code, w.y, first, w.k)

        def one_line(i: Value) -> None:
            row = b.add(top_row, i)
            flag = b.load(code.pointer(code.at(w.doubt, (strip, w.m), (row, 1))), typ=v.BYTE)
            with b.if_then(b.icmp_unsigned("!=", flag, ir.Constant(v.BYTE, 0))):
                total = code.at(w.sums, (b.add(b.mul(row, w.n), first), code.size))
                a, out = code.at(w.a, (row, w.rs_a)), code.at(w.c, (row, w.rs_c), (first, w.cs_c))
                code.function("sum_line", _sum_line, w.k, a, w.cs_a, columns, count, top, total)
                code.add_line(count, total, top, out, w.cs_c, w.accumulate)

        code.for_each(rows, (), one_line)

    strips = b.sdiv(b.add(w.n, v.size(code.width - 1)), v.size(code.width))
    code.for_each(strips, (), one_strip)


def _strip(code: Code, strips: Value, first: Value, k: Value) -> Value:
    """Return where the copy of the strip begins whose first column is given."""
    return code.at(strips, (code.b.mul(first, k), code.size))


def _sum_line(
    code: Code, k: Value, a: Value, stride: Value, columns: Value, count: Value, top: Value, total: Value
) -> None:
    """Compute one line: both passes over k, for one row of A and one strip of B."""
    of_top, of_total, of_row = map(code.pointer, (top, total, a))

    def begin(j: Value) -> None:
        code.store(code.number(-np.inf), of_top, j)
        code.store(code.number(0), of_total, j)

    def with_terms(name: str, one_term: object) -> None:
        def one(p: Value) -> None:
            terms = code.at(columns, (code.b.mul(p, count), code.size))
            code.on_lines(name, one_term, count, code.load(of_row, p, stride), terms, top, total)

        code.for_each(k, (), one)

    def finish(j: Value) -> None:
        logarithm = code.log(code.load(of_total, j), code.number(0))
        code.store(code.b.fadd(code.load(of_top, j), logarithm), of_total, j)

    code.for_each(count, (), begin)
    with_terms("raise_tops", _raise_tops)
    with_terms("add_terms", _add_terms)
    code.for_each(count, (), finish)


def _raise_tops(code: Code, count: Value, x: Value, terms: Value, top: Value, total: Value) -> None:
    of_top, of_terms = code.pointer(top), code.pointer(terms)

    def one(j: Value) -> None:
        term = code.b.fadd(x, code.load(of_terms, j))
        code.store(code.greater(code.load(of_top, j), term), of_top, j)

    code.for_each(count, (), one)


def _add_terms(code: Code, count: Value, x: Value, terms: Value, top: Value, total: Value) -> None:
    """Add ``exp(term - top)``; where `top` is infinite, e^min(term, 0), which only has to keep NaN."""
    b, of_top, of_terms, of_total = code.b, *map(code.pointer, (top, terms, total))
    zero, (scale, floor) = code.number(0), map(code.number, exp_scale(code.dtype, 0))

    def one(j: Value) -> None:
        largest = code.load(of_top, j)
        is_finite = b.fcmp_ordered("<", code.absolute(largest), code.number(np.inf))
        below = b.fsub(b.fadd(x, code.load(of_terms, j)), b.select(is_finite, largest, zero))
        below = b.select(b.fcmp_ordered("<", zero, below), zero, below)
        code.store(b.fadd(code.load(of_total, j), code.exp(below, scale, floor)), of_total, j)

    code.for_each(count, (), one)
