"""NumPy alone: BLAS for plus_times over floats, rank-1 updates by ufuncs for every other semiring.

    loop 3  ic over m by mc   rows of C         BLAS does all of this itself for plus_times
    loop 2  jc over n by nc   columns of C      the block of C and one of terms stay in L2
    loop 1  p over k by 1     C := C (+) A[:, p] (x) B[p, :], two ufunc calls

Source: numpy.matmul (OpenBLAS in the wheels); Goto and van de Geijn (2008) for what is inside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.interface import Backend, Execution, HostExecution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import highest, lowest
from harness.tuning.cpu import numpy_blocking


class NumpyBlas(Backend):
    """`numpy.matmul`, and ufuncs where BLAS has nothing."""

    name = "cpu-numpy"
    step = 90
    idea = "the vendor's library: NumPy's BLAS, and NumPy's ufuncs for the semirings that BLAS does not know"
    source = "numpy.matmul; Goto and van de Geijn (2008)"

    def declines(self, problem: Problem) -> str | None:
        """Decline semirings made of Python functions, which have no ufunc."""
        for op in (problem.semiring.add, problem.semiring.multiply):
            if op.ufunc is None:
                return f"{op.name} has no NumPy ufunc"
        return None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without blocks for BLAS, else blocks of C that stay in L2."""
        uses_blas = _uses_blas(problem)
        return Plan(problem, machine.threads, None if uses_blas else numpy_blocking(problem, machine))

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Allocate scratch."""
        return _BlasExecution(plan, operands) if _uses_blas(plan.problem) else _UfuncExecution(plan, operands)


def _uses_blas(problem: Problem) -> bool:
    return problem.semiring.is_ordinary and problem.dtype.kind == "f"


class _BlasExecution(HostExecution):
    """plus_times over floats. Operands that BLAS cannot read as they lie are copied, or matmul would leave BLAS."""

    def __init__(self, plan: Plan, operands: Operands) -> None:
        super().__init__(operands)
        self._problem = plan.problem
        self._copies = [None if _is_blas_layout(x) else np.empty(x.shape, x.dtype) for x in (operands.a, operands.b)]
        direct = plan.problem.alpha is None and not plan.problem.accumulate and operands.out.flags.c_contiguous
        self._product = operands.out if direct else np.empty(operands.out.shape, operands.out.dtype)

    def run(self) -> None:
        """Compute once."""
        problem, operands, product = self._problem, self.operands, self._product
        inputs = []
        for x, copy in zip((operands.a, operands.b), self._copies, strict=True):
            if copy is not None:
                np.copyto(copy, x)
            inputs.append(x if copy is None else copy)
        with np.errstate(all="ignore"):
            np.matmul(*inputs, out=product)
            if product is operands.out:
                return
            if problem.alpha is not None:
                np.multiply(product, problem.alpha, out=product)
            if operands.c is None:
                np.copyto(operands.out, product)
                return
            if problem.beta is None:
                np.add(operands.c, product, out=operands.out)
            else:
                np.multiply(operands.c, problem.beta, out=operands.out)
                np.add(operands.out, product, out=operands.out)


def _is_blas_layout(x: np.ndarray) -> bool:
    """Whether one stride is the item size and the other a positive multiple that covers the row or column."""
    size = x.dtype.itemsize
    (rows, columns), (row, column) = x.shape, x.strides
    return (column == size and row >= columns * size) or (row == size and column >= rows * size)


class _UfuncExecution(HostExecution):
    """Any semiring, a rank-1 update of a block of C at a time."""

    def __init__(self, plan: Plan, operands: Operands) -> None:
        assert plan.blocking is not None
        super().__init__(operands)
        problem = plan.problem
        self._problem, self._blocking = problem, plan.blocking
        self._zero = problem.semiring.zero(problem.dtype)
        shape = (min(plan.blocking.mc, problem.m), min(plan.blocking.nc, problem.n))
        self._c, self._terms = np.empty(shape, problem.dtype), np.empty(shape, problem.dtype)
        self._add = problem.semiring.add.ufunc
        self._multiply = _elementwise_multiply(problem)
        self._a = np.empty_like(operands.a) if problem.alpha is not None else operands.a

    def run(self) -> None:
        """Compute once."""
        problem, blocking = self._problem, self._blocking
        with np.errstate(all="ignore"):
            if problem.alpha is not None:
                self._multiply(problem.alpha, self.operands.a, out=self._a)
            for ic in range(0, problem.m, blocking.mc):
                for jc in range(0, problem.n, blocking.nc):
                    self._compute(slice(ic, ic + blocking.mc), slice(jc, jc + blocking.nc))

    def _compute(self, rows: slice, columns: slice) -> None:
        problem, add, multiply = self._problem, self._add, self._multiply
        out, a, b = self.operands.out[rows, columns], self._a[rows], self.operands.b[:, columns]
        c, terms = self._c[: out.shape[0], : out.shape[1]], self._terms[: out.shape[0], : out.shape[1]]
        c.fill(self._zero)
        if self.operands.c is not None:
            given = self.operands.c[rows, columns]
            if problem.beta is not None:
                multiply(problem.beta, given, out=terms)
                given = terms
            add(c, given, out=c)
        for p in range(problem.k):
            multiply(a[:, p, None], b[None, p], out=terms)
            add(c, terms, out=c)
        out[...] = c


def _elementwise_multiply(problem: Problem) -> Any:
    """Return ``multiply(x, y, out)`` over arrays that follows the semiring's rule on integers."""
    semiring, dtype = problem.semiring, problem.dtype
    ufunc = semiring.multiply.ufunc
    if semiring.absorbs(dtype):
        return _saturating_sum(semiring.zero(dtype), lowest(dtype), highest(dtype))
    if isinstance(ufunc, np.ufunc):
        return ufunc

    def multiply(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        assert ufunc is not None
        out[...] = ufunc(np.asarray(x, dtype), y)

    return multiply


def _saturating_sum(zero: Any, low: Any, high: Any) -> Any:
    """Return the integer sum, elementwise, in which `zero` absorbs and any other result saturates."""

    def multiply(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        np.add(x, y, out=out)
        np.copyto(out, high, where=(y > 0) & (out < x))
        np.copyto(out, low, where=(y < 0) & (out > x))
        np.copyto(out, zero, where=(x == zero) | (y == zero))

    return multiply
