"""Strassen's algorithm on a GPU: seven products of halves by another backend, as launches one after the other.

    D = (alpha A B) + (beta C), over a ring: plus_times over floats and integers, lxor_land
    level 1   spread, twice: the operands of 7 products from the quarters of A and of B
              7 products of halves by the base, or each by level 2
              gather: D from the seven products, with alpha, beta and C

The recursion is unrolled on the host, so no kernel has any control flow of it. Operands that are quarters of A or B
need no copy where rows of quarters are aligned. Then a level over n x n moves 27/4 n^2 elements through memory, else
33/4 n^2. Each level has one set of operands and products, which all products of the level above reuse:

    7 sum over l of (m_l k_l + k_l n_l + m_l n_l)  <=  about 7/3 (m k + k n + m n) elements

Over floats the passes over A and B find their extremes. If a sum could overflow, or would spread a NaN or an infinity,
gpu-tuned computes the whole product instead. The host waits for nothing, so calls can be captured in a CUDA graph.

Source: see `backends._strassen.form`; on GPUs: Lai, Arafat, Elango, Sadayappan, "Accelerating Strassen-Winograd's
Matrix Multiplication Algorithm on GPUs" (2013).
"""

from __future__ import annotations

from collections.abc import Iterable

from backends._strassen.recursion import Recursion, count_levels, form_of, has_finite_alpha
from backends.gpu._base.backend import GpuBackend, part_of
from backends.gpu._program.operators import unsupported
from backends.gpu._program.program import Matrix, Program
from backends.gpu._strassen.unrolled import Unrolled
from harness.machine import detect
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import ASYNC_COPY
from harness.tuning.gpu.strassen import STRASSEN_BASES, strassen_crossover


class Strassen(Recursion, GpuBackend):
    """Seven recursive products, fifteen additions, on a GPU."""

    name = "gpu-strassen"
    step = 71
    idea = "seven products of halves instead of eight, around another backend of the GPU, in launches without recursion"
    base_family = "gpu-"
    takes = frozenset({"device arrays"})
    calls_libraries = False
    accumulates_in_place = True
    needs = ASYNC_COPY  # for values that sums would spoil the product is one by gpu-tuned

    def declines(self, problem: Problem) -> str | None:
        """Decline semirings that are not rings, and what has no form in CUDA C."""
        return super().declines(problem) or unsupported(problem.semiring, problem.dtype)

    def bases(self, problem: Problem) -> Iterable[str]:
        """Return the bases that were measured."""
        return STRASSEN_BASES

    def crossover(self, base: str, problem: Problem) -> int:
        """Return that of `base` over the dtype."""
        return strassen_crossover(base, problem.dtype)

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches of the whole product; without recursion those of the base."""
        problem, levels, form = plan.problem, count_levels(plan), form_of(plan)
        base = part_of(self, self.find_base(plan.options["base"], problem))
        if levels and has_finite_alpha(problem):
            return Unrolled(problem, form, levels, base, detect()).program(a, b, c_and_out)
        return base.program(base.plan(problem, detect()), a, b, *c_and_out)
