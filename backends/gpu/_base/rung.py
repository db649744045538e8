"""The common part of the rungs: empty sizes, alpha, beta, extremes of values; a rung only adds its kernel.

A kernel only knows ``C := A (x) B`` and ``C := C (+) A (x) B`` over row-major matrices. Everything around it is the
same for every rung, so that rungs differ by their idea alone.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import ClassVar

from backends.gpu._base.backend import GpuBackend
from backends.gpu._complex.planes import add_begin
from backends.gpu._passes.passes import add_extremes
from backends.gpu._passes.rows import add_rows, widened
from backends.gpu._passes.scalars import add_constants, add_start, scaled
from backends.gpu._program.nest import nest_of
from backends.gpu._program.operators import Form, has_fast_form, two_steps
from backends.gpu._program.program import Batch, Matrix, Product, Program
from backends.gpu._simt.log_sum_exp import add_log_sum_exp, is_log_sum_exp
from harness.dtypes import dtype_name
from harness.interface import Nest
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.batches import is_at_once
from harness.tuning.gpu.rungs import is_scanned


class Rung(GpuBackend):
    """A rung of the GPU ladder.

    Attributes
    ----------
    takes_two_steps : bool
        Whether its kernel combines two steps of k at once where that is faster (STEPS in semiring.cuh).
    takes_exponentials : bool
        Whether it computes logaddexp_plus as a real product of exponentials (`_simt.log_sum_exp`), not pair by pair.
    widens : set of str
        Dtypes of operands that a launch widens first where sums are wider: float32 to float64, float8 to float16.
    """

    takes_two_steps: ClassVar[bool] = False
    takes_exponentials: ClassVar[bool] = False
    widens: ClassVar[frozenset[str]] = frozenset()

    def loops(self, plan: Plan) -> Nest | None:
        """Return the tiles of blocks and warps as loops."""
        return nest_of(plan)

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return which of A and B `multiply` takes by columns; others that lie so are copied by a launch before it."""
        return frozenset()

    def columns_taken(self, plan: Plan) -> frozenset[str]:
        """Return A and B; of products of a batch in one launch, what the kernel reads by columns."""
        is_at_once = plan.problem.batch and self.dimensions_at_once(plan)
        return self.reads_columns(plan) if is_at_once else frozenset("ab")

    def scales_sums(self, problem: Problem) -> bool:
        """Return whether its kernel multiplies sums by alpha, as for a narrow A, which cannot hold alpha A."""
        return problem.is_mixed

    def widened(self, problem: Problem) -> Problem:
        """Return the product of operands as its kernel reads them: itself, unless they are widened first."""
        return widened(problem) if dtype_name(problem.input_dtype) in self.widens else problem

    @abstractmethod
    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the launches of ``out := [out (+)] a (x) b`` to `program`, for m, n, k >= 1.

        Parameters
        ----------
        program : Program
        plan : Plan
        product : Product
        """

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches of the whole product; c precedes out if there is one."""
        problem, program, out = plan.problem, Program(), c_and_out[-1]
        m, n, k = problem.m, problem.n, problem.k
        if problem.products * m * n == 0:
            return program
        start = add_begin if problem.is_complex else add_start if k else add_constants
        start(program, problem, c_and_out[0], out)
        if k == 0:
            return program
        wide = self.widened(problem)
        if wide is not problem:
            a, b = add_rows(program, problem, a, b, wide.input_dtype)
            problem = wide
            plan = dataclasses.replace(plan, problem=problem)
        elif not problem.batch:
            a, b = add_rows(program, problem, a, b, reads=self.reads_columns(plan))
        if problem.alpha is not None and not self.scales_sums(problem):
            a = scaled(program, problem, a)
        is_triangle, batch = problem.triangle == "d", Batch.of(problem.batch)
        product = Product(
            a, b, out, m, n, k, Form.ANY, problem.accumulate, a.place, is_triangle=is_triangle, batch=batch
        )
        if self.takes_exponentials and is_log_sum_exp(problem):
            add_log_sum_exp(program, plan, self.multiply, product)
            return program
        if batch or not self.looks_at_values(problem):
            self.multiply(program, plan, product)
            return program
        extremes = add_extremes(program, problem, a, b)
        for form in (Form.FAST, Form.CAREFUL):
            self.multiply(program, plan, product._replace(form=form, extremes=extremes))
        return program

    def looks_at_values(self, problem: Problem) -> bool:
        """Return whether the extremes of A and B choose the form of the kernel; never of a batch in one launch."""
        is_two = two_steps(problem.semiring, problem.dtype) is not None
        has_forms = has_fast_form(problem.semiring, problem.dtype) and (self.takes_two_steps or not is_two)
        return has_forms and is_scanned(problem.of_one())

    def dimensions_at_once(self, plan: Plan) -> int:
        """Return `most_dimensions`; none for large products, whose own launches fill a GPU, and widened ones."""
        is_widened = self.widened(plan.problem) is not plan.problem
        return self.most_dimensions if is_at_once(plan.problem) and not is_widened else 0
