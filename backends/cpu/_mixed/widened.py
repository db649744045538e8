"""float32 operands with float64 sums, complex64 with complex128: copied as wide in every run, for cpu-simd to multiply.

A product of two float32 is exact in float64, so only sums are rounded. Unlike narrower operands, these would fill a
packed panel as wide numbers anyway: the copies cost O(m k + k n), on one thread, beside O(m n k).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from harness.dtypes import parts_dtype
from harness.interface import Backend, Execution, HostExecution
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem


def is_widened(problem: Problem) -> bool:
    """Return whether A and B of `problem` are copied as wide matrices, not packed as words."""
    return problem.is_mixed and parts_dtype(problem.dtype) == np.float64


def ordinary(problem: Problem) -> Problem:
    """Return the product of the copies."""
    return dataclasses.replace(problem, operand_dtype=None)


def prepare_widened(base: Backend, plan: Plan, operands: Operands) -> Execution:
    """Have `base` prepare the product of the copies; `plan` has its blocks and options."""
    narrow = operands.a, operands.b
    wide = [_room_for(x, plan.problem.dtype) for x in narrow]
    of_copies = Operands(wide[0], wide[1], operands.c, operands.out)
    execution = base.prepare(dataclasses.replace(plan, problem=ordinary(plan.problem)), of_copies)

    def run() -> None:
        with np.errstate(all="ignore"):  # of a signalling NaN a cast reports that it is invalid
            for copy, x in zip(wide, narrow, strict=True):
                np.copyto(copy, x)
        execution.run()

    return HostExecution(operands, run)


def _room_for(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return an array of the shape of `x`, by columns if `x` is."""
    by_columns = x.flags.f_contiguous and not x.flags.c_contiguous
    return aligned_empty(x.shape[::-1], dtype).T if by_columns else aligned_empty(x.shape, dtype)
