"""float16 widened by integer arithmetic: not every machine has the instruction or a library function for it.

The bits of a float16 without its sign, shifted by 13, are those of the float32 that is the number times 2^-112, also
for subnormal numbers. Infinities and NaN get their exponent back.
"""

from __future__ import annotations

from llvmlite import ir

from backends.cpu._vector.code import Builder, Value

CUT = 13  # bits of the mantissa that float16 lacks
SIGN, INFINITE, WIDE_INFINITE = 0x8000, 0x7C00, 0xFF << 23  # of float16, and of float32


def widen_half(b: Builder, x: Value) -> Value:
    """Return float16, given as integers of 16 bits, as float32: one number, or a vector of them."""
    word, real, count = ir.IntType(32), ir.FloatType(), getattr(x.type, "count", None)
    words, floats = (word, real) if count is None else (ir.VectorType(word, count), ir.VectorType(real, count))

    def constant(of_type: ir.Type, value: float) -> ir.Constant:
        return ir.Constant(of_type, value if count is None else [value] * count)

    bits = b.zext(x, words)
    magnitude = b.and_(bits, constant(words, SIGN - 1))
    scaled = b.fmul(b.bitcast(b.shl(magnitude, constant(words, CUT)), floats), constant(floats, 2.0**112))
    number = b.bitcast(scaled, words)
    is_number = b.icmp_unsigned("<", magnitude, constant(words, INFINITE))
    number = b.select(is_number, number, b.or_(number, constant(words, WIDE_INFINITE)))
    return b.bitcast(b.or_(number, b.shl(b.and_(bits, constant(words, SIGN)), constant(words, 16))), floats)
