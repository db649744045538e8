"""cuBLAS's products of a matrix and a vector, cublasSgemv and cublasDgemv: the reference of the matrix-vector rungs.

    y = A x, A by rows      the transpose of what cuBLAS, which is column-major, sees
    y = x B, B by rows      what it sees, as it is; by columns the other way round

Source: cuBLAS, cublasSgemv and cublasDgemv; not cublasGemmEx with n = 1, which is slower.
"""

from __future__ import annotations

import functools

import numpy as np

from backends.gpu._cuda.launches import Given, Routine
from backends.gpu._matrix_vector.product import MatrixVector
from backends.gpu._matrix_vector.rung import MatrixVectorRung
from backends.gpu._passes.passes import add_pass
from backends.gpu._program.program import Program
from backends.gpu.libraries._cublas import bind, missing
from harness.dtypes import dtype_name
from harness.plan import Plan
from harness.problem import Problem

# cublas_api.h
_NO_TRANSPOSE, _TRANSPOSE = 0, 1
_ROUTINES = {"float32": "cublasSgemv_v2", "float64": "cublasDgemv_v2"}


class CublasMatrixVector(MatrixVectorRung):
    """The vendor's matrix-vector product."""

    name = "gpu-mv-cublas"
    step = 89
    idea = "the vendor's matrix-vector product, not its matrix product with one column"
    source = "NVIDIA cuBLAS, cublasSgemv and cublasDgemv"
    project = "cuBLAS"
    calls_libraries = True

    def missing(self) -> str | None:
        """Say whether there is a GPU, and cuBLAS."""
        return super().missing() or missing()

    def declines(self, problem: Problem) -> str | None:
        """Decline all but plus_times over float32 and float64, and an alpha that is no factor of the sums."""
        if not problem.semiring.is_ordinary:
            return "cuBLAS computes plus_times only"
        if dtype_name(problem.dtype) not in _ROUTINES:
            return "cuBLAS has matrix-vector products over float32 and float64"
        if problem.alpha is not None and (problem.alpha == 0 or not np.isfinite(problem.alpha)):
            return "cuBLAS multiplies sums with alpha: zero hides a NaN, and infinity makes NaN of a sum of zero"
        return super().declines(problem)

    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the call, and before it the pass that begins y where there is a C, or no term."""
        problem, count = plan.problem, product.count
        c, y = (product.c, product.step_c), (product.y, product.step_y)
        if problem.accumulate and not (problem.beta is None and product.c == product.y):
            beta = problem.dtype.type(0) if problem.beta is None else problem.beta
            add_pass(program, problem, "begin", count, problem.beta is not None, beta, *c, *y, count, 1)
        if product.k:
            gemv = functools.partial(_load, product, problem)
            program.call(gemv, product.matrix, product.x, product.y)
        elif not problem.accumulate:
            add_pass(program, problem, "fill", count, *y, count, 1)


def _load(product: MatrixVector, problem: Problem) -> Routine:
    """Return the routine, which takes the addresses of the matrix, of x and of y."""
    by_rows = product.is_by_rows
    rows, columns = (product.k, product.count) if by_rows else (product.count, product.k)
    ld = product.step_i if by_rows else product.step_p
    one = problem.dtype.type(1)
    alpha, beta = (
        np.array([factor], problem.dtype)
        for factor in (one if problem.alpha is None else problem.alpha, one if problem.accumulate else 0)
    )
    arguments = (
        _TRANSPOSE if by_rows else _NO_TRANSPOSE, rows, columns,
        alpha, Given(0), max(ld, rows), Given(1), product.step_x, beta, Given(2), product.step_y,
    )  # fmt: skip
    return bind(_ROUTINES[dtype_name(problem.dtype)], "compute the product", arguments)
