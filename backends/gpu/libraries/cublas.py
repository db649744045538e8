"""cuBLAS: NVIDIA's library, the reference for plus_times on a GPU.

    float64           tensor cores, ordinary rounding
    float32           fused multiply-adds; `gpu-cublas-tf32`: tensor cores, operands rounded to 11 significant bits
    float16, bfloat16 sums in float32
    int8              sums in int32, where rows begin at multiples of 4 bytes

Source: cuBLAS, cublasGemmEx.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from backends.gpu._simt.operators import Form
from backends.gpu._simt.program import Matrix, Place, Program
from backends.gpu._simt.rung import Rung
from backends.gpu._tensor.norms import largest_dot
from backends.gpu.libraries._cublas import Gemm, library
from harness.errors import BackendUnavailable
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

# cuBLAS wants rows of int8 matrices to begin at multiples of so many bytes.
_INT8_STEP = 4


class Cublas(Rung):
    """The vendor's library, TF32 off."""

    name = "gpu-cublas"
    step = 90
    idea = "the vendor's library, in full precision: what every rung below is measured against"
    source = "NVIDIA cuBLAS, cublasGemmEx with CUBLAS_COMPUTE_32F, 64F, 32I"
    takes = Rung.takes | {"mixed"}
    uses_tf32: ClassVar[bool] = False

    def missing(self) -> str | None:
        """Say whether there is a GPU, and cuBLAS."""
        reason = super().missing()
        if reason is None:
            try:
                library()
            except BackendUnavailable as error:
                return error.what
        return reason

    def declines(self, problem: Problem) -> str | None:
        """Decline every semiring but plus_times, integers but int8, and int8 whose rows are not aligned."""
        if not problem.semiring.is_ordinary:
            return "cuBLAS computes plus_times only"
        if problem.dtype.kind != "f" and not problem.is_mixed:
            return "cuBLAS takes floats, and int8 with sums in int32"
        if problem.is_mixed and problem.alpha is not None and not np.isfinite(problem.alpha):
            return "an infinite alpha would make NaN of sums that are zero"
        if problem.input_dtype.name == "int8" and (problem.k % _INT8_STEP or problem.n % _INT8_STEP):
            return f"cuBLAS takes int8 where k and n are multiples of {_INT8_STEP}"
        return None

    def multiply(
        self, program: Program, plan: Plan, form: Form, a: Matrix, b: Matrix, out: Matrix, extremes: Place
    ) -> None:
        """Add the call."""
        problem = plan.problem
        alpha = problem.alpha if problem.is_mixed and problem.alpha is not None else problem.dtype.type(1)
        gemm = Gemm(
            problem.m, problem.n, problem.k, a.ld, b.ld, out.ld, problem.input_dtype.name, problem.dtype.name,
            alpha.item(), int(problem.accumulate), self.uses_tf32,
        )  # fmt: skip
        program.call(gemm.bind, a.place, b.place, out.place)


class CublasTf32(Cublas):
    """The vendor's library, TF32 on."""

    name = "gpu-cublas-tf32"
    step = 91
    idea = "the vendor's library on tensor cores: float32 operands rounded to 11 significant bits, and faster for it"
    source = "NVIDIA cuBLAS, cublasGemmEx with CUBLAS_COMPUTE_32F_FAST_TF32"
    takes = Rung.takes
    uses_tf32 = True

    def declines(self, problem: Problem) -> str | None:
        """Decline all but float32."""
        return super().declines(problem) or (None if problem.dtype.name == "float32" else "TF32 is made of float32")

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return what rounding both operands to TF32 costs: 2^-11 each, of the largest sum of absolute terms."""
        return 2.0**-10 * largest_dot(plan.problem, operands)
