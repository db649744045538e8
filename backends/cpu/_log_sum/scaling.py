"""Rows of A and columns of B, each scaled by its maximum, as exponentials: the factors of a logaddexp_plus product.

    x[i, p] = 2^h exp(a[i, p] - u[i]),  u[i] ~ max_p a[i, p]        y[p, j] = 2^h exp(b[p, j] - v[j]),  v[j] likewise

u and v are the maxima, rounded so that their sums are exact (`exp_log.Elementary.shift_of`). A maximum of -inf is
replaced by 0, since -inf - (-inf) would be NaN; a NaN comes through. The least finite term of each line is kept too: it
tells which sums of products can be trusted (see `_log_sum.product`). Where it equals the maximum, the line may have a
single term.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from backends.cpu._log_sum.exp_log import exp_scale
from backends.cpu._log_sum.lines import ROWS, Code
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Value
from backends.cpu._vector.scalar import WORD


class Scale(NamedTuple):
    """Scale of the exponentials of one product, and thresholds of its tests; all of the product's dtype.

    Attributes
    ----------
    scale, floor : float
        Of `exp_log.exp_scale` for 2^h.
    exponent : float
        2 h.
    narrow : float
        Least ``A[i, p] - u[i]`` of a narrow row.
    limit : float
        Least trusted element of X Y where a row or a column is not narrow.
    """

    scale: Any
    floor: Any
    exponent: Any
    narrow: Any
    limit: Any

    @classmethod
    def of(cls, dtype: np.dtype[Any], k: int) -> Scale:
        """Return the largest scale with which k products cannot overflow."""
        info = np.finfo(dtype)
        h = (int(info.maxexp) - 2 - max(k - 1, 0).bit_length()) // 2
        scale, floor = exp_scale(dtype, h)
        narrow = (int(info.minexp) // 2 + 1 - h) * math.log(2.0)
        limit = max(k, 1) * math.ldexp(float(info.smallest_normal), h) / float(info.eps)
        return cls(scale, floor, *(dtype.type(value) for value in (2 * h, narrow, limit)))


def load_scale(code: Code, address: Value) -> Scale:
    """Return the scale that lies at an address, as values."""
    return Scale(*(code.load(code.pointer(address), v.size(i)) for i in range(len(Scale._fields))))


def scale_rows(code: Code, table: Value, block: Value) -> None:
    """Compute ``x := 2^h exp(a - u)`` for one block of rows, and, for each row, u, the limit of its sums, its single.

    The single is the index of the row's only term that is not -inf, or -1.
    """
    w = code.words(table)
    first, rows = code.block(block, w.m, ROWS)
    row_bytes = code.at(v.size(0), (w.k, code.size))
    x = code.at(w.x, (first, row_bytes))
    code.copy_lines(rows, w.k, code.at(w.a, (first, w.rs_a)), w.rs_a, w.cs_a, x, row_bytes)

    def one_row(i: Value) -> None:
        row = code.b.add(first, i)
        of_row = (code.at(address, (row, size)) for address, size in (
            (w.row_shifts, code.size), (w.row_limits, code.size), (w.row_singles, WORD),
        ))  # fmt: skip
        code.function("scale_row", _scale_row, w.k, code.at(x, (i, row_bytes)), w.scale, *of_row)

    code.for_each(rows, (), one_row)


def _scale_row(code: Code, count: Value, x: Value, scale: Value, shift: Value, limit: Value, single: Value) -> None:
    b, terms, place = code.b, code.pointer(x), v.size(0)

    def extend(p: Value, top: Value, least: Value) -> list[Value]:
        return _extended(code, top, least, code.load(terms, p))

    highest, lowest = code.number(np.inf), code.number(-np.inf)
    maximum, least = code.for_each(count, [lowest, highest], extend)
    index = _single(code, least, maximum, count, x, v.size(code.size))  # before the terms are overwritten
    shifted_by = code.shift_of(maximum)
    _take_exponentials(code, count, x, shifted_by, load_scale(code, scale))
    code.store(shifted_by, code.pointer(shift), place)
    code.store(_limit(code, maximum, least, load_scale(code, scale)), code.pointer(limit), place)
    b.store(index, code.pointer(single))


def scale_columns(code: Code, table: Value, strip: Value) -> None:
    """Compute ``y := 2^h exp(b - v)`` for a strip of columns, and for each v, the limit of its sums, its single.

    Columns with a single term are listed, each with the index of that term; the number of them is kept for each strip.
    """
    w = code.words(table)
    first, count = code.block(strip, w.n, code.width)
    row_bytes, source = code.at(v.size(0), (w.n, code.size)), code.at(w.b, (first, w.cs_b))
    y, tops, limits = (code.at(address, (first, code.size)) for address in (w.y, w.column_shifts, w.column_limits))
    code.on_lines("begin", _begin, count, tops, limits)

    def some_rows(begin: Value, rows: Value) -> None:
        to = code.at(y, (begin, row_bytes))
        code.copy_lines(rows, count, code.at(source, (begin, w.rs_b)), w.rs_b, w.cs_b, to, row_bytes)
        code.for_each(
            rows, (), lambda p: code.on_lines("extend", _extend, count, code.at(to, (p, row_bytes)), tops, limits)
        )

    code.for_blocks(w.k, ROWS, some_rows)
    listed = (code.at(address, (first, WORD)) for address in (w.singles, w.single_terms))
    counted = code.at(w.counts, (strip, WORD))
    code.function("finish", _finish, count, first, tops, limits, w.scale, w.k, source, w.rs_b, w.cs_b, *listed, counted)
    shifts = tops  # now
    code.for_each(
        w.k, (), lambda p: code.on_lines("scale_line", _scale_line, count, code.at(y, (p, row_bytes)), shifts, w.scale)
    )


def _begin(code: Code, count: Value, tops: Value, leasts: Value) -> None:
    def one(j: Value) -> None:
        code.store(code.number(-np.inf), code.pointer(tops), j)
        code.store(code.number(np.inf), code.pointer(leasts), j)

    code.for_each(count, (), one)


def _extend(code: Code, count: Value, y: Value, tops: Value, leasts: Value) -> None:
    terms, of_tops, of_leasts = map(code.pointer, (y, tops, leasts))

    def one(j: Value) -> None:
        top, least = _extended(code, code.load(of_tops, j), code.load(of_leasts, j), code.load(terms, j))
        code.store(top, of_tops, j)
        code.store(least, of_leasts, j)

    code.for_each(count, (), one)


def _extended(code: Code, top: Value, least: Value, term: Value) -> list[Value]:
    """Return the maximum and the least finite term, with one more term."""
    is_term = code.b.fcmp_ordered(">", term, code.number(-np.inf))
    finite = code.b.select(is_term, term, code.number(np.inf))
    return [code.maximum(top, term), code.smaller(least, finite)]


def _scale_line(code: Code, count: Value, y: Value, shifts: Value, scale: Value) -> None:
    terms, of_shifts, by = code.pointer(y), code.pointer(shifts), load_scale(code, scale)

    def one(j: Value) -> None:
        value = code.exp_of_difference(code.load(terms, j), code.load(of_shifts, j), by.scale, by.floor)
        code.store(value, terms, j)

    code.for_each(count, (), one)


def _take_exponentials(code: Code, count: Value, x: Value, shift: Value, scale: Scale) -> None:
    terms = code.pointer(x)

    def one(p: Value) -> None:
        code.store(code.exp_of_difference(code.load(terms, p), shift, scale.scale, scale.floor), terms, p)

    code.for_each(count, (), one)


def _finish(
    code: Code, count: Value, first: Value, tops: Value, limits: Value, scale: Value, k: Value, source: Value,
    row_stride: Value, stride: Value, singles: Value, terms: Value, counted: Value,
) -> None:  # fmt: skip
    """Replace the maxima by shifts, the least terms by limits, and list the columns with a single term."""
    b, of_tops, of_limits, by = code.b, code.pointer(tops), code.pointer(limits), load_scale(code, scale)

    def one(j: Value, listed: Value) -> list[Value]:
        top, least = code.load(of_tops, j), code.load(of_limits, j)
        single = _single(code, least, top, k, code.at(source, (j, stride)), row_stride)
        code.store(code.shift_of(top), of_tops, j)
        code.store(_limit(code, top, least, by), of_limits, j)
        is_single = b.icmp_signed(">=", single, v.size(0))
        with b.if_then(is_single):
            b.store(b.add(first, j), code.pointer(code.at(singles, (listed, WORD))))
            b.store(single, code.pointer(code.at(terms, (listed, WORD))))
        return [b.add(listed, b.zext(is_single, v.SIZE))]

    (listed,) = code.for_each(count, [v.size(0)], one)
    b.store(listed, code.pointer(counted))


def _limit(code: Code, top: Value, least: Value, scale: Scale) -> Value:
    """Return the least trusted sum of a line: 0 if it is narrow."""
    is_narrow = code.b.fcmp_ordered(">=", code.b.fsub(least, code.shift_of(top)), scale.narrow)
    return code.b.select(is_narrow, code.number(0), scale.limit)


def _single(code: Code, least: Value, top: Value, count: Value, terms: Value, stride: Value) -> Value:
    """Return the index of the only term of a line that is not -inf, or -1 if there are more."""
    b, before = code.b, code.b.block
    with b.if_then(b.fcmp_ordered("==", least, top)):  # else there are two
        found = code.function("single", _search_single, count, terms, stride, result=v.SIZE)
        inside = b.block
    index = b.phi(v.SIZE)
    index.add_incoming(v.size(-1), before)
    index.add_incoming(found, inside)
    return index


def _search_single(code: Code, count: Value, terms: Value, stride: Value) -> Value:
    """Return the index of the only term that is not -inf, or -1; stop at the second."""
    b, source, before = code.b, code.pointer(terms), code.b.block
    head, look, following, done = (b.append_basic_block(name) for name in ("head", "look", "next", "done"))
    b.branch(head)
    b.position_at_end(head)
    p, position = b.phi(v.SIZE), b.phi(v.SIZE)
    b.cbranch(b.icmp_signed("<", p, count), look, done)
    b.position_at_end(look)
    is_term = b.fcmp_ordered(">", code.load(source, p, stride), code.number(-np.inf))
    is_second = b.and_(is_term, b.icmp_signed(">=", position, v.size(0)))
    b.cbranch(is_second, done, following)
    b.position_at_end(following)
    states = (p, v.size(0), b.add(p, v.size(1))), (position, v.size(-1), b.select(is_term, p, position))
    for phi, begin, end in states:
        phi.add_incoming(begin, before)
        phi.add_incoming(end, following)
    b.branch(head)
    b.position_at_end(done)
    result = b.phi(v.SIZE)
    result.add_incoming(position, head)
    result.add_incoming(v.size(-1), look)
    return result
