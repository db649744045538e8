"""Strassen's algorithm in Winograd's form: seven products of halves instead of eight, around any other backend.

    D = (alpha A B) + (beta C), over a ring: plus_times over floats and integers, lxor_land
    level 1   A, B and C in quarters: 7 products, 15 additions of quarters (`_strassen.sums`)
    level 2   each of the 7 products likewise, while a half is not smaller than the crossover
    last      7^levels products of m0 x n0 x k0 by the base, m0 = m / 2^levels rounded up

The algorithm subtracts, so (+) needs an inverse: min, for instance, has none. Each level has one set of seven left
operands, seven right operands and seven products. All products of the level above reuse it, so the base is prepared for
seven products at any depth. With m_l, n_l, k_l the sizes of level l the workspace holds

    7 sum over l of (m_l k_l + k_l n_l + m_l n_l)  <=  about 7/3 (m k + k n + m n) elements

beside the scratch of those seven products. Over floats there is also one whole product by the base, for operands that
`_Guard` rejects. Halves are rounded up; the missing row and column are read as zeros.

The error over floats is bounded norm-wise, not element-wise. A small element beside large ones, in unevenly scaled rows
of A or columns of B, is less accurate than in an ordinary product. See `Strassen.extra_error`.

Source: Strassen, "Gaussian Elimination is not Optimal" (1969); Winograd's form and odd sizes as in Huss-Lederman et
al., "Implementation of Strassen's Algorithm for Matrix Multiplication" (1996); error: Higham, "Accuracy and Stability
of Numerical Algorithms" (2002), theorem 23.3.
"""

from __future__ import annotations

import math

import numpy as np

from backends.cpu._strassen import sums
from harness.composite import Composite
from harness.errors import PlanError
from harness.interface import Execution, HostExecution, Prepared
from harness.machine import Machine
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.cpu import STRASSEN_CROSSOVER, strassen_crossover

# Growth of intermediate sums over a term of the product, by level. Each product multiplies sums of four quarters of A
# and of B over half of k, and C adds four products.
GROWTH_PER_LEVEL = 32

# Of the norm-wise error, by level: 1 + 9 + 4 + 4, the norms of the four products that make C22. Higham, theorem 23.3.
ERROR_GROWTH_PER_LEVEL = 18


