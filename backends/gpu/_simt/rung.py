"""The common part of the SIMT rungs: empty sizes, alpha, beta, extremes of values; a rung only adds its kernel.

A kernel only knows ``C := A (x) B`` and ``C := C (+) A (x) B`` over row-major matrices. Everything around it is the
same for every rung, so that rungs differ by their idea alone. `GpuBackend` is what other products on a GPU share with
them: programs compiled, operands placed, launches bound.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.argk import ArgkOperands, argk_program
from backends.gpu._simt.execution import GpuExecution, GpuOperands
from backends.gpu._simt.log_sum_exp import add_log_sum_exp, is_log_sum_exp
from backends.gpu._simt.nest import nest_of
from backends.gpu._simt.operators import (
    Form,
    batch_defines,
    has_fast_form,
    semiring_defines,
    triangle_defines,
    two_steps,
    unsupported,
)
from backends.gpu._simt.passes import add_extremes
from backends.gpu._simt.precompile import precompile
from backends.gpu._simt.program import Batch, Kernel, Matrix, Place, Product, Program
from backends.gpu._simt.rows import add_rows, is_widened, widened
from backends.gpu._simt.scalars import add_constants, add_start, scaled
from harness.errors import PlanError
from harness.interface import Backend, Execution, Nest
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.batches import is_at_once
from harness.tuning.gpu.rungs import is_scanned

# Why a rung whose tiles are those of D declines a symmetric A.
SYMMETRIC = "its tiles leave a triangle of D out, not of A"


class GpuBackend(Backend):
    """A backend whose products are programs: kernels compiled, operands placed, launches bound.

    Attributes
    ----------
    needs : (int, int)
        Least compute capability.
    takes_columns : set of str
        Which of "a", "b", "c" and "out" its programs take by columns as they lie; others are copied, row by row.
    most_dimensions : int
        Dimensions of a batch that one of its programs computes.
    """

    takes = frozenset({"device arrays", "batch"})
    calls_libraries = False
    accumulates_in_place = True
    needs: ClassVar[tuple[int, int]] = device.OLDEST
    takes_columns: ClassVar[frozenset[str]] = frozenset()
    most_dimensions: ClassVar[int] = 0

    def missing(self) -> str | None:
        """Say whether there is a GPU that can run it."""
        return device.missing(self.needs, f"{self.name}'s kernels")

    def architecture(self) -> str:
        """Return that of the current GPU; empty without one."""
        return "" if device.missing() else device.device().arch

    def compile(self, plans: Iterable[Plan]) -> int:
        """Compile the kernels of all plans in worker processes."""
        kernels = [kernel for plan in plans for kernel in self.kernels_of(plan)]
        return precompile(kernels, self.architecture() or "sm_90")

    def kernels_of(self, plan: Plan) -> list[Kernel]:
        """Return the kernels of a product of operands without gaps; none if the plan is not legal."""
        problem, names = plan.problem, ["a", "b", *(["c"] if plan.problem.accumulate else []), "out"]
        shapes = {"a": (problem.m, problem.k), "b": (problem.k, problem.n)}

        def matrix(name: str) -> Matrix:
            rows, columns = shapes.get(name, (problem.m, problem.n))
            letter = dict(zip(("a", "b", "out"), problem.layout, strict=True)).get(name)
            by_columns = name in self.columns_taken(plan) and letter == "F" and rows > 1
            return Matrix(Place(name), rows if by_columns else columns, by_columns=by_columns)

        try:
            program = self.program(plan, *map(matrix, names))
        except PlanError:
            return []
        return program.kernels()

    def columns_taken(self, plan: Plan) -> frozenset[str]:
        """Return which matrices the program of `plan` takes by columns: `takes_columns`, unless overridden."""
        return self.takes_columns

    def declines(self, problem: Problem) -> str | None:
        """Decline operations without a form in CUDA C."""
        return unsupported(problem.semiring, problem.dtype)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without choices: one GPU, one thread of the host."""
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Upload the operands, compile and load the kernels, allocate."""
        is_triangle = plan.problem.triangle == "d"
        takes_columns = self.columns_taken(plan)
        placed = GpuOperands(operands, takes_columns=takes_columns, is_triangle=is_triangle)
        if not plan.problem.batch:
            matrices = [placed.matrix(name) for name in placed.buffers]
            return GpuExecution(self.program(plan, *matrices), placed, of_self=self.program_of_self(plan, *matrices))
        sizes, steps, shifts = placed.batch(self.dimensions_at_once(plan))
        at_once = dataclasses.replace(plan, problem=dataclasses.replace(plan.problem, batch=sizes))
        matrices = (placed.matrix(name, steps[name]) for name in placed.buffers)
        return GpuExecution(self.program(at_once, *matrices), placed, shifts)

    def program_of_self(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program | None:
        """Return the launches where B is A transposed, in the same memory; None: those of any other B."""
        return None

    def dimensions_at_once(self, plan: Plan) -> int:
        """Return how many dimensions of a batch one program computes, 2 at most; the others are launched in turn."""
        return self.most_dimensions

    def is_behind(self, problem: Problem) -> bool:
        """Return whether small products are launched one after the other."""
        return self.most_dimensions == 0 and is_at_once(problem)

    def prepare_argk(self, plan: Plan, operands: Operands, argk: Any) -> Execution | None:
        """Prepare `argk.cu`, the same for every rung."""
        placed = ArgkOperands(operands, argk)
        sizes, steps, shifts = placed.batch(2 if is_at_once(plan.problem) else 0)
        matrices = (placed.matrix(name, steps[name]) for name in ("a", "b", "out", "which"))
        return GpuExecution(argk_program(dataclasses.replace(plan.problem, batch=sizes), *matrices), placed, shifts)

    @abstractmethod
    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches of the whole product; c precedes out if there is one.

        Raises
        ------
        PlanError
            If an option of the plan has no legal value.
        """


class Rung(GpuBackend):
    """A rung of the GPU ladder.

    Attributes
    ----------
    takes_two_steps : bool
        Whether its kernel combines two steps of k at once where that is faster (STEPS in semiring.cuh).
    takes_exponentials : bool
        Whether it computes logaddexp_plus as a real product of exponentials (`_simt.log_sum_exp`), not pair by pair.
    widens : bool
        Whether float32 with sums of float64 is a product of float64, of operands that a launch has widened.
    """

    takes_two_steps: ClassVar[bool] = False
    takes_exponentials: ClassVar[bool] = False
    widens: ClassVar[bool] = False

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
        if k == 0:
            add_constants(program, problem, c_and_out[0], out)
            return program
        add_start(program, problem, c_and_out[0], out)
        if self.widens and is_widened(problem):
            a, b = add_rows(program, problem, a, b, problem.dtype)
            problem = widened(problem)
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
        is_one = self.widens and is_widened(plan.problem)
        return self.most_dimensions if is_at_once(plan.problem) and not is_one else 0


def product_defines(problem: Problem, product: Product, **tile: int) -> Defines:
    """Return the macros of a kernel that computes `product`, with its own macros, `tile`."""
    macros = semiring_defines(problem.semiring, problem.dtype, form=product.form, accumulate=product.accumulate)
    return macros + triangle_defines(problem) + batch_defines(product.batch) + as_defines(tile)
