"""cuBLAS: NVIDIA's library, the reference for plus_times on a GPU.

    float64           tensor cores, ordinary rounding
    float32           fused multiply-adds; `gpu-cublas-tf32`: tensor cores, operands rounded to 11 significant bits
    float16, bfloat16 sums in float32; beside subnormal operands see `extra_error`
    float8            as float16, to which a launch widens both operands first
    int8              sums in int32, both operands along k: what lies otherwise is turned first, as part of the product
    float32 to float64  both operands are widened first, as part of the product
    complex64, complex128  four products of parts, ordinary rounding

Other operands are taken as they lie, by rows or by columns.

cublasGemmEx is called directly: CuPy's wrappers change from version to version, and choose the arithmetic themselves.
Of a batch cublasGemmStridedBatchedEx computes the longest dimension in one launch. Both choose an algorithm in each
call, which cublasLt spares where it can (`_cublas_lt`).

Source: cuBLAS, cublasGemmEx, cublasGemmStridedBatchedEx, cublasLtMatmul.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from backends.gpu._base.rung import Rung
from backends.gpu._cuda.launches import Given, Routine
from backends.gpu._program.program import Product, Program
from backends.gpu._tensor.digits import add_digits
from backends.gpu._tensor.norms import cut_off, largest_dot
from backends.gpu.libraries._cublas import bind, missing
from backends.gpu.libraries._cublas_lt import Layout, matmul
from harness.dtypes import TABLE, dtype_name, is_exact
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.batches import cublas_is_behind, is_at_once

# cublas_api.h and library_types.h
_NO_TRANSPOSE, _TRANSPOSE, _DEFAULT_ALGORITHM = 0, 1, -1
_TYPES = {row.name: row.cublas for row in TABLE.values() if row.cublas >= 0}
_FLOAT, _TF32, _DOUBLE, _INTEGER = 68, 77, 70, 72
_ARITHMETIC = {"float32": _FLOAT, "float64": _DOUBLE, "int32": _INTEGER, "complex64": _FLOAT, "complex128": _DOUBLE}

# Of products whose algorithm may be kept: dtypes of sums, and most multiplications. A GPU of today takes no longer for
# those than the host takes for the call.
_KEPT, _MOST_KEPT = ("float32", "float64"), 2**27

# cuBLAS takes int8 whose k and n are multiples of this.
_INT8_STEP = 4


class Cublas(Rung):
    """The vendor's library, TF32 off."""

    name = "gpu-cublas"
    step = 90
    idea = "the vendor's library, in full precision: what every rung below is measured against"
    source = "NVIDIA cuBLAS, cublasGemmEx with CUBLAS_COMPUTE_32F, 64F, 32I"
    project = "cuBLAS"
    takes = Rung.takes | {"mixed", "complex"}
    most_dimensions = 1
    widens = frozenset({"float32", "float8_e4m3fn", "float8_e5m2"})
    uses_tf32: ClassVar[bool] = False

    def missing(self) -> str | None:
        """Say whether there is a GPU, and cuBLAS."""
        return super().missing() or missing()

    def declines(self, problem: Problem) -> str | None:
        """Decline every semiring but plus_times, integers but int8, and int8 whose rows are not aligned."""
        if not problem.semiring.is_ordinary:
            return "cuBLAS computes plus_times only"
        if dtype_name(self.widened(problem).input_dtype) not in _TYPES or (
            is_exact(problem.dtype) and not problem.is_mixed
        ):
            return "cuBLAS takes floats, complex numbers, and int8 with sums in int32"
        if problem.is_complex and problem.is_mixed:
            return "cuBLAS sums complex numbers in their own precision"
        is_scaled = self.scales_sums(problem) and problem.alpha is not None and not is_exact(problem.dtype)
        if is_scaled and not (np.isfinite(problem.alpha) and problem.alpha):
            return "an infinite alpha makes NaN of sums that are zero, and cuBLAS zeros of all sums by one of 0"
        is_byte = dtype_name(problem.input_dtype) == "int8"
        is_cut = is_byte and (problem.k % _INT8_STEP or problem.n % _INT8_STEP)
        return f"cuBLAS takes int8 where k and n are multiples of {_INT8_STEP}" if is_cut else None

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return A and B: the library transposes them."""
        return frozenset("ab")

    def scales_sums(self, problem: Problem) -> bool:
        """Return whether the library multiplies by alpha."""
        return problem.is_mixed or problem.is_complex

    def dimensions_at_once(self, plan: Plan) -> int:
        """Return 1: the library knows batches of every size; 0 where operands are turned or widened one by one."""
        return 0 if self._is_one_by_one(plan.problem) else self.most_dimensions

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return what tensor cores cut off where 16-bit operands are subnormal."""
        return cut_off(self.widened(plan.problem), operands)

    def loosens(self, problem: Problem) -> bool:
        """Return whether operands are rounded: what tensor cores cut off of 16-bit ones, all of them do."""
        return self.uses_tf32

    def is_behind(self, problem: Problem) -> bool:
        """Return whether the products of a batch are so small that a launch for all of them is faster."""
        return cublas_is_behind(problem) or (self.widened(problem) is not problem and is_at_once(problem))

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the call."""
        problem, (a, b, out, *_) = plan.problem, product
        by_columns = a.by_columns, b.by_columns
        places, lds = ((x.place for x in (a, b)), (a.ld, b.ld))
        if dtype_name(problem.input_dtype) == "int8":  # by rows of B it takes three times as long
            stacks = add_digits(program, product, 1)
            places, lds, by_columns = ((x.place for x in stacks), tuple(x.width for x in stacks), (False, True))
        alpha = problem.alpha if self.scales_sums(problem) and problem.alpha is not None else problem.dtype.type(1)
        gemm = Gemm(
            problem.m, problem.n, problem.k, *lds, out.ld, dtype_name(problem.input_dtype), dtype_name(problem.dtype),
            alpha.item(), int(problem.accumulate), self.uses_tf32, by_columns,
        )  # fmt: skip
        gemm = gemm._replace(alignment=min(a.alignment, b.alignment, out.alignment))
        if product.batch:
            gemm = gemm._replace(products=product.batch.count, steps=(a.next[1], b.next[1], out.next[1]))
        a_place, b_place = places
        program.call(gemm.load, b_place, a_place, out.place)

    def _is_one_by_one(self, problem: Problem) -> bool:
        begins = problem.is_complex and (problem.accumulate or problem.k == 0)  # by a launch that knows no batch
        return dtype_name(problem.input_dtype) == "int8" or self.widened(problem) is not problem or begins


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
        return super().declines(problem) or (
            None if dtype_name(problem.dtype) == "float32" else "TF32 is made of float32"
        )

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return the error of rounding both operands to TF32: 2^-11 each, of the largest sum of absolute terms."""
        return 2.0**-10 * largest_dot(plan.problem, operands)


