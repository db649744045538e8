"""The condition under which three TF32 products are right, as macros of CUDA C."""

from __future__ import annotations

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.operators import Form, semiring_defines
from harness.problem import Problem

# 3xTF32 is right for magnitudes between these, and for zeros: parts are finite and normal, products finite.
TF32_LEAST, TF32_GREATEST = "1e-30f", "1e18f"
MAGNITUDE = "((x) == 0 ? (T)1 : fabsf(x))"
_TF32_IS_SAFE = (
    f"((low_a) >= {TF32_LEAST} && (low_b) >= {TF32_LEAST} "
    f"&& (high_a) <= {TF32_GREATEST} && (high_b) <= {TF32_GREATEST})"
)


def single_defines(problem: Problem, form: Form, *, accumulate: bool) -> Defines:
    """Return the semiring's macros over float32, with the condition under which three TF32 products are right."""
    macros = dict(semiring_defines(problem.semiring, problem.dtype, form=form, accumulate=accumulate))
    return as_defines({**macros, "IS_SAFE(low_a, high_a, low_b, high_b)": _TF32_IS_SAFE})
