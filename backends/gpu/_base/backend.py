"""A product on a GPU as a program: kernels compiled, operands placed, launches bound; backends add the launches."""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from backends.gpu._cuda import device
from backends.gpu._paths.execution import GpuClosure
from backends.gpu._paths.program import ClosureProgram
from backends.gpu._program import templates
from backends.gpu._program.execution import GpuExecution
from backends.gpu._program.operands import GpuOperands
from backends.gpu._program.operators import unsupported
from backends.gpu._program.packed import PackedProgram
from backends.gpu._program.precompile import precompile
from backends.gpu._program.program import Kernel, Matrix, Place, Program
from backends.gpu._sequences.execution import GpuSteps, GpuTrace
from backends.gpu._simt.argk import argk_program
from harness import machine
from harness.errors import PlanError
from harness.interface import Backend, Closure, Execution, Steps, Trace
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import OLDEST
from harness.tuning.gpu.batches import is_at_once
from harness.tuning.gpu.paths import HALVES_FROM
from harness.tuning.gpu.sequences import MOST_STATES

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
    needs: ClassVar[tuple[int, int]] = OLDEST
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
            matrices, of_self = [placed.matrix(name) for name in placed.buffers], None
            itemsizes = {name: x.itemsize for name, x in placed.buffers.items()}
            program: Program | PackedProgram | None = templates.find(self._described, plan, matrices, itemsizes)
            if program is None:
                program, of_self = self._described(plan, *matrices)
            return GpuExecution(program, placed, of_self=of_self)
        sizes, steps, shifts = placed.batch(self.dimensions_at_once(plan))
        at_once = dataclasses.replace(plan, problem=dataclasses.replace(plan.problem, batch=sizes))
        matrices = (placed.matrix(name, steps[name]) for name in placed.buffers)
        return GpuExecution(self.program(at_once, *matrices), placed, shifts)

    def _described(self, plan: Plan, *matrices: Matrix) -> tuple[Program, Program | None]:
        return self.program(plan, *matrices), self.program_of_self(plan, *matrices)

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
        placed = GpuOperands(operands, argk)
        sizes, steps, shifts = placed.batch(2 if is_at_once(plan.problem) else 0)
        matrices = (placed.matrix(name, steps[name]) for name in ("a", "b", "out", "which"))
        program = argk_program(dataclasses.replace(plan.problem, batch=sizes), *matrices)
        return GpuExecution(program, placed, shifts)

    def prepare_closure(
        self, problem: Problem, count: int, block: int | None, machine: Machine, *, keeps: bool, symmetric: bool
    ) -> Closure | None:
        """Prepare the launches of all steps; products are the backend's own, but for those with predecessors.

        All elements of symmetric matrices are computed where the backend knows no triangles, and with predecessors.
        """
        planned = functools.cache(lambda product: self.plan(product, machine))
        whole = dataclasses.replace(problem, accumulate=True, batch=(count,))
        lower = dataclasses.replace(whole, batch=(), triangle="d")
        halves = symmetric and not keeps and problem.n >= HALVES_FROM
        halves = halves and "triangle" in self.takes and not self.declines(lower)
        program = ClosureProgram(
            problem,
            count,
            block,
            lambda product, *matrices: self.program(planned(product), *matrices),
            keeps=keeps,
            at_once=not halves
            and (count > 1 and is_at_once(whole) if keeps else self.dimensions_at_once(planned(whole)) > 0),
            symmetric=symmetric,
            by_halves=halves and "a" in self.columns_taken(planned(lower)),
        )
        return GpuClosure(program.program, problem.dtype, keeps=keeps)

    def prepare_steps(
        self, problem: Problem, keeps: str = "", *, is_relative: bool = False, is_traced: bool = False
    ) -> Steps | None:
        """Prepare one launch for all steps, the same for every backend, where a vector of states fits into a block."""
        is_known = unsupported(problem.semiring, problem.dtype) is None and problem.dtype.kind in "fi"
        is_known = is_known and problem.dtype.itemsize >= 4 and problem.n <= MOST_STATES
        if not is_known or (is_traced and problem.semiring.add.name != "max"):
            return None
        if is_traced:
            return GpuSteps(problem, "after", self._multiply, is_relative=True, trace=GpuTrace(problem))
        return GpuSteps(problem, keeps, self._multiply, is_relative=is_relative)

    def prepare_trace(self, problem: Problem) -> Trace | None:
        """Prepare launches that trace all sequences, of whatever has steps here."""
        return GpuTrace(problem)

    @functools.cached_property
    def _multiply(self) -> Any:
        """Return what gives programs of products by this backend, of their problems and matrices; None of batches."""

        def multiply(problem: Problem, *matrices: Matrix) -> Program | None:
            plan = self.plan(problem, machine.detect())
            return None if problem.batch and not self.dimensions_at_once(plan) else self.program(plan, *matrices)

        return multiply

    @abstractmethod
    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches of the whole product; c precedes out if there is one.

        Raises
        ------
        PlanError
            If an option of the plan has no legal value.
        """


def part_of(composite: Backend, base: Backend) -> GpuBackend:
    """Return `base`, whose launches become a part of the program of `composite`; raise PlanError if it has none."""
    if isinstance(base, GpuBackend):
        return base
    raise PlanError(
        f"{composite.name}: its parts are launches of one program, which this base has not",
        expected="a rung of the GPU, or gpu-cublas",
        got=f"base={base.name!r}",
    )
