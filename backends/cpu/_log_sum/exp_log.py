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

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir

from backends.cpu._vector.code import call_on_floats
from backends.cpu._vector.intrinsics import emits

Function = Callable[..., Any]


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
    exp_degree, log_degree : int
        Of the polynomials in r and in ((f - 1) / (f + 1))^2; remainders are below a tenth of the unit roundoff.
    """

    integer: Any
    round_to_integer: float
    ln2: float
    ln2_rest: float
    exp_degree: int
    log_degree: int


_FORMATS = {
    "float32": _Format(np.int32, 1.5 * 2**23, 0.693359375, -2.12194440e-4, 7, 4),
    "float64": _Format(np.int64, 1.5 * 2**52, 6.93147180369123816490e-01, 1.90821492927058770002e-10, 13, 10),
}


# As `_compile.inlined`, without a check for a division by zero.
inlined = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Elementary(NamedTuple):
    """Functions of scalars of one dtype, to be called in a kernel's inner loop.

    Attributes
    ----------
    exp : function
        ``exp(x, scale, floor)``: e^x times the power of two that `exp_scale` gave; 0 below `floor`. For x <= 0; NaN
        stays.
    log : function
        ``log(x, exponent)``: log(x / 2^exponent). For x >= 0 and normal, or 0, or NaN.
    maximum : function
        The greater; NaN if either operand is NaN.
    smaller, greater : function
        The smaller and the greater; if one operand is NaN, the other one.
    """

    exp: Any
    log: Any
    maximum: Any
    smaller: Any
    greater: Any


def exp_scale(dtype: np.dtype[Any], exponent: int) -> tuple[Any, Any]:
    """Return ``(scale, floor)``, with which `Elementary.exp` computes 2^exponent e^x.

    Below `floor` the result would be subnormal, which many processors compute a hundred times slower, so it is 0.
    `floor` is about ``ln(2 s) - exponent ln 2``, with s the smallest normal number.
    """
    form, info = _FORMATS[dtype.name], np.finfo(dtype)
    scale = dtype.type(form.round_to_integer + info.maxexp - 1 + exponent)
    return scale, dtype.type((int(info.minexp) + 1 - exponent) * math.log(2.0))


@functools.cache
def elementary(dtype: np.dtype[Any]) -> Elementary:
    """Return the functions for `dtype`, float32 or float64."""
    form, number = _FORMATS[dtype.name], dtype.type
    magic, ln2, ln2_rest = number(form.round_to_integer), number(form.ln2), number(form.ln2_rest)
    log2_e, zero, one, two = number(1 / math.log(2.0)), number(0), number(1), number(2)
    lowest = number(-np.inf)
    e_to_the = _polynomial(dtype, [1 / math.factorial(p) for p in range(form.exp_degree + 1)])
    artanh = _polynomial(dtype, [1 / (2 * p + 1) for p in range(form.log_degree + 1)])
    multiply_add, power_of_two = _multiply_add, _power_of_two(dtype)
    exponent_of, mantissa_of = _exponent_of(dtype), _mantissa_of(dtype)

    @inlined
    def exp(x: Any, scale: Any, floor: Any) -> Any:
        n = multiply_add(x, log2_e, magic) - magic
        r = multiply_add(n, -ln2_rest, multiply_add(n, -ln2, x))
        return zero if x < floor else e_to_the(r) * power_of_two(n + scale)

    @inlined
    def log(x: Any, exponent: Any) -> Any:
        e, f = exponent_of(x) - exponent, mantissa_of(x) - one
        s = f / (two + f)
        value = multiply_add(e, ln2, multiply_add(e, ln2_rest, two * s * artanh(s * s)))
        value = lowest if x == zero else value
        return value if x == x else x  # noqa: PLR0124 x != x: NaN

    return Elementary(
        exp,
        log,
        _selection("maximum", np.maximum),
        _selection("minimumnum", np.fmin),
        _selection("maximumnum", np.fmax),
    )


# --------------------------------------------------------------------------------------- instructions, by LLVM's names


def _emitted(emit: Callable[..., Any], in_python: Function) -> Any:
    """Return a function of scalars of one type: ``emit(builder, *values)``'s instructions, or its Python form."""
    return in_python if numba.config.DISABLE_JIT else emits()(emit)


