"""Macros of kernels over words of two 16-bit elements: operators on both halves, and results in C.

The halves of a word are neighbours along k. So a sum of words holds two sums, of the even and of the odd steps, and (+)
of both is the element of C.

    int16, uint16   min or max of c and a + b in one instruction (DPX, sm_90); plain sums, which wrap: right for values
                    whose extremes are small enough
    float16         a (x) b, then (+) with the terms of two steps at once, which on sm_90 is one instruction; right for
                    all values: a NaN term is absent, subnormal numbers are kept, each term is rounded once

Source: NVIDIA, CUDA Math API, SIMD intrinsics (DPX); PTX ISA, half precision instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program import operators as simt_operators
from backends.gpu._program.operators import TYPES, Form, semiring_defines
from harness.dtypes import dtype_name
from harness.semiring import SEMIRINGS, Semiring, highest, lowest

PER_WORD = 2
WORD = np.dtype(np.uint32)
_BITS = 16

_DPX = {
    ("min_plus", "int16"): "__viaddmin_s16x2",
    ("max_plus", "int16"): "__viaddmax_s16x2",
    ("min_plus", "uint16"): "__viaddmin_u16x2",
}

# Functions of intrinsics.cuh over two float16.
_ADD = {"min": "min_halves", "max": "max_halves"}
_MULTIPLY = {"plus": "add_halves", "times": "multiply_halves", "min": "min_halves_or_nan", "max": "max_halves_or_nan"}

# The same (+) of semiring.cuh over single elements.
_CHOOSE = {"min": "smaller", "max": "greater"}


def unsupported(semiring: Semiring, dtype: np.dtype[Any]) -> str | None:
    """Return why no instruction works on two elements of `dtype` at once, or None."""
    if dtype_name(dtype) == "float16":
        has_instructions = semiring.add.name in _ADD and semiring.multiply.name in _MULTIPLY
        return simt_operators.unsupported(semiring, dtype) if has_instructions else "no instruction on two float16"
    if semiring.is_named and (semiring.name, dtype_name(dtype)) in _DPX:
        return None
    return "no instruction works on two elements: float16, " + ", ".join(f"{name} {of}" for name, of in _DPX) + " only"


def form_of(dtype: np.dtype[Any]) -> Form:
    """Return the form of (x) that words have: plain sums of integers are right for some values only."""
    return Form.ANY if dtype.kind == "f" else Form.FAST


def pair_defines(semiring: Semiring, dtype: np.dtype[Any], *, accumulate: bool = False) -> Defines:
    """Return the macros of semiring.cuh for a kernel over words of two elements of `dtype`, of which C consists.

    Parameters
    ----------
    semiring : Semiring
    dtype : numpy dtype
        Not `unsupported`.
    accumulate : bool
        Whether the kernel adds to C.
    """
    words = semiring_defines(SEMIRINGS["min_plus"], WORD, form=Form.FAST, accumulate=accumulate)
    zero = int(np.asarray(semiring.zero(dtype)).view(np.uint16))
    macros = {
        "ZERO": f"{zero | zero << _BITS:#x}u",
        "RESULT": TYPES[dtype_name(dtype)],
        "ADD(c, t)": f"({_CHOOSE[semiring.add.name]}<RESULT>(c, t))",
        "FORM": form_of(dtype).value,
    }
    operators = _of_halves(semiring) if dtype.kind == "f" else _of_integers(semiring, dtype)
    return as_defines({**dict(words), **macros, **operators})


def _of_halves(semiring: Semiring) -> dict[str, str | int]:
    add = _ADD[semiring.add.name]
    return {
        "FINISHED(x)": f"half_of({add}(x, (x) >> {_BITS}))",
        "MULTIPLY(a, b)": f"{_MULTIPLY[semiring.multiply.name]}(a, b)",
        "STEPS": 2,
        "COMBINE_TWO(c, s, t)": f"c = {add}({add}(c, s), t)",
    }


def _of_integers(semiring: Semiring, dtype: np.dtype[Any]) -> dict[str, str | int]:
    zero, low, high = (int(x) for x in (semiring.zero(dtype), lowest(dtype), highest(dtype)))
    element = TYPES[dtype_name(dtype)]
    ends = ", ".join(f"(int)({end})" for end in "low_a high_a low_b high_b".split())
    return {
        "FINISHED(x)": f"ADD(({element})(x), ({element})((x) >> {_BITS}))",
        "COMBINE(c, a, b)": f"c = {_DPX[semiring.name, dtype_name(dtype)]}(a, b, c)",
        "EXTREME": element,
        "IS_SAFE(low_a, high_a, low_b, high_b)": f"(sums_fit<int>({ends}, {zero}, {low}, {high}))",
    }
