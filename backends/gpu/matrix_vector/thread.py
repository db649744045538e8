"""One thread computes one element of y, from global memory: the first matrix-vector kernel of a course.

    thread  one element   p over k by 1: an element of the matrix and one of x a pair

How the matrix lies decides: by columns (``layout="FCC"`` for y = A x) the threads of a warp read neighbours; by rows
each of their loads fetches a line of its own.

Source: lecture notes on GPU programming, the first matrix-vector product (cudaSimpleMV).
"""

from __future__ import annotations

from backends.gpu._matrix_vector.product import MatrixVector
from backends.gpu._matrix_vector.rung import BLOCKS, MatrixVectorRung, launch_one
from backends.gpu._program.program import Program, ceil_div
from harness.plan import Plan
from harness.tuning.gpu.matrix_vector.rungs import THREADS


class MatrixVectorThread(MatrixVectorRung):
    """One thread an element of y."""

    name = "gpu-mv-thread"
    step = 11
    idea = "as many threads as y has elements; each multiplies its row with x"
    source = "lecture notes on GPU programming: the first matrix-vector product (cudaSimpleMV)"
    defaults = {"threads": THREADS}  # noqa: RUF012 declared in the base class

    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the one launch."""
        threads = int(plan.choice("threads", BLOCKS))
        blocks = ceil_div(product.count, threads)
        launch_one(program, plan, product, "mv_thread", blocks, threads, THREADS=threads)
