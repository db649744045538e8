"""C[i, j] = dot of row i of A and row j of B transposed: both operands of the inner loop are contiguous.

    copy    B^T[j, p] := B[p, j]            once a product, O(k n) beside O(m k n)
    loop 3  i over m by 1  row of A         prange
    loop 2  j over n by 1  row of B^T       one element of C
    loop 1  p over k by 1  one pair a step  two contiguous streams, one vector of partial sums

An operand whose rows are contiguous already, such as a Fortran-ordered B, is read in place. With ``simd="off"`` the dot
product is one sum of scalars: contiguous reads without vectors.

Source: course work on DGEMM by OpenMP, the transposition step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, rows
from backends.cpu._ladder.execution import KernelExecution
from backends.cpu._ladder.operators import operators
from backends.cpu._ladder.options import ON, SIMD, choices, defaults
from backends.cpu._ladder.rows import contiguous_rows
from harness.interface import Backend, Execution
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring

OPTIONS = {"simd": SIMD}


class Transposed(Backend):
    """Dot products of contiguous rows."""

    name = "cpu-transposed"
    step = 20
    idea = "B is transposed once, so that the inner loop reads two contiguous rows and runs on vectors"
    source = "course work on DGEMM by OpenMP: transposition"
    calls_libraries = False
    takes = frozenset({"complex"})
    accumulates_in_place = True

    def loops(self, plan: Plan) -> Nest:
        """Return the three loops over B transposed; the copy is not among them."""
        return Nest.of(("i", 1), ("j", 1), ("p", 1, "registers"), order_b="jp")

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without blocks."""
        return Plan(problem, machine.threads, options=defaults(OPTIONS))

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel and allocate the transposed copy."""
        dot_products = build(plan.problem.semiring, plan.problem.dtype, **choices(plan, OPTIONS))
        rows_of_a, rows_of_bt = contiguous_rows(operands.a), contiguous_rows(operands.b.T)

        def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
            bt = rows_of_bt(b.T)  # B.T is a view with strided rows: this copies its elements
            dot_products(rows_of_a(a), bt, out, accumulate)

        return KernelExecution(plan, operands, kernel)


@kernel_builder
def build(semiring: Semiring, dtype: np.dtype[Any], simd: int | str = ON) -> Any:
    """Compile the loop over dot products."""
    add, multiply, zero = operators(semiring, dtype)

    @jit(semiring, rows(dtype), rows(dtype), output(dtype), types.boolean, vectorizes=simd == ON)
    def transposed(a: np.ndarray, bt: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        for i in prange(a.shape[0]):  # loop 3: rows of A
            for j in range(bt.shape[0]):  # loop 2: rows of B^T
                total = zero
                for p in range(a.shape[1]):  # loop 1: one pair a step, both streams contiguous
                    total = add(total, multiply(a[i, p], bt[j, p]))
                out[i, j] = add(out[i, j], total) if accumulate else total

    return transposed
