"""C[i, j] = (+)_p A[i, p] (x) B[p, j], as the definition says.

    loop 3  i over m by 1  row of A         prange
    loop 2  j over n by 1  column of B      one element of C
    loop 1  p over k by 1  one pair a step  B is read down a column: a new cache line each step

Source: lecture notes on dense matrix algorithms, the triple loop; every later rung is measured against it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._ladder.execution import KernelExecution
from backends.cpu._ladder.jit import jit, output, strided
from backends.cpu._ladder.operators import operators
from harness.interface import Backend, Execution
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring


class Naive(Backend):
    """The definition, three loops."""

    name = "cpu-naive"
    step = 10
    idea = "the definition: three loops i, j, k over the arrays as they lie"
    source = "lecture notes on dense matrix algorithms: the triple loop"
    calls_libraries = False
    accumulates_in_place = True

    def loops(self, plan: Plan) -> Nest:
        """Return the three loops."""
        outer, middle, inner = str(plan.options.get("loops", "ijk")).replace("k", "p")
        return Nest.of((outer, 1), (middle, 1), (inner, 1, "registers"))

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without blocks."""
        return Plan(problem, machine.threads)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel."""
        return KernelExecution(plan, operands, build(plan.problem.semiring, plan.problem.dtype))


@functools.cache
def build(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile the triple loop."""
    add, multiply, zero = operators(semiring, dtype)

    @jit(semiring, strided(dtype), strided(dtype), output(dtype), types.boolean)
    def naive(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        for i in prange(a.shape[0]):  # loop 3: rows of A
            for j in range(b.shape[1]):  # loop 2: columns of B
                total = zero
                for p in range(a.shape[1]):  # loop 1: one pair a step
                    total = add(total, multiply(a[i, p], b[p, j]))
                out[i, j] = add(out[i, j], total) if accumulate else total

    return naive