def _selection(name: str, in_python: Function) -> Any:
    return _emitted(lambda builder, x, y: call_on_floats(builder, name, x, y), in_python)


# fmuladd: fused where the processor has the instruction; fma would call libm elsewhere
_multiply_add = _emitted(
    lambda builder, x, y, z: call_on_floats(builder, "fmuladd", x, y, z), lambda x, y, z: x * y + z
)


def _polynomial(dtype: np.dtype[Any], coefficients: Sequence[float]) -> Any:
    """Return ``sum(coefficients[p] z^p)`` by Horner's rule."""
    first, *rest = (dtype.type(c) for c in reversed(coefficients))

    def emit(builder: Any, z: Any) -> Any:
        total = ir.Constant(z.type, float(first))
        for c in rest:
            total = call_on_floats(builder, "fmuladd", total, z, ir.Constant(z.type, float(c)))
        return total

    return _emitted(emit, lambda z: functools.reduce(lambda total, c: total * z + c, rest, first))


# ------------------------------------------------------------------------------------------------ the parts of a number


def _on_bits(dtype: np.dtype[Any], emit: Callable[..., Any], in_python: Function) -> Any:
    """Return a function of a float that is given, and returns, its bits as an integer of the same width."""
    integer = _FORMATS[dtype.name].integer
    word = ir.IntType(8 * dtype.itemsize)

    def on_bits(builder: Any, x: Any) -> Any:
        return builder.bitcast(emit(builder, word, builder.bitcast(x, word)), x.type)

    def python_form(x: Any) -> Any:
        return integer(in_python(x.view(integer))).view(dtype.type)

    return _emitted(on_bits, python_form)


def _mantissa_bits(dtype: np.dtype[Any]) -> int:
    return int(np.finfo(dtype).nmant)


def _power_of_two(dtype: np.dtype[Any]) -> Any:
    """Return 2^(t - t0 - bias) of ``t = t0 + an integer``, t0 the format's `round_to_integer`."""
    digits = _mantissa_bits(dtype)
    return _on_bits(dtype, lambda builder, word, x: builder.shl(x, word(digits)), lambda x: x << digits)


def _split(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the bits of sqrt(1/2), where the mantissas of an exponent begin here, and those of `round_to_integer`."""
    form = _FORMATS[dtype.name]
    root = int(dtype.type(math.sqrt(0.5)).view(form.integer))
    return root, int(dtype.type(form.round_to_integer).view(form.integer))


def _exponent_of(dtype: np.dtype[Any]) -> Any:
    """Return e of ``x = 2^e f`` as a float, converted by an addition, which every SIMD width has."""
    digits, (root, magic_bits) = _mantissa_bits(dtype), _split(dtype)
    magic = dtype.type(_FORMATS[dtype.name].round_to_integer)

    def emit(builder: Any, word: Any, x: Any) -> Any:
        return builder.add(builder.ashr(builder.sub(x, word(root)), word(digits)), word(magic_bits))

    plus_magic = _on_bits(dtype, emit, lambda x: ((x - root) >> digits) + magic_bits)

    @inlined
    def exponent_of(x: Any) -> Any:
        return plus_magic(x) - magic

    return exponent_of


def _mantissa_of(dtype: np.dtype[Any]) -> Any:
    """Return f of ``x = 2^e f``, from 1 / sqrt(2) to sqrt(2)."""
    (root, _), mask = _split(dtype), (1 << _mantissa_bits(dtype)) - 1

    def emit(builder: Any, word: Any, x: Any) -> Any:
        return builder.add(builder.and_(builder.sub(x, word(root)), word(mask)), word(root))

    return _on_bits(dtype, emit, lambda x: ((x - root) & mask) + root)