class Gemm(NamedTuple):
    """One call of cuBLAS: ``out := alpha a b + beta out`` over row-major matrices.

    Attributes
    ----------
    m, n, k : int
    lda, ldb, ldc : int
        Leading dimensions, in elements.
    operand_dtype, dtype : str
        Of A and B; and of alpha, beta, the sums and the result.
    alpha : number
    beta : int
    uses_tf32 : bool
        Whether float32 operands are rounded to TF32 first.
    by_columns : (bool, bool)
        Whether A, and B, lies by columns, that many elements apart.
    products : int
        Of a batch; 0: there is none.
    steps : (int, int, int)
        Distances of the matrices of a batch, in elements: of A, of B and of the output.
    alignment : int
        Bytes of which all addresses are multiples.
    """

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    operand_dtype: str
    dtype: str
    alpha: complex
    beta: int
    uses_tf32: bool
    by_columns: tuple[bool, bool] = (False, False)
    products: int = 0
    steps: tuple[int, int, int] = (0, 0, 0)
    alignment: int = 1

    def load(self) -> Routine:
        """Return the routine, which takes the addresses of B, of A and of the output, in this order.

        cuBLAS is column-major, so it computes ``out^T := b^T a^T``.
        """
        alpha, beta = (np.array([x], self.dtype) for x in (self.alpha, self.beta))
        narrow, wide = _TYPES[self.operand_dtype], _TYPES[self.dtype]
        arithmetic = _TF32 if self.uses_tf32 else _ARITHMETIC[self.dtype]
        of_a, of_b = (_TRANSPOSE if is_turned else _NO_TRANSPOSE for is_turned in self.by_columns)
        step_a, step_b, step_c = self.steps
        if self.dtype in _KEPT and self.m * self.n * self.k * max(self.products, 1) <= _MOST_KEPT:
            layouts = (
                Layout(narrow, *self._sides(self.n, self.k, of_b), self.ldb, step_b),
                Layout(narrow, *self._sides(self.k, self.m, of_a), self.lda, step_a),
                Layout(wide, self.n, self.m, self.ldc, step_c),
            )
            routine = matmul(layouts, (of_b, of_a), (arithmetic, wide), (alpha, beta), self.products, self.alignment)
            if routine is not None:
                return routine
        shape, (b, a, c) = (of_b, of_a, self.n, self.m, self.k), map(Given, range(3))
        if self.products:
            arguments: tuple[Any, ...] = (
                *shape, alpha, b, narrow, self.ldb, step_b, a, narrow, self.lda, step_a,
                beta, c, wide, self.ldc, step_c, self.products, arithmetic, _DEFAULT_ALGORITHM,
            )  # fmt: skip
            return bind("cublasGemmStridedBatchedEx", "compute the products", arguments)
        arguments = (
            *shape, alpha, b, narrow, self.ldb, a, narrow, self.lda, beta, c, wide, self.ldc, arithmetic,
            _DEFAULT_ALGORITHM,
        )  # fmt: skip
        return bind("cublasGemmEx", "compute the product", arguments)

    @staticmethod
    def _sides(rows: int, columns: int, is_turned: int) -> tuple[int, int]:
        return (columns, rows) if is_turned else (rows, columns)
