"""exp and log as straight-line code that LLVM's loop vectoriser turns into SIMD; those of libm are scalar calls.

    exp(x) = 2^n e^r,            n = round(x / ln 2),  |r| <= ln(2) / 2:  Taylor polynomial of e^r
    log(x) = e ln 2 + log(f),    x = 2^e f,  1 / sqrt(2) <= f < sqrt(2):  log(f) = 2 artanh((f - 1) / (f + 1))

There is no table and no branch, only selections. Coefficients are those of the series, 1 / p! and 1 / (2 p + 1), up to
a negligible remainder. n times ln 2 is subtracted in two parts (Cody and Waite); the first has so few digits that its
product with n is exact.

Source: Muller, "Elementary Functions" (2016), sections 11.1 and 11.2; the parts of ln 2 are those of Sun's fdlibm
(float64) and of Cephes (float32).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from backends.cpu._vector.code import Builder, Value, call_on_floats, element_type


class _Format(NamedTuple):
    """Constants of a floating-point format.

    Attributes
    ----------
    integer : dtype
        Of the same width.
    round_to_integer : float
        1.5 * 2^(mantissa bits): added to a small number, it leaves that number's integer in the last bits.
    ln2, ln2_rest : float
        ln 2 in two parts.
    round_to_digit : float
        Likewise, it leaves a multiple of the last digit of `ln2`, 2^-9 and 2^-32.
    exp_degree, log_degree : int
        Of the polynomials in r and in ((f - 1) / (f + 1))^2; remainders are below a tenth of the unit roundoff.
    """

    integer: Any
    round_to_integer: float
    ln2: float
    ln2_rest: float
    round_to_digit: float
    exp_degree: int
    log_degree: int


_FORMATS = {
    "float32": _Format(np.int32, 1.5 * 2**23, 0.693359375, -2.12194440e-4, 1.5 * 2**14, 7, 4),
    "float64": _Format(
        np.int64, 1.5 * 2**52, 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.5 * 2**20, 13, 10
    ),
}


def exp_scale(dtype: np.dtype[Any], exponent: int) -> tuple[Any, Any]:
    """Return ``(scale, floor)``, with which `Elementary.exp` computes 2^exponent e^x.

    Below `floor` the result would be subnormal, which many processors compute a hundred times slower, so it is 0.
    `floor` is about ``ln(2 s) - exponent ln 2``, with s the smallest normal number.
    """
    form, info = _FORMATS[dtype.name], np.finfo(dtype)
    scale = dtype.type(form.round_to_integer + info.maxexp - 1 + exponent)
    return scale, dtype.type((int(info.minexp) + 1 - exponent) * math.log(2.0))


class Elementary:
    """Instructions on scalars of one dtype, float32 or float64, or on vectors of `lanes`, which `builder` appends."""

    def __init__(self, builder: Builder, dtype: np.dtype[Any], lanes: int = 0) -> None:
        self._b, self.dtype, self._form, self._lanes = builder, dtype, _FORMATS[dtype.name], lanes
        self.element, self._word = element_type(dtype), ir.IntType(8 * dtype.itemsize)
        if lanes:
            self.element, self._word = (ir.VectorType(kind, lanes) for kind in (self.element, self._word))
        self._digits = int(np.finfo(dtype).nmant)
        # the bits of sqrt(1/2), where the mantissas of an exponent begin here
        self._root = int(dtype.type(math.sqrt(0.5)).view(self._form.integer))

    def number(self, value: float) -> ir.Constant:
        """Return a constant, rounded to the dtype."""
        return self._constant(self.element, float(self.dtype.type(value)))

    def _constant(self, kind: Any, value: float) -> ir.Constant:
        return ir.Constant(kind, [value] * self._lanes if self._lanes else value)

    def exp(self, x: Value, scale: Value, floor: Value, rest: Value | None = None) -> Value:
        """Return e^x times the power of two that `exp_scale` gave; 0 below `floor`. For x < 1; NaN stays.

        With `rest`, what rounding took from x: of e^(x + rest).
        """
        b, form, magic = self._b, self._form, self.number(self._form.round_to_integer)
        n = b.fsub(self._multiply_add(x, self.number(1 / math.log(2.0)), magic), magic)
        r = self._multiply_add(n, self.number(-form.ln2), x)
        r = self._multiply_add(n, self.number(-form.ln2_rest), r if rest is None else b.fadd(r, rest))
        e_to_the_r = self._polynomial(r, [1 / math.factorial(p) for p in range(form.exp_degree + 1)])
        value = b.fmul(e_to_the_r, self._power_of_two(b.fadd(n, scale)))
        return b.select(b.fcmp_ordered("<", x, floor), self.number(0), value)

    def log(self, x: Value, exponent: Value) -> Value:
        """Return log(x / 2^exponent). For x >= 0 and normal, or 0, or NaN."""
        e, rest = self._parts_of_log(x, exponent)
        return self._of_nothing_and_nan(x, self._multiply_add(e, self.number(self._form.ln2), rest))

    def exp_of_difference(self, x: Value, y: Value, scale: Value, floor: Value) -> Value:
        """Return `exp` of x - y, whose rounding is made good: Knuth's TwoSum."""
        b = self._b
        difference = b.fsub(x, y)
        of_y = b.fsub(x, difference)
        of_x = b.fadd(difference, of_y)
        return self.exp(difference, scale, floor, b.fadd(b.fsub(x, of_x), b.fsub(of_y, y)))

    def log_and(self, x: Value, exponent: Value, shift: Value) -> Value:
        """Return log(x / 2^exponent) plus a sum of two `shift_of`; nothing is rounded before it has cancelled."""
        e, rest = self._parts_of_log(x, exponent)
        total = self._b.fadd(self._multiply_add(e, self.number(self._form.ln2), shift), rest)
        return self._of_nothing_and_nan(x, total)

    def shift_of(self, x: Value) -> Value:
        """Return the multiple of the last digit of `ln2` that is next to x, or x itself if it is large; 0 for -inf.

        Sums of two of them and of a multiple of `ln2` are exact, unless the result is large too.
        """
        b, magic = self._b, self.number(self._form.round_to_digit)
        is_small = b.fcmp_ordered("<", self.absolute(x), self.number(self._form.round_to_digit / 3))
        # A larger x has no digits below half of that one
        multiple = b.select(is_small, b.fsub(b.fadd(x, magic), magic), x)
        return b.select(b.fcmp_ordered("==", x, self.number(-np.inf)), self.number(0), multiple)

    def _parts_of_log(self, x: Value, exponent: Value) -> tuple[Value, Value]:
        """Return e and the rest of ``log(x / 2^exponent) = e ln2 + rest``, ln2 the first part of ln 2."""
        b, form, one = self._b, self._form, self.number(1)
        e, f = b.fsub(self._exponent_of(x), exponent), b.fsub(self._mantissa_of(x), one)
        s = b.fdiv(f, b.fadd(self.number(2), f))
        artanh = self._polynomial(b.fmul(s, s), [1 / (2 * p + 1) for p in range(form.log_degree + 1)])
        return e, self._multiply_add(e, self.number(form.ln2_rest), b.fmul(b.fmul(self.number(2), s), artanh))

    def _of_nothing_and_nan(self, x: Value, logarithm: Value) -> Value:
        """Return the logarithm of x, or what it is instead for 0 and NaN."""
        b = self._b
        value = b.select(b.fcmp_ordered("==", x, self.number(0)), self.number(-np.inf), logarithm)
        return b.select(b.fcmp_ordered("ord", x, x), value, x)

    def maximum(self, x: Value, y: Value) -> Value:
        """Return the greater; NaN if either operand is NaN."""
        return call_on_floats(self._b, "maximum", x, y)

    def smaller(self, x: Value, y: Value) -> Value:
        """Return the smaller; if one operand is NaN, the other one."""
        return call_on_floats(self._b, "minimumnum", x, y)

    def greater(self, x: Value, y: Value) -> Value:
        """Return the greater; if one operand is NaN, the other one."""
        return call_on_floats(self._b, "maximumnum", x, y)

    def absolute(self, x: Value) -> Value:
        """Return the number without its sign."""
        return call_on_floats(self._b, "fabs", x)

    def _multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """Return x y + z, fused where the processor has the instruction; fma would call libm elsewhere."""
        return call_on_floats(self._b, "fmuladd", x, y, z)

    def _polynomial(self, z: Value, coefficients: Sequence[float]) -> Value:
        """Return ``sum(coefficients[p] z^p)`` by Horner's rule."""
        total, *rest = (self.number(c) for c in reversed(coefficients))
        for c in rest:
            total = self._multiply_add(total, z, c)
        return total

    # ---------------------------------------------------------------------------------------- the parts of a number

    def _bits(self, x: Value) -> Value:
        return self._b.bitcast(x, self._word)

    def _number_of(self, bits: Value) -> Value:
        return self._b.bitcast(bits, self.element)

    def _power_of_two(self, t: Value) -> Value:
        """Return 2^(t - t0 - bias) of ``t = t0 + an integer``, t0 the format's `round_to_integer`."""
        return self._number_of(self._b.shl(self._bits(t), self._constant(self._word, self._digits)))

    def _exponent_of(self, x: Value) -> Value:
        """Return e of ``x = 2^e f`` as a float, converted by an addition, which every SIMD width has."""
        b, magic = self._b, self._form.round_to_integer
        e = b.ashr(
            b.sub(self._bits(x), self._constant(self._word, self._root)), self._constant(self._word, self._digits)
        )
        magic_bits = int(self.dtype.type(magic).view(self._form.integer))
        return b.fsub(self._number_of(b.add(e, self._constant(self._word, magic_bits))), self.number(magic))

    def _mantissa_of(self, x: Value) -> Value:
        """Return f of ``x = 2^e f``, from 1 / sqrt(2) to sqrt(2)."""
        b, mask = self._b, (1 << self._digits) - 1
        f = b.and_(b.sub(self._bits(x), self._constant(self._word, self._root)), self._constant(self._word, mask))
        return self._number_of(b.add(f, self._constant(self._word, self._root)))
