"""NumPy alone: BLAS for plus_times over floats and complex numbers, rank-1 updates by ufuncs for every other semiring.

    loop 3  ic over m by mc   rows of C         BLAS does all of this itself for plus_times
    loop 2  jc over n by nc   columns of C      the block of C and one of terms stay in L2
    loop 1  p over k by 1     C := C (+) A[:, p] (x) B[p, :], two ufunc calls

Source: numpy.matmul (OpenBLAS in the wheels); Goto and van de Geijn (2008) for its algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu.libraries._kernel_family import of_openblas
from harness.dtypes import is_exact
from harness.interface import Backend, Execution, HostExecution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Blocking, Plan
from harness.problem import Problem
from harness.semiring import highest, lowest
from harness.tuning.cpu import numpy_blocking


class NumpyBlas(Backend):
    """`numpy.matmul`, and ufuncs for products that BLAS lacks."""

    name = "cpu-numpy"
    step = 90
    idea = "the vendor's library: NumPy's BLAS, and NumPy's ufuncs for the semirings that BLAS does not know"
    source = "numpy.matmul; Goto and van de Geijn (2008)"
    project = "NumPy"
    writes_expressions = True
    rereads_operands = True
    accumulates_in_place = True
    takes = frozenset({"complex"})

    def declines(self, problem: Problem) -> str | None:
        """Decline semirings made of Python functions, which have no ufunc."""
        for op in (problem.semiring.add, problem.semiring.multiply):
            if op.ufunc is None:
                return f"{op.name} has no NumPy ufunc"
        return None

    def kernels(self) -> str:
        """Return the processor that NumPy's OpenBLAS took this one for."""
        return of_openblas("numpy.libs")

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without blocks for BLAS, else blocks of C that stay in L2."""
        return Plan(problem, machine.threads, None if _uses_blas(problem) else numpy_blocking(problem, machine))

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Allocate scratch."""
        if _uses_blas(plan.problem):
            return HostExecution(operands, _prepare_blas(plan.problem, operands))
        assert plan.blocking is not None
        return HostExecution(operands, _prepare_ufuncs(plan.problem, plan.blocking, operands))


def _uses_blas(problem: Problem) -> bool:
    return problem.semiring.is_ordinary and not is_exact(problem.dtype)


def _prepare_blas(problem: Problem, operands: Operands) -> Callable[[], None]:
    """Return ``run()`` for plus_times over floats and complex numbers.

    Operands that BLAS cannot read in place are copied; matmul would compute those without BLAS. Alpha multiplies a copy
    of A, as in the definition: sums that overflow would be NaN times an alpha of 0.
    """
    inputs = [x if _is_blas_layout(x) else np.empty(x.shape, x.dtype) for x in (operands.a, operands.b)]
    if problem.alpha is not None:
        inputs[0] = np.empty(operands.a.shape, operands.a.dtype)
    is_direct = not problem.accumulate and operands.out.flags.c_contiguous
    product = operands.out if is_direct else np.empty(operands.out.shape, operands.out.dtype)

    def run() -> None:
        with np.errstate(all="ignore"):
            for x, read, factor in zip((operands.a, operands.b), inputs, (problem.alpha, None), strict=True):
                if factor is not None:
                    np.multiply(factor, x, out=read)
                elif read is not x:
                    np.copyto(read, x)
            np.matmul(*inputs, out=product)
            if product is operands.out:
                return
            if operands.c is None:
                np.copyto(operands.out, product)
                return
            if problem.beta is None:
                np.add(operands.c, product, out=operands.out)
            else:
                np.multiply(operands.c, problem.beta, out=operands.out)
                np.add(operands.out, product, out=operands.out)

    return run


def _is_blas_layout(x: np.ndarray) -> bool:
    """Return whether one stride is the item size and the other a positive multiple that covers the row or column."""
    size = x.dtype.itemsize
    (rows, columns), (row, column) = x.shape, x.strides
    return (column == size and row >= columns * size) or (row == size and column >= rows * size)


def _prepare_ufuncs(problem: Problem, blocking: Blocking, operands: Operands) -> Callable[[], None]:
    """Return ``run()`` for any semiring, a rank-1 update of a block of C at a time."""
    zero, add, multiply = (
        problem.semiring.zero(problem.dtype),
        problem.semiring.add.ufunc,
        _elementwise_multiply(problem),
    )
    assert add is not None
    shape = (min(blocking.mc, problem.m), min(blocking.nc, problem.n))
    c_block, terms_block = np.empty(shape, problem.dtype), np.empty(shape, problem.dtype)
    scaled_a = operands.a if problem.alpha is None else np.empty_like(operands.a)

    def run() -> None:
        with np.errstate(all="ignore"):
            if problem.alpha is not None:
                multiply(problem.alpha, operands.a, out=scaled_a)
            for ic in range(0, problem.m, blocking.mc):
                for jc in range(0, problem.n, blocking.nc):
                    compute(slice(ic, ic + blocking.mc), slice(jc, jc + blocking.nc))

    def compute(rows: slice, columns: slice) -> None:
        out, a, b = operands.out[rows, columns], scaled_a[rows], operands.b[:, columns]
        c, terms = (x[: out.shape[0], : out.shape[1]] for x in (c_block, terms_block))
        c.fill(zero)
        if operands.c is not None:
            begin = operands.c[rows, columns]
            if problem.beta is not None:
                multiply(problem.beta, begin, out=terms)
                begin = terms
            add(c, begin, out=c)
        for p in range(problem.k):
            multiply(a[:, p, None], b[None, p], out=terms)
            add(c, terms, out=c)
        out[...] = c

    return run


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
