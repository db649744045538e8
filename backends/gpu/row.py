"""Each thread computes a row of C, and all threads of a block share a column of B in shared memory.

    grid    panels of C, bm x bn   a block of bm threads each
    loop    p0 over k by bk        a column of B, or a panel of bn columns, in shared memory
    thread  one row of the panel   p over bk by 1: one load from global memory for bn pairs

With bn = 1 a pair takes one load from global memory, where gpu-naive takes two: two operations a load. The threads of a
warp read 32 rows of A. So that load is coalesced only if A lies by columns, and over rows it takes 11 times as long as
gpu-naive (float32, n = 4096, H200, 2026-11-23): a multiprocessor serves one of its 32 lines a clock.

Source: lecture notes on dense matrix algorithms: one thread for each row of A, a column of B in fast memory.
"""

from __future__ import annotations

import dataclasses

from backends.gpu._base.rung import Rung
from backends.gpu._cuda import device
from backends.gpu._program.nest import nest_of
from backends.gpu._program.program import Kernel, Product, Program, product_defines
from harness.errors import PlanError
from harness.interface import Nest
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.rungs import ROW


class Row(Rung):
    """One thread a row, a column of B in shared memory."""

    name = "gpu-row"
    step = 25
    idea = "each thread computes a row of C; the threads of a block share a column of B in shared memory"
    source = "lecture notes on dense matrix algorithms: one thread for each row of A, a column of B in fast memory"
    most_dimensions = 2

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose a column of B; with bn > 1 a panel."""
        return Plan(problem, 1, launch=ROW)

    def loops(self, plan: Plan) -> Nest | None:
        """Return the loops; the rows of A that the threads of a warp read are lines apart, unless A lies by columns."""
        nest = nest_of(plan)
        is_apart = nest is not None and plan.problem.layout[0] != "F"
        return dataclasses.replace(nest, scattered="a") if nest and is_apart else nest

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return A."""
        return frozenset({"a"})

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the one launch."""
        launch = plan.launch
        if launch.tm > 1 or launch.tn != launch.bn:
            raise PlanError(f"{self.name}: a thread has no whole row", expected="tm == 1, tn == bn", got=str(launch))
        size = launch.bk * launch.bn * plan.problem.dtype.itemsize
        device.fitting(self.name, size, launch)
        defines = product_defines(
            plan.problem, product, BM=launch.bm, BN=launch.bn, BK=launch.bk, A_BY_COLUMNS=product.a.by_columns
        )
        kernel = Kernel("row", defines, (launch.bm,), size)
        program.launch(kernel, product.grid(product.tiles(launch.bm, launch.bn)), *product.arguments)
