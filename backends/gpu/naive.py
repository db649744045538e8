"""One thread computes one element of C; neighbouring threads read neighbouring elements, if coalesced.

    grid    tiles of C, bm x bn   a block of bm * bn threads each
    thread  one element           p over k by 1: an element of A and one of B from global memory a pair

With ``access="uncoalesced"`` the threads of a warp have neighbouring rows, so each of their loads of A touches a
different line. The same work takes about three times as long (`gpu_ladder`: 2.9 to 3.3 on an H200, n = 4096).

It also takes operands of float32 with sums of float64, as the lecture's product on the host has them.

Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from backends.gpu._base.rung import Rung
from backends.gpu._program.operators import operand_defines
from backends.gpu._program.program import Kernel, Product, Program, product_defines
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.rungs import NAIVE

ACCESS = ("coalesced", "uncoalesced")


class Naive(Rung):
    """One thread an element, from global memory."""

    name = "gpu-naive"
    step = 20
    idea = "one thread an element over the whole GPU; the threads of a warp read neighbours, which are one transaction"
    source = "CUDA C++ Best Practices Guide: coalesced access to global memory"
    takes = Rung.takes | {"mixed"}
    most_dimensions = 2

    def declines(self, problem: Problem) -> str | None:
        """Decline operations without a form in CUDA C, and mixed products but those of float32 into float64."""
        if problem.is_mixed and problem.dtype.name != "float64":
            return "of mixed products it has only those of float32 with sums of float64"
        if problem.is_mixed and problem.alpha is not None:
            return "a narrow A cannot hold alpha times A, and its kernel does not multiply sums by alpha"
        return super().declines(problem)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose a block, and coalesced access."""
        return Plan(problem, 1, options={"access": "coalesced"}, launch=NAIVE)

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the one launch."""
        launch = plan.launch
        is_coalesced = plan.choice("access", ACCESS) == "coalesced"
        defines = product_defines(plan.problem, product, BM=launch.bm, BN=launch.bn, COALESCED=is_coalesced)
        kernel = Kernel("naive", defines + operand_defines(plan.problem), (launch.bm * launch.bn,))
        program.launch(kernel, product.grid(product.tiles(launch.bm, launch.bn)), *product.arguments)
