"""C[i, j] = (+)_p A[i, p] (x) B[p, j], as the definition says.

    loop 3  i over m by 1  row of A         prange
    loop 2  j over n by 1  column of B      one element of C
    loop 1  p over k by 1  one pair a step  B is read down a column: a new cache line each step

The option `loops` names them from the outside in. The order decides what the inner loop reads of matrices by rows:

    ijk  dot products      a row of A, a column of B; the sum stays in a register
    ikj  rows of C         a row of B, a row of C                   both contiguous
    jki  columns of C      a column of A, a column of C             neither is
    kij  rank-1 updates    a row of B, a row of C, as in ikj        all of C is read and written k times

LLVM makes vectors of ijk too, and fills them element by element, since strides are known at run time alone. The other
orders stay scalar. With ``simd="off"`` all do.

Of a mixed product each element is widened as it is read, so that all sums are wide: float32 operands, float64 sums.

Source: lecture notes on dense matrix algorithms, the triple loop; every later rung is measured against it. Orders of
the loops: Golub and Van Loan, Matrix Computations, section 1.1; rank-1 updates: course work on DGEMM by OpenMP.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, strided
from backends.cpu._ladder.execution import KernelExecution, float32_only, kernel_dtypes
from backends.cpu._ladder.operators import operators
from backends.cpu._ladder.options import ON, SIMD, choices, defaults
from harness.interface import Backend, Execution
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring

OPTIONS = {"loops": ("ijk", "ikj", "jki", "kij"), "simd": SIMD}


class Naive(Backend):
    """The definition, three loops."""

    name = "cpu-naive"
    step = 10
    idea = "the definition: three loops i, j, k over the arrays as they lie"
    source = "lecture notes on dense matrix algorithms: the triple loop"
    calls_libraries = False
    takes = frozenset({"mixed", "complex"})
    accumulates_in_place = True

    def loops(self, plan: Plan) -> Nest:
        """Return the three loops."""
        outer, middle, inner = str(plan.options.get("loops", "ijk")).replace("k", "p")
        return Nest.of((outer, 1), (middle, 1), (inner, 1, "registers"))

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` is out of scope, or None."""
        return float32_only(problem)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without blocks; loops i, j, k."""
        return Plan(problem, machine.threads, options=defaults(OPTIONS))

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel."""
        problem = plan.problem
        kernel = build(problem.semiring, problem.dtype, *kernel_dtypes(problem), **choices(plan, OPTIONS))
        return KernelExecution(plan, operands, kernel)


@kernel_builder
def build(
    semiring: Semiring,
    dtype: np.dtype[Any],
    dtype_a: np.dtype[Any],
    dtype_b: np.dtype[Any],
    loops: int | str = "ijk",
    simd: int | str = ON,
) -> Any:
    """Compile the triple loop in one order; `dtype` is that of the sums."""
    add, multiply, zero = operators(semiring, dtype, widens=dtype_b != dtype)

    def ijk(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        for i in prange(a.shape[0]):  # loop 3: rows of A
            for j in range(b.shape[1]):  # loop 2: columns of B
                total = zero
                for p in range(a.shape[1]):  # loop 1: one pair a step
                    total = add(total, multiply(a[i, p], b[p, j]))
                out[i, j] = add(out[i, j], total) if accumulate else total

    def ikj(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        for i in prange(a.shape[0]):  # loop 3: rows of A and of C
            for j in range(out.shape[1] if not accumulate else 0):
                out[i, j] = zero
            for p in range(a.shape[1]):  # loop 2: elements of the row of A
                x = a[i, p]
                for j in range(b.shape[1]):  # loop 1: a row of B, times x, is added to the row of C
                    out[i, j] = add(out[i, j], multiply(x, b[p, j]))

    def jki(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        for j in prange(b.shape[1]):  # loop 3: columns of B and of C
            for i in range(out.shape[0] if not accumulate else 0):
                out[i, j] = zero
            for p in range(a.shape[1]):  # loop 2: elements of the column of B
                y = b[p, j]
                for i in range(a.shape[0]):  # loop 1: a column of A, times y, is added to the column of C
                    out[i, j] = add(out[i, j], multiply(a[i, p], y))

    def kij(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        for i in prange(out.shape[0] if not accumulate else 0):
            for j in range(out.shape[1]):
                out[i, j] = zero
        for p in range(a.shape[1]):  # loop 3: a column of A and a row of B
            for i in prange(a.shape[0]):  # loop 2: elements of the column of A
                x = a[i, p]
                for j in range(b.shape[1]):  # loop 1: the row of B, times x, is added to a row of C
                    out[i, j] = add(out[i, j], multiply(x, b[p, j]))

    order = {"ijk": ijk, "ikj": ikj, "jki": jki, "kij": kij}[str(loops)]
    signature = strided(dtype_a), strided(dtype_b), output(dtype), types.boolean
    return jit(semiring, *signature, vectorizes=simd == ON)(order)
