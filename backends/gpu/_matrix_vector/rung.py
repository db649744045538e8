"""The common part of the matrix-vector rungs: what they decline, and one launch that does all of a product.

alpha, beta and C are applied in the kernel, and k = 0 is a sum without terms there: no pass comes before or after it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from backends.gpu._base.backend import GpuBackend
from backends.gpu._matrix_vector.product import MatrixVector, matrix_vector, matrix_vector_defines
from backends.gpu._program.program import Kernel, Matrix, Program
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem

# Threads that a block may have.
BLOCKS = (32, 64, 128, 256, 512, 1024)


class MatrixVectorRung(GpuBackend):
    """A rung of products of a matrix and a vector, in either order.

    Attributes
    ----------
    defaults : dict
        The options of its plans.
    """

    takes_columns = frozenset({"a", "b", "c", "out"})
    defaults: ClassVar[dict[str, int | str]] = {}

    def declines(self, problem: Problem) -> str | None:
        """Decline products of two matrices, and operations without a form in CUDA C."""
        if problem.m != 1 and problem.n != 1:
            return f"it multiplies a matrix and a vector: m or n is 1, not {problem.m} and {problem.n}"
        return super().declines(problem)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return the default options."""
        return Plan(problem, 1, options=dict(self.defaults))

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches of the whole product."""
        program, product = Program(), matrix_vector(plan.problem, a, b, *c_and_out)
        if product.count:
            self.add(program, plan, product)
        return program

    @abstractmethod
    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the launches of `product`, which has elements, to `program`; k may be 0."""


def launch_one(
    program: Program, plan: Plan, product: MatrixVector, stem: str, blocks: int, threads: int, **numbers: int | str
) -> None:
    """Add the launch of the kernel ``stem.cu``, which has no arguments but those of every product.

    Parameters
    ----------
    program : Program
    plan : Plan
    product : MatrixVector
    stem : str
        Also the name of the function.
    blocks, threads : int
    numbers : int or str
        Its macros.
    """
    defines = matrix_vector_defines(plan.problem, product, **numbers)
    program.launch(Kernel(stem, defines, (threads,), function=stem), blocks, *product.arguments(plan.problem))
