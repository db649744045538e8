"""Steps of one matrix over logaddexp, as instructions: of logarithms x, and of weights w that are their exponentials.

    w[i] = 2^h exp(x[i]),  P[i, j] = 2^h exp(A[i, j] - c[j]),  f[j] = exp(c[j] + e[j] - m) / 2^h,  m = max_j c[j] + e[j]
    s[j] = sum_i w[i] P[i, j]
    scaled          w'[j] = 2^n s[j] f[j],                         x'[j] = log(w'[j] / 2^h),  taken off: m - n log 2
    by logarithms   x'[j] = log(s[j] / 2^2h) + c[j] + e[j] - top,  w'[j] = 2^h exp(x'[j]),    taken off: top

From w to w' a scaled step has neither an exponential nor a logarithm. n follows from the largest w so that no w' is
above 2^h. The step counts only if nothing of it is lost: all of w, P, f and w' is normal with room below, or it is 0.
Else it is made anew by logarithms, where a sum is exact if all that is not -inf is narrow, or if the sum is above the
limit of `_log_sum.scaling.Scale`. Vectors with another lane are computed term by term.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from backends.cpu._log_sum.exp_log import exp_scale
from backends.cpu._log_sum.scaling import Scale
from backends.cpu._sequences.step import DOUBLE, Code, Here, Lines, settle
from backends.cpu._sequences.terms import GROUP, sum_of_terms
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Value
from backends.cpu._vector.scalar import WORD

PAIR = 2  # rows of factors are a multiple of it


class Numbers(NamedTuple):
    """What the table has for a matrix; `Scale` is that of `_log_sum`.

    Attributes
    ----------
    scale, floor, exponent, narrow, limit
        As of `Scale`.
    of_matrix : float
        `limit`, or 0 if all of the matrix is narrow.
    inverse, inverse_floor : float
        Of `exp_scale` for 2^-h.
    least : float
        The least weight that is narrow.
    reach : float
        n is `reach` less the exponent of the largest weight.
    """

    scale: Any
    floor: Any
    exponent: Any
    narrow: Any
    limit: Any
    of_matrix: Any
    inverse: Any
    inverse_floor: Any
    least: Any
    reach: Any

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, dtype: np.dtype[Any], states: int) -> Numbers:
        """Return them for a narrow matrix of so many states."""
        scale = Scale.of(dtype, states)
        h = int(scale.exponent) // 2
        least = math.ldexp(1.0, int(np.finfo(dtype).minexp) // 2 + 1)
        reach = h - 1 - max(states - 1, 0).bit_length()
        return cls(*scale, 0.0, *exp_scale(dtype, -h), least, reach)


def advance(
    code: Code, w: Any, lines: Lines, matrix: Value | None, _: Value, here: Here, offset: Value, *state: Value
) -> list[Value]:
    """Compute a step; the state is the offset, the lines but for `sums`, whether all weights are narrow, and n."""
    b, integer = code.b, ir.IntType(8 * code.size)
    if matrix is None:  # before the loop
        loaded = (code.scalar(code.at(w.scale, (i, code.size)), code.element) for i in range(len(Numbers._fields)))
        code.numbers = Numbers(*loaded)
    numbers = code.numbers

    def by_logarithms(lines: Lines, is_narrow: Value | None) -> list[Value]:
        if is_narrow is not None:
            logarithms(code, w, lines, numbers, b.select(is_narrow, numbers.of_matrix, numbers.limit))
        following = settle(code, w.states, lines, here, offset)
        n = b.fptosi(b.fsub(numbers.reach, b.fmul(numbers.exponent, ir.Constant(code.element, 0.5))), integer)
        return [following, *lines[:2], *lines[3:], weigh(code, w, lines, numbers), n]

    if matrix is None:
        return by_logarithms(lines, None)
    x, weights, next_x, next_weights, is_narrow, n = state
    lines = Lines(x, weights, lines.sums, next_x, next_weights)
    products(code, w, lines)
    can_try = b.and_(is_narrow, b.fcmp_ordered("==", numbers.of_matrix, ir.Constant(code.element, 0.0)))
    before = [offset, *state]
    *tried, is_right = code.where_all(
        can_try, lambda: scaled(code, w, lines, numbers, here, offset, n), [*before, ir.Constant(ir.IntType(1), 0)]
    )
    return code.where_all(b.not_(is_right), lambda: by_logarithms(lines, is_narrow), tried)


def products(code: Code, w: Any, lines: Lines) -> None:
    """Compute the sums of weights times factors."""
    b = code.b
    line = b.mul(code.parts(w.states, code.lanes), v.size(code.bytes))

    def some(at: Value, count: int, _: Value | None) -> list[Value]:
        rows = PAIR if count == 1 else 1  # two sums of one vector hide some of the latency of an addition

        def one(q: Value, *totals: Value) -> list[Value]:
            following = []
            for number, total in enumerate(totals):
                p, i = b.add(b.mul(q, v.size(rows)), v.size(number // count)), number % count
                weight, row = (
                    code.splat_at(code.at(lines.weights, (p, code.size))),
                    code.at(w.factors, (at, 1), (p, line)),
                )
                factor = code.load(b.add(row, v.size(i * code.bytes)))
                following.append(code.vectors.intrinsic(b, "fmuladd", weight, factor, total))
            return following

        totals = code.for_each(code.parts(w.states, rows), [code.vectors.constant(0)] * count * rows, one)
        for i in range(count):
            total = totals[i] if rows == 1 else b.fadd(*totals)
            code.store(total, b.add(lines.sums, b.add(at, v.size(i * code.bytes))))
        return []

    code.over_vectors(b.mul(code.parts(w.states, code.lanes), v.size(code.lanes)), [], some, GROUP)


def scaled(code: Code, w: Any, lines: Lines, numbers: Numbers, here: Here, offset: Value, n: Value) -> list[Value]:
    """Compute new states and weights to the spare lines; return the new state, and whether nothing was lost."""
    b, maths, form, element = code.b, code.math, code.form, code.element
    assert maths is not None
    integer, digits = n.type, int(np.finfo(code.dtype).nmant)
    bias = ir.Constant(integer, int(np.finfo(code.dtype).maxexp) - 1)
    nothing = code.vectors.constant(0)

    def spread(x: Value) -> Value:
        return code.vectors.splat(b, x)

    def exponent(at: Value, edge: Value | None) -> Value:
        value = b.fadd(code.load(b.add(w.tops, at)), code.load(b.add(here.emission, at), edge))
        return code.within(w.states, value, at, edge)

    (tops,) = code.over_vectors(w.states, [code.zero], lambda at, _, edge, top: [code.combine(top, exponent(at, edge))])
    most = code.largest(tops)
    power = b.bitcast(b.shl(b.add(n, bias), ir.Constant(integer, digits)), element)
    half = b.fmul(numbers.exponent, ir.Constant(element, 0.5))
    as_double = most if code.size == WORD else b.fpext(most, DOUBLE)
    taken = b.fsub(as_double, b.fmul(b.sitofp(n, DOUBLE), ir.Constant(DOUBLE, math.log(2.0))))
    following = b.fadd(offset, taken)
    normal = code.vectors.constant(float(np.finfo(code.dtype).smallest_normal))

    def one(at: Value, _: int, edge: Value | None, largest: Value, is_right: Value) -> list[Value]:
        total, value = code.load(b.add(lines.sums, at)), exponent(at, edge)
        if form.keeps == "before":
            logarithm = maths.log(total, spread(numbers.exponent))
            code.keep(b.fadd(logarithm, code.load(b.add(w.tops, at))), here, at, edge, offset)
        factor = maths.exp(b.fsub(value, spread(most)), spread(numbers.inverse), spread(numbers.inverse_floor))
        factor = b.fmul(factor, spread(power))
        weight = b.fmul(total, factor)
        is_exact = b.or_(b.fcmp_ordered("==", total, nothing), b.fcmp_ordered("==", value, code.zero))
        is_far = b.and_(b.fcmp_ordered(">=", weight, spread(numbers.least)), b.fcmp_ordered(">=", factor, normal))
        state = maths.log(weight, spread(half))
        code.store(weight, b.add(lines.next_weights, at))
        code.store(state, b.add(lines.next_x, at))
        if form.keeps == "after":
            code.keep(state, here, at, edge, following)
        return [code.combine(largest, weight), b.and_(is_right, b.or_(is_exact, is_far))]

    every = ir.Constant(ir.VectorType(ir.IntType(1), code.lanes), [1] * code.lanes)
    largest, is_right = code.over_vectors(w.states, [nothing, every], one)
    top = code.largest(largest)
    is_right = b.and_(b.not_(code.any_lane(b.not_(is_right))), b.fcmp_ordered(">", top, ir.Constant(element, 0.0)))
    of_top = b.sub(b.lshr(b.bitcast(top, integer), ir.Constant(integer, digits)), bias)
    new_n = b.sub(b.fptosi(numbers.reach, integer), of_top)
    places = lines.next_x, lines.next_weights, lines.x, lines.weights
    return [following, *places, ir.Constant(ir.IntType(1), 1), new_n, is_right]


def logarithms(code: Code, w: Any, lines: Lines, numbers: Numbers, limit: Value) -> None:
    """Replace sums of products by their logarithms; vectors with one below the limit are computed term by term."""
    b, maths = code.b, code.math
    assert maths is not None

    def one(at: Value, *_: Any) -> list[Value]:
        total = code.load(b.add(lines.sums, at))
        value = b.fadd(maths.log(total, code.vectors.splat(b, numbers.exponent)), code.load(b.add(w.tops, at)))
        in_doubt = code.any_lane(b.fcmp_ordered("<", total, code.vectors.splat(b, limit)))
        value = code.where(in_doubt, lambda: sum_of_terms(code, w, lines, b.add(w.transition, at), None), value)
        code.store(value, b.add(lines.sums, at))
        return []

    code.over_vectors(w.states, [], one)


def weigh(code: Code, w: Any, lines: Lines, numbers: Numbers) -> Value:
    """Compute the weights of the states, and return whether all are narrow, or 0 for -inf."""
    b, maths, infinity = code.b, code.math, code.vectors.constant(np.inf)
    assert maths is not None
    scale, floor = (code.vectors.splat(b, x) for x in (numbers.scale, numbers.floor))

    def one(at: Value, _: int, __: Value | None, least: Value) -> list[Value]:
        value = code.load(b.add(lines.x, at))
        code.store(maths.exp(value, scale, floor), b.add(lines.weights, at))
        finite = b.select(b.fcmp_ordered(">", value, code.zero), value, infinity)
        return [b.select(b.fcmp_ordered("<", finite, least), finite, least)]

    (least,) = code.over_vectors(w.states, [infinity], one)
    return b.not_(code.any_lane(b.fcmp_ordered("<", least, code.vectors.splat(b, numbers.narrow))))
