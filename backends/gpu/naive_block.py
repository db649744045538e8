"""One block computes C, one thread an element: the first kernel of a course, for matrices that one block can hold.

    thread  one element   p over k by 1: an element of A and one of B from global memory a pair

A block has at most 1024 threads, so C is at most 32 x 32, and all but one multiprocessor are idle.

Source: lecture notes on GPU programming, the first matrix product.
"""

from __future__ import annotations

from backends.gpu._base.rung import Rung
from backends.gpu._program.program import Kernel, Product, Program, product_defines
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.rungs import LARGEST_BLOCK_SIDE


class NaiveBlock(Rung):
    """One block, one thread an element."""

    name = "gpu-naive-block"
    step = 10
    idea = "as many threads as C has elements, in one block"
    source = "lecture notes on GPU programming: the first matrix product"
    most_dimensions = 2

    def declines(self, problem: Problem) -> str | None:
        """Decline a C larger than one block."""
        side = LARGEST_BLOCK_SIDE
        if problem.m > side or problem.n > side:
            return f"C is larger than one block of {side} x {side} threads"
        return super().declines(problem)

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the one launch."""
        kernel = Kernel("naive_block", product_defines(plan.problem, product), (product.n, product.m))
        program.launch(kernel, product.grid(1), *product.arguments)
