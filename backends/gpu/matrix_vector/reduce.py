"""A block computes one element of y, and its threads add up their sums as a tree in shared memory.

    grid    a block for each element of y
    thread  p over k by `threads`: an element of the matrix and one of x from global memory a pair

Source: lecture notes on GPU programming, cudaReduceMV; M. Harris, "Optimizing Parallel Reduction in CUDA" (2007).
"""

from __future__ import annotations

from backends.gpu._matrix_vector.product import MatrixVector
from backends.gpu._matrix_vector.rung import BLOCKS, MatrixVectorRung, launch_one
from backends.gpu._program.program import Program
from harness.plan import Plan
from harness.tuning.gpu.matrix_vector.rungs import THREADS


class MatrixVectorReduce(MatrixVectorRung):
    """A block an element of y."""

    name = "gpu-mv-reduce"
    step = 13
    idea = "a block a row: its threads read neighbours, and add up their sums as a tree in shared memory"
    source = "lecture notes on GPU programming: cudaReduceMV; Harris, Optimizing Parallel Reduction in CUDA (2007)"
    defaults = {"threads": THREADS}  # noqa: RUF012 declared in the base class

    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the one launch."""
        threads = int(plan.choice("threads", BLOCKS))
        launch_one(program, plan, product, "mv_reduce", product.count, threads, THREADS=threads)
