"""One thread computes one element of y, and x comes through shared memory, a block's share after the other.

    block   `threads` elements of y   p over k by `threads`: that many elements of x to shared memory
    thread  one element               p over them by 1: an element of the matrix from global memory a pair

Source: lecture notes on GPU programming: the vector in shared memory.
"""

from __future__ import annotations

from backends.gpu._matrix_vector.product import MatrixVector
from backends.gpu._matrix_vector.rung import BLOCKS, MatrixVectorRung, launch_one
from backends.gpu._program.program import Program, ceil_div
from harness.plan import Plan
from harness.tuning.gpu.matrix_vector.rungs import THREADS


class MatrixVectorCached(MatrixVectorRung):
    """One thread an element of y, x through shared memory."""

    name = "gpu-mv-cached"
    step = 12
    idea = "x comes through shared memory: each block reads it once, not each thread"
    source = "lecture notes on GPU programming: the vector in shared memory"
    defaults = {"threads": THREADS}  # noqa: RUF012 declared in the base class

    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the one launch."""
        threads = int(plan.choice("threads", BLOCKS))
        blocks = ceil_div(product.count, threads)
        launch_one(program, plan, product, "mv_cached", blocks, threads, THREADS=threads)
