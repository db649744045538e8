"""The recursion of Strassen's algorithm around a base: its levels, the operands that it takes, and its error bound.

    level 1   A, B and C in quarters: 7 products, and the sums of `form.py`
    level 2   each of the 7 products likewise, while a half is not smaller than the crossover
    last      7^levels products of m0 x n0 x k0 by the base, m0 = m / 2^levels rounded up

Halves are rounded up; the missing row and column are read as zeros.

The error over floats is bounded norm-wise, not element-wise. A small element beside large ones, in unevenly scaled rows
of A or columns of B, is less accurate than in an ordinary product. See `Recursion.extra_error`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from backends._strassen.form import FORMS, RINGS, WINOGRAD, StrassenForm
from harness.composite import Composite
from harness.dtypes import is_complex, is_exact, parts_dtype
from harness.errors import PlanError
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.scalars import as_count


class Recursion(Composite):
    """Seven recursive products. A subclass says where operands lie, and computes."""

    source = "Strassen (1969); Winograd's form: Huss-Lederman et al. (1996); error: Higham (2002), theorems 23.2, 23.3"

    def declines(self, problem: Problem) -> str | None:
        """Decline semirings that are not rings."""
        add, multiply = problem.semiring.add.name, problem.semiring.multiply.name
        if problem.semiring.name in RINGS:
            return None
        if add in {name.split("_")[0] for name in RINGS}:
            return f"{multiply} does not distribute over {add}, Strassen multiplies sums"
        return f"{add} has no inverse, Strassen needs subtraction"

    @abstractmethod
    def bases(self, problem: Problem) -> Iterable[str]:
        """Return the bases to prefer, best first."""

    @abstractmethod
    def crossover(self, base: str, problem: Problem) -> int:
        """Return the smallest half, in elements, for which one more level was measured to pay over `base`."""

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the base, the crossover that was measured with it, and the form with fewer sums."""
        base = self.choose_base(problem, self.bases(problem))
        options: dict[str, int | str] = {"base": base, "crossover": self.crossover(base, problem)}
        return Plan(problem, machine.threads, None, {**options, "form": WINOGRAD.name})

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return the norm-wise bound: ``|alpha| gamma_f max_ib |A[i, b]|_2 max_bj |B[b, j]|_2``.

        ``f = 18^levels (k0 + 6) - 6 2^levels`` for Winograd's form, ``12^levels (k0 + 5) - 5 2^levels`` for the classic
        one, and b are the 2^levels blocks of k, of k0 elements or fewer. These are theorems 23.3 and 23.2 of Higham
        divided by k0, with one change. His proof bounds an inner product by ``k0 max|A| max|B|``; here the smaller
        product of the 2-norms bounds it (Cauchy and Schwarz). Of complex numbers twice as much: a product has two
        roundings more. In addition 4^levels sums of so many products may underflow.
        """
        problem, levels, form = plan.problem, count_levels(plan), form_of(plan)
        if is_exact(problem.dtype) or not levels or not is_safe(problem, levels, form, operands):
            return 0.0
        info = np.finfo(problem.dtype)
        k0 = halved(problem.k, levels)
        roundings = form.error_growth**levels * (k0 + form.error_offset) - form.error_offset * 2**levels
        relative = roundings * float(info.eps) / (1 if is_complex(problem.dtype) else 2)
        if relative >= 0.5:
            return math.inf
        starts = _block_starts(problem.k, levels)
        norms = _largest_block_norm(operands.a, starts) * _largest_block_norm(operands.b.T, starts)
        underflow = 4**levels * (k0 + form.error_offset) * float(info.smallest_normal)
        alpha = 1.0 if problem.alpha is None else float(abs(problem.alpha))
        return alpha * (relative / (1 - relative) * norms + underflow)


def form_of(plan: Plan) -> StrassenForm:
    """Return the form that `plan` names; raises PlanError if there is none of that name."""
    return FORMS[str(plan.choice("form", tuple(FORMS)))]


def count_levels(plan: Plan) -> int:
    """Return the number of times that m, n and k are halved.

    Raises
    ------
    PlanError
        If the crossover is not a positive integer.
    """
    crossover = as_count(plan.options["crossover"])
    if crossover is None:
        got = f"crossover={plan.options['crossover']!r}"
        raise PlanError("Strassen: crossover is no size", expected="an integer, 1 or more", got=got)
    levels, half = 0, min(plan.problem.m, plan.problem.n, plan.problem.k)
    while half > 1 and halved(half, 1) >= crossover:
        levels, half = levels + 1, halved(half, 1)
    return levels


def halved(size: int, times: int) -> int:
    """Return `size` halved so many times, rounded up."""
    return -(-size // 2**times)


def largest_element(problem: Problem, levels: int, form: StrassenForm) -> np.generic:
    """Return the largest magnitude of an element, or of its parts, that no sum of so many levels can make overflow."""
    products = 2 if is_complex(problem.dtype) else 1
    largest = float(np.finfo(problem.dtype).max) / (4 * products * problem.k * form.largest_growth**levels)
    one: np.generic = parts_dtype(problem.dtype).type(math.sqrt(largest))
    return one


def has_finite_alpha(problem: Problem) -> bool:
    """Return whether alpha is no infinity and no NaN: those are left to the base."""
    return problem.alpha is None or bool(np.isfinite(problem.alpha))


def is_safe(problem: Problem, levels: int, form: StrassenForm, operands: Operands) -> bool:
    """Return whether every element of A and B, on the host, is finite and too small to overflow a sum.

    A NaN or an infinity affects one row or column of the result; a sum would spread it to others. Such operands are
    left to the base.
    """
    largest = largest_element(problem, levels, form)
    fits = all(bool((np.abs(part) <= largest).all()) for x in (operands.a, operands.b) for part in _parts(x))
    return fits and has_finite_alpha(problem)


def _block_starts(size: int, levels: int) -> list[int]:
    """Return the first indices of the blocks into which `levels` halvings, rounded up, cut `size`."""
    starts = [0]
    for level in range(1, levels + 1):
        half = halved(size, level)
        starts = [start + begin for start in starts for begin in (0, half)]
    return [start for start in starts if start < size]


def _largest_block_norm(x: np.ndarray, starts: list[int]) -> float:
    """Return the largest 2-norm of a row of a block of columns of x."""
    blocks = [x[:, begin:end] for begin, end in zip(starts, [*starts[1:], x.shape[1]], strict=True)]
    squares = [
        sum(np.einsum("ip,ip->i", part, part, dtype=np.float64) for part in _parts(block)).max() for block in blocks
    ]
    return math.sqrt(max(squares))


def _parts(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the real and the imaginary parts of complex numbers; of other numbers themselves."""
    return (x.real, x.imag) if np.iscomplexobj(x) else (x,)
