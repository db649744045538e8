"""Complex products by four real ones on a GPU: one real product of planes by another backend, between two passes.

    split      A and B as planes: each row of A, and each column of B, is two lines of real numbers       planes.cu
    multiply   2m x k by k x 2n, real, by the base
    join       D from the four products of each pair of vectors, and C                                    planes.cu

Where the base is gpu-tensor-core, and the copy engine brings its tiles of float64, there are no passes: complex128 is
read as it lies, and four products are two real ones of twice as many steps (tensor_core_c128.cu). With alpha, with rows
that begin within a line of a cache, and with ``join="passes"`` there are.

It is the 4m method of BLIS with its four products side by side. No term is computed twice, so a base with r operations
a second makes as many complex ones, but for the passes over n^2 elements. alpha and conjugates cost nothing there.

Source: Van Zee and Smith, "Implementing High-performance Complex Matrix Multiplication via the 3m and 4m Methods"
(2017).
"""

from __future__ import annotations

from backends.gpu._base.backend import GpuBackend, part_of
from backends.gpu._complex.planes import ComplexProduct, add_begin, add_join, add_split, real_problem
from backends.gpu._program.program import Matrix, Program
from backends.gpu._tensor.row_product import add_complex_product, complex_plan
from harness.composite import Composite
from harness.machine import Machine, detect
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.static_order import AUTO_FIRST_ON_GPU

JOINS = ("registers", "passes")


class FourProducts(Composite, GpuBackend):
    """One real product of stacked parts."""

    name = "gpu-four-m"
    step = 72
    idea = "a complex product as one real product of twice as many rows and columns, around another backend of the GPU"
    source = "Van Zee and Smith (2017), the 4m method"
    base_family = "gpu-"
    is_base = True  # its parts are real
    takes = frozenset({"complex", "conjugate", "mixed", "batch", "device arrays"})
    takes_columns = frozenset({"a", "b", "c", "out"})

    def declines(self, problem: Problem) -> str | None:
        """Decline all but complex numbers over plus_times."""
        if not problem.is_complex:
            return "it multiplies complex numbers alone"
        return None if problem.semiring.is_ordinary else "it computes plus_times alone"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the base of the real product."""
        base = self.choose_base(real_problem(problem.of_one()), AUTO_FIRST_ON_GPU)
        return Plan(problem, 1, None, {"base": base, "join": JOINS[0]})

    def loosens(self, problem: Problem) -> bool:
        """Return False: a base is as accurate as ordinary sums, unless it is named."""
        return False

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return that of the base, whose norms of rows and columns are those of both parts: zero if it rounds nothing.

        By Cauchy and Schwarz the two products of a part have together at most the norms of the complex vectors.
        """
        real = real_problem(plan.problem.of_one())
        base = self.find_base(plan.options["base"], real)
        if not base.loosens(real):
            return 0.0
        alpha = 1.0 if plan.problem.alpha is None else float(abs(plan.problem.alpha))
        return alpha * base.extra_error(base.plan(real, detect()), operands)

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches of the whole product; c precedes out if there is one."""
        problem, program = plan.problem, Program()
        if problem.m == 0 or problem.n == 0:
            return program
        product = ComplexProduct.of(problem, a, b, c_and_out[0], c_and_out[-1])
        if problem.k == 0:
            add_join(program, product, None)
            return program
        real = real_problem(product.problem)
        base = part_of(self, self.find_base(plan.options["base"], real))
        part_plan = base.plan(real, detect())
        at_once = complex_plan(part_plan, product) if plan.choice("join", JOINS) == "registers" else None
        if at_once is not None:
            add_begin(program, product.problem, product.c, product.out)
            add_complex_product(program, at_once, product)
            return program
        planes = add_split(program, product)
        products = Matrix(program.reserve("products", real.m * real.n, real.dtype), real.n)
        part = base.program(part_plan, planes.a, planes.b, products)
        program.share(part)
        program.steps += part.steps
        program.alike = part.alike
        add_join(program, product, products.place)
        return program
