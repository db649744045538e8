"""Execution shared by the rungs of the CPU ladder, around their kernels: empty sizes, alpha and beta.

A kernel only computes ``C := A (x) B`` and ``C := C (+) A (x) B``. alpha is one pass over A and beta one over C, both
O(n^2). They are the same for every rung, so that rungs differ by their idea alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, scalar, strided
from backends.cpu._ladder.operators import operators
from harness.dtypes import parts_dtype
from harness.interface import HostExecution
from harness.operands import Operands, distinct, lower_triangle, stacks
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring

Kernel = Callable[[np.ndarray, np.ndarray, np.ndarray, bool], None]


class KernelExecution(HostExecution):
    """A product by a compiled kernel.

    Parameters
    ----------
    plan : Plan
    operands : Operands
    kernel : callable
        ``kernel(a, b, out, accumulate)``: out := out (+) a (x) b, or out := a (x) b, for m, n, k >= 1. The dtypes of
        a and b are those of `kernel_dtypes`.
    """

    def __init__(self, plan: Plan, operands: Operands, kernel: Kernel) -> None:
        problem = plan.problem
        super().__init__(operands)
        self._kernel, self._problem = kernel, problem
        self._a = operands.a if problem.alpha is None else distinct(operands.a)
        self._scaled = None if problem.alpha is None else np.empty(self._a.shape, problem.dtype)
        self._scaled_a = None if self._scaled is None else np.broadcast_to(self._scaled, operands.a.shape)
        scale = functools.partial(build_scale, problem.semiring, problem.dtype, problem.input_dtype)
        self._scale = scale() if problem.alpha is not None else None
        self._is_triangle = problem.triangle == "d"
        begin = functools.partial(build_begin, problem.semiring, problem.dtype, is_triangle=self._is_triangle)
        self._begin = begin() if problem.accumulate else None

    def run(self) -> None:
        """Compute once into `operands.out`."""
        problem, a, out = self._problem, self.operands.a, self.operands.out
        if out.size == 0:
            return
        if self._begin is not None and not (problem.k and self.operands.c is out and problem.beta is None):
            for c, target in stacks(self.operands.c, out):
                self._begin(problem.beta is not None, problem.beta or problem.dtype.type(0), c, target)
        if problem.k == 0:
            if not problem.accumulate:
                counts: Any = lower_triangle(problem.m) if self._is_triangle else True
                np.copyto(out, problem.semiring.zero(problem.dtype), where=counts)
            return
        if self._scale is not None:
            for x, scaled in stacks(self._a, self._scaled):
                self._scale(problem.alpha, x, scaled)
            a = self._scaled_a  # type: ignore[assignment]
        self._kernel(a, self.operands.b, out, problem.accumulate)


def kernel_dtypes(problem: Problem) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtypes in which a kernel gets A and B: of the operands, but alpha times A is as wide as the sums."""
    return (problem.input_dtype if problem.alpha is None else problem.dtype), problem.input_dtype


def float32_only(problem: Problem) -> str | None:
    """Return why a rung that widens operands of float32 declines `problem`, or None."""
    is_other = problem.is_mixed and parts_dtype(problem.input_dtype) != np.float32
    return "of mixed products it takes those with sums of float64 or complex128" if is_other else None


@kernel_builder
def build_scale(semiring: Semiring, dtype: np.dtype[Any], narrow: np.dtype[Any] | None = None) -> Any:
    """Compile ``scaled := alpha (x) a`` of an A of `narrow`, or of `dtype`."""
    narrow = narrow or dtype
    _, multiply, _ = operators(semiring, dtype, widens=narrow != dtype)

    @jit(semiring, scalar(dtype), strided(narrow), output(dtype), parallel=False)
    def scale(alpha: Any, a: np.ndarray, scaled: np.ndarray) -> None:
        for i in range(a.shape[0]):
            for p in range(a.shape[1]):
                scaled[i, p] = multiply(alpha, a[i, p])

    return scale


@kernel_builder
def build_begin(semiring: Semiring, dtype: np.dtype[Any], is_triangle: bool = False) -> Any:
    """Compile ``out := zero (+) (beta (x) c)``, to which the product is added; (+) decides about a NaN of c.

    `is_triangle`: the elements above the diagonal are neither read nor written.
    """
    add, multiply, zero = operators(semiring, dtype)

    @jit(semiring, types.boolean, scalar(dtype), strided(dtype), output(dtype), parallel=False)
    def begin(scales: bool, beta: Any, c: np.ndarray, out: np.ndarray) -> None:
        for i in range(c.shape[0]):
            for j in range(min(i + 1, c.shape[1]) if is_triangle else c.shape[1]):
                out[i, j] = add(zero, multiply(beta, c[i, j]) if scales else c[i, j])

    return begin
