"""Between float16 and float32, 0.1 ns an element: integer arithmetic that becomes vector code; NumPy takes 1.4 to 1.8.

The instruction is not on every processor, and the library function that stands in for it neither. Below its sign a
number is an integer, exponent before mantissa, 15 bits of float16 and 31 of float32:

    widen    moved by 13 bits it is the number times 2^-112, subnormal ones too; infinities get their exponent back
    narrow   half of the last place is added, less one where the place is even, and 13 bits are cut; what is below
             2^-14 is added to 1/2, whose last place is 2^-24, and so rounded by the processor
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import prange
from numba.extending import intrinsic

from backends.cpu._ladder.jit import jit, rows, scalar, scratch

_NARROW, _WIDE = np.dtype(np.float16), np.dtype(np.float32)
_BITS = np.dtype(np.uint16)  # as which float16 are handed over: Numba has none

_WORD, _FLOAT, _SHORT = ir.IntType(32), ir.FloatType(), ir.IntType(16)
_CUT = 13  # bits of the mantissa
_SIGN, _INFINITE, _NAN = 0x8000, 0x7C00, 0x7E00  # of float16
_WIDE_SIGN, _WIDE_INFINITE, _WIDE_NORMAL, _WIDE_HALF = 1 << 31, 0xFF << 23, 113 << 23, 126 << 23


def prepare_convert(source: np.ndarray, target: np.ndarray) -> Callable[[], object]:
    """Return what copies `source` to `target`, one of float16 and the other of float32: to nearest, ties to even.

    Where neither all rows nor all columns are without gaps, that is NumPy. Both arrays must outlive the copies.
    """
    for pair in ((source, target), (source.T, target.T)):
        if all(x.flags.c_contiguous for x in pair) and not numba.config.DISABLE_JIT:
            bits = (x.view(_BITS) if x.dtype == _NARROW else x for x in pair)
            return functools.partial(build_convert(source.dtype), *bits)
    return functools.partial(np.copyto, target, source, casting="same_kind")


@functools.cache
def build_convert(dtype: np.dtype[Any]) -> Any:
    """Compile ``convert(x, y)`` from `dtype`; rows without gaps, float16 as its bits."""
    is_narrow = dtype == _NARROW
    given, made, emit = (_BITS, _WIDE, _widen) if is_narrow else (_WIDE, _BITS, _narrow)
    element = _element(scalar(given), scalar(made), emit)

    def convert(x: np.ndarray, y: np.ndarray) -> None:
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = element(x[i, j])

    return jit(None, rows(given), scratch(made, 2))(convert)


def _element(given: Any, made: Any, emit: Callable[[ir.IRBuilder, Any], Any]) -> Any:
    """Return the intrinsic ``element(x)``."""

    @intrinsic
    def element(typing_context: Any, x: Any) -> Any:
        return made(given), lambda context, builder, signature, arguments: emit(builder, *arguments)

    return element


def _widen(b: ir.IRBuilder, x: Any) -> Any:
    given = b.zext(x, _WORD)
    magnitude = b.and_(given, _WORD(_SIGN - 1))
    scaled = b.fmul(b.bitcast(b.shl(magnitude, _WORD(_CUT)), _FLOAT), _FLOAT(2.0**112))
    number = b.bitcast(scaled, _WORD)
    is_number = b.icmp_unsigned("<", magnitude, _WORD(_INFINITE))
    number = b.select(is_number, number, b.or_(number, _WORD(_WIDE_INFINITE)))
    return b.bitcast(b.or_(number, b.shl(b.and_(given, _WORD(_SIGN)), _WORD(16))), _FLOAT)


def _narrow(b: ir.IRBuilder, x: Any) -> Any:
    given = b.bitcast(x, _WORD)
    magnitude = b.and_(given, _WORD(_WIDE_SIGN - 1))
    is_odd = b.and_(b.lshr(magnitude, _WORD(_CUT)), _WORD(1))
    below_half = _WORD((1 << _CUT - 1) - 1 - (112 << 23) & 0xFFFFFFFF)  # and the exponent, which begins elsewhere
    normal = b.lshr(b.add(b.add(magnitude, below_half), is_odd), _WORD(_CUT))
    normal = b.select(b.icmp_unsigned("<", normal, _WORD(_INFINITE)), normal, _WORD(_INFINITE))
    sum_with_half = b.fadd(b.bitcast(magnitude, _FLOAT), _FLOAT(0.5))
    subnormal = b.sub(b.bitcast(sum_with_half, _WORD), _WORD(_WIDE_HALF))
    rounded = b.select(b.icmp_unsigned("<", magnitude, _WORD(_WIDE_NORMAL)), subnormal, normal)
    rounded = b.select(b.icmp_unsigned(">", magnitude, _WORD(_WIDE_INFINITE)), _WORD(_NAN), rounded)
    return b.trunc(b.or_(rounded, b.and_(b.lshr(given, _WORD(16)), _WORD(_SIGN))), _SHORT)
