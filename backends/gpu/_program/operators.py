"""A semiring as macros of CUDA C: tables of (+), of (x) and of fused forms, and the conditions of the fast forms.

`semiring.cuh` holds the functions that these expressions call, and lists the macros that a kernel needs. The rules are
those of docs/semirings.md:

* a NaN term is absent under min and max: ``fminf`` drops it, and so does a comparison, since a NaN loses it. Over
  float64 the comparison is twice as fast as ``fmin``; over float32 ``fminf`` is one instruction;
* in integers under min and max the zero absorbs and sums saturate. Plain sums are right if the extremes of A and B
  exclude zeros and overflow. Plus and min are then one instruction (DPX on sm_90).
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from harness.dtypes import TABLE, dtype_name
from harness.problem import Problem
from harness.semiring import BINARY_OPS, MONOIDS, Semiring, highest, lowest

# Element types, by NumPy's names.
TYPES = {row.name: row.c for row in TABLE.values() if row.c}


def unsigned(itemsize: int) -> str:
    """Return the type by which elements of so many bytes are moved."""
    return TYPES[f"uint{8 * itemsize}"]


class Form(enum.Enum):
    """Form of (x) that a kernel has; the numbers are those of semiring.cuh."""

    ANY = 0  # right for all values
    FAST = 1  # right if the extremes of A and B obey `IS_SAFE`; returns at once otherwise
    CAREFUL = 2  # right for all values; returns at once where the fast form does the work


class KTail(enum.Enum):
    """Way to fill the last tile along k; the numbers are those of edges.cuh."""

    REPEAT = 0
    FILL = 1
    LIMIT = 2


class _Expressions(NamedTuple):
    """One operation over floats of 4 bytes, over other floats, and over integers and bools; None: not defined there."""

    single: str | None
    double: str | None
    integer: str | None

    def of(self, dtype: np.dtype[Any]) -> str | None:
        """Return the expression over `dtype`."""
        if dtype.kind != "f":
            return self.integer
        return self.single if dtype.itemsize == 4 else self.double


class TwoSteps(NamedTuple):
    """Two steps of k at once: the instruction, its condition, and the sign change for the other form."""

    combine: str
    is_safe: str
    flipped: str


# c (+) t, accumulator first
_ADD = {
    "plus": _Expressions("(c) + (t)", "(c) + (t)", "wrap_add<T>(c, t)"),
    "times": _Expressions("(c) * (t)", "(c) * (t)", "wrap_mul<T>(c, t)"),
    "min": _Expressions("fminf(c, t)", "smaller<T>(c, t)", "smaller<T>(c, t)"),
    "max": _Expressions("fmaxf(c, t)", "greater<T>(c, t)", "greater<T>(c, t)"),
    "lor": _Expressions(None, None, "(T)((c) | (t))"),
    "land": _Expressions(None, None, "(T)((c) & (t))"),
    "lxor": _Expressions(None, None, "(T)((c) ^ (t))"),
    "logaddexp": _Expressions("log_add_exp(c, t)", "log_add_exp(c, t)", None),
}

# a (x) b
_MULTIPLY = {
    "plus": _Expressions("(a) + (b)", "(a) + (b)", "wrap_add<T>(a, b)"),
    "times": _Expressions("(a) * (b)", "(a) * (b)", "wrap_mul<T>(a, b)"),
    "min": _Expressions("min_or_nan(a, b)", "min_or_nan(a, b)", "smaller<T>(a, b)"),
    "max": _Expressions("max_or_nan(a, b)", "max_or_nan(a, b)", "greater<T>(a, b)"),
    "pair": _Expressions("(T)1", "(T)1", "(T)1"),
    "first": _Expressions("(a)", "(a)", "(a)"),
    "second": _Expressions("(b)", "(b)", "(b)"),
    "absdiff": _Expressions("fabsf((a) - (b))", "fabs((a) - (b))", "distance<T>(a, b)"),
    "sqdiff": _Expressions("square<T>((a) - (b))", "square<T>((a) - (b))", "square<T>(wrap_sub<T>(a, b))"),
    "land": _Expressions(None, None, "(T)((a) & (b))"),
    "lor": _Expressions(None, None, "(T)((a) | (b))"),
}

# c (+) a (x) b where one instruction does both
_COMBINE = {("plus", "times"): _Expressions("fmaf(a, b, c)", "fma(a, b, c)", None)}

_VARIABLES = re.compile(r"\b[abct]\b")  # of those expressions

# (x) whose term of a zero in A and a zero in B adds nothing to a sum
_ZEROS_ADD_NOTHING = {
    "plus": frozenset("times plus min max absdiff sqdiff first second".split()),
    "lxor": frozenset(("land", "lor")),
}

# Two steps of k in one instruction over float32, of the terms s and t, and its condition on the extremes of A and B.
# Non-negative floats have the order of their bits as integers; non-positive ones have the reverse order. A NaN among
# the extremes makes every comparison false.
#
# Otherwise the careful form starts with one step after the other. It goes on with two once the sums have the sign that
# (+) leads to (`min_of_negative` in tuned.cu); `flipped` makes that sign negative.
_TWO_STEPS = {
    ("min", "plus"): TwoSteps("min_non_negative(c, s, t)", "(low_a) + (low_b) >= 0", "(x)"),
    ("max", "plus"): TwoSteps("max_non_positive(c, s, t)", "(high_a) + (high_b) <= 0", "(-(x))"),
}


def unsupported(semiring: Semiring, dtype: np.dtype[Any]) -> str | None:
    """Return why kernels cannot be made for `semiring` over `dtype`, or None."""
    add, multiply = semiring.add, semiring.multiply
    for op, known in ((add, MONOIDS), (multiply, BINARY_OPS)):
        if known.get(op.name) is not op:
            return f"{op.name} has no form in CUDA C: kernels for GPUs take named operations only"
    return None if dtype_name(dtype) in TYPES else f"no kernel for {dtype_name(dtype)}"


def has_fast_form(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether some values allow a faster (x), so that the extremes of A and B are worth finding."""
    return semiring.absorbs(dtype) or two_steps(semiring, dtype) is not None