class Strassen(Composite):
    """Seven recursive products, fifteen additions."""

    name = "cpu-strassen"
    step = 60
    idea = "seven products of halves instead of eight, over any semiring with subtraction, around another backend"
    source = "Strassen (1969); Winograd's form: Huss-Lederman et al. (1996); error: Higham (2002), theorem 23.3"

    def declines(self, problem: Problem) -> str | None:
        """Decline semirings that are not rings."""
        add, multiply = problem.semiring.add.name, problem.semiring.multiply.name
        if problem.semiring.name in sums.RINGS:
            return None
        if add in {name.split("_")[0] for name in sums.RINGS}:
            return f"{multiply} does not distribute over {add}, Strassen multiplies sums"
        return f"{add} has no inverse, Strassen needs subtraction"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the base, and the crossover that was measured with it."""
        base = self.choose_base(problem, STRASSEN_CROSSOVER)
        return Plan(problem, machine.threads, None, {"base": base, "crossover": strassen_crossover(base)})

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the sums, allocate every level, have the base prepare its products."""
        levels = _levels(plan)
        whole = self.prepare_part(plan, plan.problem, operands)
        return StrassenExecution(self, plan, operands, levels, whole) if levels else whole.execution

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return the norm-wise bound: ``|alpha| gamma_f max_ib |A[i, b]|_2 max_bj |B[b, j]|_2``.

        ``f = 18^levels (k0 + 6) - 6 2^levels``, and b are the 2^levels blocks of k, of k0 elements or fewer. This is
        theorem 23.3 of Higham divided by k0, with one change. His proof bounds an inner product by ``k0 max|A|
        max|B|``; here the smaller product of the 2-norms bounds it (Cauchy and Schwarz). In addition 4^levels sums of
        k0 + 6 products may underflow.
        """
        problem, levels = plan.problem, _levels(plan)
        if problem.dtype.kind != "f" or not levels or not _Guard(problem, levels).admits(operands):
            return 0.0
        info = np.finfo(problem.dtype)
        k0 = _halved(problem.k, levels)
        roundings = ERROR_GROWTH_PER_LEVEL**levels * (k0 + 6) - 6 * 2**levels
        relative = roundings * float(info.eps) / 2
        if relative >= 0.5:
            return math.inf
        starts = _block_starts(problem.k, levels)
        norms = _largest_block_norm(operands.a, starts) * _largest_block_norm(operands.b.T, starts)
        underflow = 4**levels * (k0 + 6) * float(info.smallest_normal)
        alpha = 1.0 if problem.alpha is None else abs(float(problem.alpha))
        return alpha * (relative / (1 - relative) * norms + underflow)


class StrassenExecution(HostExecution):
    """A product by `levels` levels of recursion.

    Parameters
    ----------
    strassen : Strassen
    plan : Plan
    operands : Operands
    levels : int
        1 or more.
    whole : Prepared
        The product by the base alone.
    """

    def __init__(self, strassen: Strassen, plan: Plan, operands: Operands, levels: int, whole: Prepared) -> None:
        super().__init__(operands)
        problem = plan.problem
        ring = problem.semiring, problem.dtype
        self._problem, self._whole = problem, whole
        self._guard = _Guard(problem, levels) if problem.dtype.kind == "f" else None
        (self._left, self._right), self._gather = sums.build_spreads(*ring), sums.build_gather(*ring)
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

    def __init__(self, problem: Problem, levels: int) -> None:
        largest = float(np.finfo(problem.dtype).max) / (4 * problem.k * GROWTH_PER_LEVEL**levels)
        self._largest = problem.dtype.type(math.sqrt(largest))
        self._has_finite_alpha = problem.alpha is None or bool(np.isfinite(problem.alpha))
        self._flags = np.empty(problem.m, np.bool_), np.empty(problem.k, np.bool_)
        self._flag_rows = sums.build_flag_rows(problem.dtype)

    def admits(self, operands: Operands) -> bool:
        """Return whether every element of A and B is small enough."""
        for x, flags in zip((operands.a, operands.b), self._flags, strict=True):
            self._flag_rows(x, self._largest, flags)
        return self._has_finite_alpha and not any(flags.any() for flags in self._flags)


def _levels(plan: Plan) -> int:
    """Return the number of times that m, n and k are halved.

    Raises
    ------
    PlanError
        If the crossover is not a positive integer.
    """
    crossover = plan.options["crossover"]
    if not isinstance(crossover, int) or isinstance(crossover, bool) or crossover < 1:
        raise PlanError(
            f"{Strassen.name}: crossover is no size", expected="an integer, 1 or more", got=f"crossover={crossover!r}"
        )
    levels, half = 0, min(plan.problem.m, plan.problem.n, plan.problem.k)
    while half > 1 and _halved(half, 1) >= crossover:
        levels, half = levels + 1, _halved(half, 1)
    return levels


def _halved(size: int, times: int) -> int:
    """Return `size` halved so many times, rounded up."""
    return -(-size // 2**times)


def _allocate(problem: Problem, level: int) -> list[np.ndarray]:
    """Return the seven products of a level: left (7, m_l, k_l), right (7, k_l, n_l), product (7, m_l, n_l)."""
    m, n, k = (_halved(size, level) for size in (problem.m, problem.n, problem.k))
    return [aligned_empty((sums.PRODUCTS, *shape), problem.dtype) for shape in ((m, k), (k, n), (m, n))]


def _block_starts(size: int, levels: int) -> list[int]:
    """Return the first indices of the blocks into which `levels` halvings, rounded up, cut `size`."""
    starts = [0]
    for level in range(1, levels + 1):
        half = _halved(size, level)
        starts = [start + begin for start in starts for begin in (0, half)]
    return [start for start in starts if start < size]


def _largest_block_norm(x: np.ndarray, starts: list[int]) -> float:
    """Return the largest 2-norm of a row of a block of columns of x."""
    blocks = [x[:, begin:end] for begin, end in zip(starts, [*starts[1:], x.shape[1]], strict=True)]
    squares = [np.einsum("ip,ip->i", block, block, dtype=np.float64).max() for block in blocks]
    return math.sqrt(max(squares))
