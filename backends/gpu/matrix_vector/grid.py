"""T rows by Z threads a block: as many threads a row as its length wants, as many rows a block as that leaves.

    grid    blocks of t * rows elements of y
    thread  `rows` elements, t apart   p over k by z: an element of x, and `rows` of the matrix from global memory
    tree    over the z threads of a row in shared memory

Source: lecture notes on GPU programming, cudaLargeMV.
"""

from __future__ import annotations

from backends.gpu._matrix_vector.product import MatrixVector
from backends.gpu._matrix_vector.rung import BLOCKS, MatrixVectorRung, launch_one
from backends.gpu._program.program import Program, ceil_div
from harness.errors import PlanError
from harness.plan import LARGEST_BLOCK, WARP, Plan
from harness.tuning.gpu.matrix_vector.rungs import DEEP, ROWS_OF_THREAD, TALL

_POWERS = (1, 2, 4, 8, 16, *BLOCKS)
_ROWS = (1, 2, 4, 8)


class MatrixVectorGrid(MatrixVectorRung):
    """A block of T rows by Z threads."""

    name = "gpu-mv-grid"
    step = 14
    idea = "T rows by Z threads a block: short rows and long ones both find enough threads"
    source = "lecture notes on GPU programming: cudaLargeMV"
    defaults = {"t": TALL, "z": DEEP, "rows": ROWS_OF_THREAD}  # noqa: RUF012 declared in the base class

    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the one launch."""
        tall, deep, rows = (
            int(plan.choice(x, legal)) for x, legal in (("t", _POWERS), ("z", _POWERS), ("rows", _ROWS))
        )
        threads = tall * deep
        if threads % WARP or threads > LARGEST_BLOCK:
            raise PlanError(
                f"{self.name}: a block has {threads} threads",
                expected=f"t * z a multiple of {WARP}, and at most {LARGEST_BLOCK}",
                got=f"t={tall}, z={deep}",
            )
        numbers = {"TALL": tall, "DEEP": deep, "ROWS": rows, "BY_COLUMNS": not product.is_by_rows}
        launch_one(program, plan, product, "mv_grid", ceil_div(product.count, tall * rows), threads, **numbers)