def two_steps(semiring: Semiring, dtype: np.dtype[Any]) -> TwoSteps | None:
    """Return how the fast form combines two steps of k at once, or None if it does not."""
    is_single = dtype.kind == "f" and dtype.itemsize == 4
    return _TWO_STEPS.get((semiring.add.name, semiring.multiply.name)) if is_single else None


def k_tail(semiring: Semiring) -> KTail:
    """Return the cheapest right way to fill the last tile along k."""
    if semiring.add.is_selective:
        return KTail.REPEAT
    return KTail.FILL if semiring.multiply.name in _ZEROS_ADD_NOTHING.get(semiring.add.name, ()) else KTail.LIMIT


@functools.lru_cache(512)
def semiring_defines(
    semiring: Semiring, dtype: np.dtype[Any], *, form: Form = Form.ANY, accumulate: bool = False
) -> Defines:
    """Return the macros that semiring.cuh expects.

    Parameters
    ----------
    semiring : Semiring
    dtype : numpy dtype
    form : Form
        ANY stands for the careful form where there is a fast one.
    accumulate : bool
        Whether the kernel adds to C.
    """
    add, multiply = _ADD[semiring.add.name].of(dtype), _MULTIPLY[semiring.multiply.name].of(dtype)
    assert add is not None
    assert multiply is not None
    fused, safe, steps, is_long = None, "1", 1, semiring.add.name == "logaddexp"
    if dtype.kind == "f":
        fused = _COMBINE.get((semiring.add.name, semiring.multiply.name))
    combine = f"c = {fused.of(dtype)}" if fused else "c = ADD(c, MULTIPLY(a, b))"
    if dtype.kind == "b":  # sums and terms are 0 or 1, what memory holds may be any byte
        combine = f"c = {_VARIABLES.sub(lambda x: 'MULTIPLY(a, b)' if x[0] == 't' else x[0], add)}"
        add, multiply = (_VARIABLES.sub(r"truth(\g<0>)", x) for x in (add, multiply))
    low, high, zero = (literal(x, dtype) for x in (lowest(dtype), highest(dtype), semiring.zero(dtype)))
    if semiring.absorbs(dtype):
        safe = "sums_fit<T>(low_a, high_a, low_b, high_b, ZERO, LOW, HIGH)"
        if form is not Form.FAST:
            multiply, is_long = "absorbing_add<T>(a, b, ZERO, LOW, HIGH)", True
    macros = {
        "T": TYPES[dtype_name(dtype)],
        "LOW": low,
        "HIGH": high,
        "ZERO": zero,
        "ADD(c, t)": f"((T)({add}))",  # Half is computed in float, and cast back here
        "MULTIPLY(a, b)": f"((T)({multiply}))",
        "COMBINE(c, a, b)": combine,
    }
    two = two_steps(semiring, dtype)
    settles = two is not None and form is Form.CAREFUL
    if two is not None:
        safe = two.is_safe
        if form is not Form.ANY:
            steps, macros["FLIPPED(x)"] = 2, two.flipped
            macros["COMBINE_TWO(c, s, t)"] = f"c = {'ADD(ADD(c, s), t)' if settles else two.combine}"
    macros |= {
        "IS_SAFE(low_a, high_a, low_b, high_b)": f"({safe})",
        "FORM": form.value,
        "STEPS": steps,
        "SETTLES": settles,
        "IS_LONG": is_long,
    }
    return as_defines({**macros, "ACCUMULATE": accumulate, "K_TAIL": k_tail(semiring).value})


def operand_defines(problem: Problem) -> Defines:
    """Return the macro for operands narrower than the sums, if they are: other kernels keep their text."""
    return as_defines({"OPERAND": TYPES[dtype_name(problem.input_dtype)]}) if problem.is_mixed else ()


def triangle_defines(problem: Problem) -> Defines:
    """Return the macro of triangle.cuh, if there is a triangle of D: kernels of whole matrices keep their text."""
    return as_defines({"TRIANGLE": 1}) if problem.triangle == "d" else ()


def batch_defines(batch: object) -> Defines:
    """Return the macro of batch.cuh, if there is a batch."""
    return as_defines({"BATCH": 1}) if batch else ()


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """Return a scalar of `dtype` as C writes it."""
    if dtype.kind == "b":
        return str(int(value))
    if dtype.kind == "f":
        if np.isinf(value):
            return "(-INFINITE)" if value < 0 else "INFINITE"
        return f"((T){float(value)!r})"
    if dtype.kind == "u":
        return f"((T){int(value)}ull)"
    return f"((T)({int(value) + 1}ll - 1))" if value < 0 else f"((T){int(value)}ll)"
