"""Operations of a semiring on vectors, as LLVM IR: one table of (+), one of (x), and the conditions of the fast forms.

The fast form of a (x) is one instruction of the processor. For two kinds of (x) it is right only for some values, which
a scan of A and B (O(m k + k n)) checks. `Guard` names the condition; the careful form is right for all values:

* min and max as (x) over floats: the instruction drops a NaN of A, where the rule is that the term is NaN.
* plus as (x) under min or max over integers: the zero absorbs and other sums saturate; plain sums do neither.

(+) by compare and select, accumulator second, is one instruction on x86 and drops a NaN term, as required. On a unit
that orders NaN that is two instructions, and its min that drops a NaN is one. It drops no signalling NaN, so that an
operand which is a term by itself is made quiet.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import is_bool, is_complex, is_float, parts_dtype
from harness.semiring import HALF, Semiring

Emit = Callable[[VectorCode, Builder, Value, Value], Value]


class Guard(enum.Enum):
    """Condition on the values of A and B under which the fast form of (x) is right."""

    NONE = "nothing: the fast form is always right"
    NO_NAN_IN_A = "A holds no NaN"
    NO_EXTREME = "no zero in A and B, and no sum can leave the dtype's range"


class Operations(NamedTuple):
    """A semiring over one dtype, by names and numbers alone, so that it can be the key of a compiled kernel.

    Attributes
    ----------
    add, multiply : str
        Keys of the tables below.
    zero : int or float
        The identity of `add`.
    is_careful : bool
        Whether (x) takes its careful form.
    conjugates : str
        The complex operands, of "a" and "b", that are conjugated as they are read.
    """

    add: str
    multiply: str
    zero: int | float
    is_careful: bool = False
    conjugates: str = ""

    @property
    def is_fused(self) -> bool:
        """Whether (x) and (+) are one instruction over floats."""
        return self.add == "plus" and self.multiply == "times"

    def extend(self, code: VectorCode, builder: Builder, total: Value, x: Value, y: Value) -> Value:
        """Return ``total (+) (x (x) y)``, with multiplication and addition fused where floats are multiplied."""
        if self.add == "plus" and is_float(code.dtype) and self.multiply in ("times", "sqdiff"):
            if self.multiply == "sqdiff":
                x = y = builder.fsub(x, y)
            return code.intrinsic(builder, "fmuladd", x, y, total)
        return self.combine(code, builder, total, self.term(code, builder, x, y))

    def term(self, code: VectorCode, builder: Builder, x: Value, y: Value) -> Value:
        """Return ``x (x) y``."""
        if not self.is_careful:
            return _MULTIPLY[self.multiply](code, builder, x, y)
        if is_float(code.dtype):
            return code.intrinsic(builder, _PROPAGATING[self.multiply], x, y)
        return _absorbing_plus(code, builder, x, y, code.constant(self.zero))

    def combine(self, code: VectorCode, builder: Builder, total: Value, term: Value) -> Value:
        """Return ``total (+) term``."""
        return _ADD[self.add](code, builder, total, term)


def operations(semiring: Semiring, dtype: np.dtype[Any]) -> Operations | None:
    """Return the operations of `semiring` over `dtype`, or None if the tables lack one; bools are words of bits."""
    add, multiply = semiring.add, semiring.multiply
    if not semiring.is_tabled or add.name not in _ADD or multiply.name not in _MULTIPLY or dtype == HALF:
        return None
    if is_complex(dtype) and not semiring.is_ordinary:
        return None
    zero = semiring.zero(parts_dtype(dtype)).item()
    return Operations(add.name, multiply.name, -int(zero) if is_bool(dtype) else zero)


def guard(semiring: Semiring, dtype: np.dtype[Any]) -> Guard:
    """Return the condition of the fast form of (x)."""
    if semiring.absorbs(dtype):
        return Guard.NO_EXTREME
    if is_float(dtype) and semiring.multiply.name in ("min", "max"):
        return Guard.NO_NAN_IN_A
    return Guard.NONE


def _either(on_floats: str, on_integers: str) -> Emit:
    """Return the instruction of that name for the dtype's kind."""
    return lambda code, builder, x, y: getattr(builder, on_floats if is_float(code.dtype) else on_integers)(x, y)


