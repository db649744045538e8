"""Strassen's algorithm: seven products of halves instead of eight, around any other backend.

    D = (alpha A B) + (beta C), over a ring: plus_times over floats and integers, lxor_land
    level 1   A, B and C in quarters: 7 products, 15 additions of quarters (`_strassen.sums`)
    level 2   each of the 7 products likewise, while a half is not smaller than the crossover
    last      7^levels products of m0 x n0 x k0 by the base, m0 = m / 2^levels rounded up

The algorithm subtracts, so (+) needs an inverse: min, for instance, has none. Each level has one set of seven left
operands, seven right operands and seven products. All products of the level above reuse it, so the base is prepared for
seven products at any depth. With m_l, n_l, k_l the sizes of level l the workspace holds

    7 sum over l of (m_l k_l + k_l n_l + m_l n_l)  <=  about 7/3 (m k + k n + m n) elements

beside the scratch of those seven products. Over floats there is also one whole product by the base, for operands that
`_Guard` rejects. The sums and the error bound are those of `backends._strassen`, for GPUs too.

Source: Strassen, "Gaussian Elimination is not Optimal" (1969); Winograd's form and odd sizes as in Huss-Lederman et
al., "Implementation of Strassen's Algorithm for Matrix Multiplication" (1996); error: Higham, "Accuracy and Stability
of Numerical Algorithms" (2002), theorems 23.2 and 23.3.
"""

from __future__ import annotations

import numpy as np

from backends._strassen.form import PRODUCTS, StrassenForm
from backends._strassen.recursion import (
    Recursion,
    count_levels,
    form_of,
    halved,
    has_finite_alpha,
    largest_element,
)
from backends.cpu._strassen import sums
from harness.dtypes import is_exact
from harness.interface import Execution, HostExecution, Prepared
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.cpu import STRASSEN_CROSSOVER, strassen_crossover


class Strassen(Recursion):
    """Seven recursive products, fifteen additions."""

    name = "cpu-strassen"
    step = 60
    idea = "seven products of halves instead of eight, over any semiring with subtraction, around another backend"
    takes = frozenset({"complex"})

    def bases(self, problem: Problem) -> list[str]:
        """Return the bases that were measured."""
        return list(STRASSEN_CROSSOVER)

    def crossover(self, base: str, problem: Problem) -> int:
        """Return that of `base`."""
        return strassen_crossover(base)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the sums, allocate every level, have the base prepare its products."""
        levels, form = count_levels(plan), form_of(plan)
        whole = self.prepare_part(plan, plan.problem, operands)
        return StrassenExecution(self, plan, operands, (levels, form), whole) if levels else whole.execution


class StrassenExecution(HostExecution):
    """A product by `levels` levels of recursion.

    Parameters
    ----------
    strassen : Strassen
    plan : Plan
    operands : Operands
    how : (int, StrassenForm)
        Levels, 1 or more, and the form of their sums.
    whole : Prepared
        The product by the base alone.
    """

    def __init__(
        self, strassen: Strassen, plan: Plan, operands: Operands, how: tuple[int, StrassenForm], whole: Prepared
    ) -> None:
        super().__init__(operands)
        problem, (levels, form) = plan.problem, how
        ring = problem.semiring, problem.dtype
        self._problem, self._whole = problem, whole
        self._guard = _Guard(problem, levels, form) if not is_exact(problem.dtype) else None
        (self._left, self._right), self._gather = sums.build_spreads(*ring, form), sums.build_gather(*ring, form)
        has_factors = problem.alpha is not None or problem.accumulate
        self._finish = sums.build_finish(*ring) if has_factors else None
        self._levels = [_allocate(problem, level) for level in range(1, levels + 1)]
        self._parts = [[Operands(a, b, None, c) for a, b, c in zip(*arrays, strict=True)] for arrays in self._levels]
        last = self._parts[-1]
        sizes = last[0].out.shape[0], last[0].out.shape[1], last[0].a.shape[1]
        part = Problem(*sizes, *ring)
        self._leaves = [strassen.prepare_part(plan, part, leaf) for leaf in last]

    def run(self) -> None:
        """Compute once into `operands.out`."""
        operands = self.operands
        if self._guard is not None and not self._guard.admits(operands):
            self._whole.run_once()
            return
        self._multiply(0, operands.a, operands.b, operands.out)
        if self._finish is not None:
            alpha, beta, c = self._problem.alpha, self._problem.beta, operands.c
            nothing = self._problem.dtype.type(0)
            has = alpha is not None, c is not None, beta is not None
            source = operands.out if c is None else c  # not read without C
            self._finish(
                has[0], alpha if has[0] else nothing, *has[1:], beta if has[2] else nothing, source, operands.out
            )

    def _multiply(self, level: int, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        """Compute ``out := a b`` by the seven products of `level`, 0 the first."""
        left, right, products = self._levels[level]
        self._left(a, left)
        self._right(b, right)
        if level + 1 < len(self._levels):
            for part in self._parts[level]:
                self._multiply(level + 1, part.a, part.b, part.out)
        else:
            for leaf in self._leaves:
                leaf.run_once()
        self._gather(products, out)


class _Guard:
    """Test whether Strassen's sums are safe: every element is finite, and too small to overflow a sum.

    A NaN or an infinity affects one row or column of the result; a sum would spread it to others. Such operands, and
    an infinite alpha, are left to the base. The test reads A and B once, O(n^2).
    """

    def __init__(self, problem: Problem, levels: int, form: StrassenForm) -> None:
        self._largest = largest_element(problem, levels, form)
        self._has_finite_alpha = has_finite_alpha(problem)
        self._flags = np.empty(problem.m, np.bool_), np.empty(problem.k, np.bool_)
        self._flag_rows = sums.build_flag_rows(problem.dtype)

    def admits(self, operands: Operands) -> bool:
        """Return whether every element of A and B is small enough."""
        for x, flags in zip((operands.a, operands.b), self._flags, strict=True):
            self._flag_rows(x, self._largest, flags)
        return self._has_finite_alpha and not any(flags.any() for flags in self._flags)


def _allocate(problem: Problem, level: int) -> list[np.ndarray]:
    """Return the seven products of a level: left (7, m_l, k_l), right (7, k_l, n_l), product (7, m_l, n_l)."""
    m, n, k = (halved(size, level) for size in (problem.m, problem.n, problem.k))
    return [aligned_empty((PRODUCTS, *shape), problem.dtype) for shape in ((m, k), (k, n), (m, n))]
