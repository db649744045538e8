"""Floats of 16 and of 8 bits widened by integer arithmetic: few machines have instructions for all of them.

The bits of a float16 without its sign, shifted by 13, are those of the float32 that is the number times 2^-112, also
for subnormal numbers. Infinities and NaN get their exponent back. Floats of 8 bits have other shifts and powers.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from backends.cpu._vector.code import Builder, Value

WIDE_MANTISSA, WIDE_BIAS = 23, 127  # of float32
WIDE_INFINITE = 0xFF << WIDE_MANTISSA


class Format(NamedTuple):
    """A narrow float.

    Attributes
    ----------
    sign : int
        The bit of the sign.
    mantissa, bias : int
        Bits of the mantissa, and what is added to the exponent.
    infinite : int
        The least bits, without the sign, that are no number.
    """

    sign: int
    mantissa: int
    bias: int
    infinite: int


FORMATS = {
    "float16": Format(0x8000, 10, 15, 0x7C00),
    "float8_e5m2": Format(0x80, 2, 15, 0x7C),
    "float8_e4m3fn": Format(0x80, 3, 7, 0x7F),  # it has no infinity, and one NaN of each sign
}


def widen_float(b: Builder, x: Value, name: str = "float16") -> Value:
    """Return narrow floats, given as integers of their bits, as float32: one number, or a vector of them."""
    sign, mantissa, bias, infinite = FORMATS[name]
    word, real, count = ir.IntType(32), ir.FloatType(), getattr(x.type, "count", None)
    words, floats = (word, real) if count is None else (ir.VectorType(word, count), ir.VectorType(real, count))

    def constant(of_type: ir.Type, value: float) -> ir.Constant:
        return ir.Constant(of_type, value if count is None else [value] * count)

    bits = b.zext(x, words)
    magnitude = b.and_(bits, constant(words, sign - 1))
    shifted = b.bitcast(b.shl(magnitude, constant(words, WIDE_MANTISSA - mantissa)), floats)
    scaled = b.fmul(shifted, constant(floats, 2.0 ** (WIDE_BIAS - bias)))
    number = b.bitcast(scaled, words)
    is_number = b.icmp_unsigned("<", magnitude, constant(words, infinite))
    number = b.select(is_number, number, b.or_(number, constant(words, WIDE_INFINITE)))
    wide_sign = b.shl(b.and_(bits, constant(words, sign)), constant(words, 32 - sign.bit_length()))
    return b.bitcast(b.or_(number, wide_sign), floats)