def _less(code: VectorCode, builder: Builder, x: Value, y: Value) -> Value:
    if is_float(code.dtype):
        return builder.fcmp_ordered("<", x, y)
    return (builder.icmp_signed if code.dtype.kind == "i" else builder.icmp_unsigned)("<", x, y)


def _ordered(intrinsic: str, emit: Emit) -> Emit:
    """Return that intrinsic of LLVM where the unit orders NaN, and `emit` elsewhere."""
    return lambda code, builder, x, y: (
        code.intrinsic(builder, intrinsic, x, y) if code.orders_nan else emit(code, builder, x, y)
    )


def _keep_smaller(code: VectorCode, builder: Builder, c: Value, t: Value) -> Value:
    return builder.select(_less(code, builder, t, c), t, c)


def _keep_greater(code: VectorCode, builder: Builder, c: Value, t: Value) -> Value:
    return builder.select(_less(code, builder, c, t), t, c)


def _quiet(code: VectorCode, builder: Builder, x: Value) -> Value:
    return code.intrinsic(builder, "canonicalize", x) if code.orders_nan else x


def _pair(code: VectorCode, builder: Builder, x: Value, y: Value) -> Value:
    return code.constant(1)


def _absdiff(code: VectorCode, builder: Builder, x: Value, y: Value) -> Value:
    if is_float(code.dtype):
        return code.intrinsic(builder, "fabs", builder.fsub(x, y))
    return builder.select(_less(code, builder, y, x), builder.sub(x, y), builder.sub(y, x))


def _sqdiff(code: VectorCode, builder: Builder, x: Value, y: Value) -> Value:
    difference = (builder.fsub if is_float(code.dtype) else builder.sub)(x, y)
    return _TIMES(code, builder, difference, difference)


def _absorbing_plus(code: VectorCode, builder: Builder, x: Value, y: Value, nothing: Value) -> Value:
    total = code.intrinsic(builder, "sadd.sat" if code.dtype.kind == "i" else "uadd.sat", x, y)
    absorbs = builder.or_(builder.icmp_signed("==", x, nothing), builder.icmp_signed("==", y, nothing))
    return builder.select(absorbs, nothing, total)


_PLUS, _TIMES = _either("fadd", "add"), _either("fmul", "mul")

_ADD: dict[str, Emit] = {
    "plus": _PLUS,
    "times": _TIMES,
    "min": _ordered("minnum", _keep_smaller),
    "max": _ordered("maxnum", _keep_greater),
    "lor": lambda code, builder, c, t: builder.or_(c, t),
    "lxor": lambda code, builder, c, t: builder.xor(c, t),
    "land": lambda code, builder, c, t: builder.and_(c, t),
}

_MULTIPLY: dict[str, Emit] = {
    "plus": _PLUS,
    "times": _TIMES,
    # y, of B, second: a NaN of B propagates
    "min": _ordered("minimum", lambda code, builder, x, y: builder.select(_less(code, builder, x, y), x, y)),
    "max": _ordered("maximum", lambda code, builder, x, y: builder.select(_less(code, builder, y, x), x, y)),
    "pair": _pair,
    "first": lambda code, builder, x, y: _quiet(code, builder, x),
    "second": lambda code, builder, x, y: _quiet(code, builder, y),
    "absdiff": _absdiff,
    "sqdiff": _sqdiff,
    "land": lambda code, builder, x, y: builder.and_(x, y),
    "lor": lambda code, builder, x, y: builder.or_(x, y),
}

# LLVM's forms of min and max that return NaN if an operand is
_PROPAGATING = {"min": "minimum", "max": "maximum"}
