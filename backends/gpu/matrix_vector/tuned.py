"""16 bytes a load, many loads in flight, and the shape decides which of three kernels adds what.

    rows      the matrix is contiguous along k: `group` threads a row; shuffles, then shared memory for several warps
    short     short rows without gaps: tiles of them through shared memory, then a thread or a few a row
    columns   contiguous along y: threads side by side, lines of them over k; a tree over the lines in shared memory
    shares    too few blocks: several share a sum. Each leaves its part in scratch; the last adds them in order

One launch, and the same bits every time. The matrix is taken as it lies, with any distance of its rows or columns.

Source: lecture notes on GPU programming; CUDA C++ Best Practices Guide: vectorised access, memory-level parallelism.
"""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.device import planned
from backends.gpu._matrix_vector.product import MatrixVector, matrix_vector_defines
from backends.gpu._matrix_vector.rung import MatrixVectorRung
from backends.gpu._program.program import Kernel, Place, Program, ceil_div
from harness.errors import PlanError
from harness.plan import Plan
from harness.tuning.gpu.matrix_vector.columns import columns_launch
from harness.tuning.gpu.matrix_vector.costs import BLOCK
from harness.tuning.gpu.matrix_vector.rows import MOST_SHORT, rows_launch, short_rows_launch

# Legal values of the options; 0: `harness.tuning.gpu.matrix_vector` chooses by the shape and by how the matrix lies.
_LEGAL = {
    "group": (0, 1, 2, 4, 8, 16, 32, 64, 128, 256),
    "loads": (0, 1, 2, 4, 8, 12, 16),
    "width": (0, 1, 2, 4, 8, 16),
    "tile": (0, 8, 16, 32, 40),
}


class MatrixVectorTuned(MatrixVectorRung):
    """Wide loads, many in flight, shared sums."""

    name = "gpu-mv-tuned"
    step = 78
    idea = "16 bytes a load and eight loads in flight; the shape decides how many threads and blocks share a sum"
    source = "lecture notes on GPU programming; CUDA C++ Best Practices Guide: memory-level parallelism"
    takes = MatrixVectorRung.takes | {"half"}
    defaults = {"group": 0, "loads": 0, "width": 0, "shares": 0, "beside": 0, "tile": 0}  # noqa: RUF012 declared in the base class

    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the one launch."""
        options = {name: int(plan.choice(name, legal)) for name, legal in _LEGAL.items()}
        options |= {name: _count(plan, name) for name in ("shares", "beside")}
        if product.is_by_rows:
            _add_rows(program, plan, product, options)
        else:
            _add_columns(program, plan, product, options)


def _count(plan: Plan, option: str) -> int:
    value = plan.options[option]
    if isinstance(value, int) and 0 <= value <= (BLOCK if option == "beside" else 1 << 16):
        return value
    raise PlanError(f"{option} has no such value", expected="a number, or 0 for the rule", got=f"{option}={value!r}")


def _add_rows(program: Program, plan: Plan, product: MatrixVector, options: dict[str, int]) -> None:
    size = plan.problem.dtype.itemsize
    names = "group", "loads", "width", "shares"
    if not any(options[x] for x in names):
        tile = short_rows_launch(product.count, product.k, size, product.step_i, planned(), tile=options["tile"])
        if tile is not None:
            numbers = {"BLOCK": BLOCK, "GROUP": tile.group, "TILE_KIB": tile.kib, "MOST_K": MOST_SHORT}
            kernel = Kernel(
                "mv_short_rows",
                matrix_vector_defines(plan.problem, product, **numbers),
                (BLOCK,),
                function="mv_short_rows",
            )
            program.launch(kernel, ceil_div(product.count, tile.rows), *product.arguments(plan.problem), tile.rows)
            return
    launch = rows_launch(
        product.count,
        product.k,
        size,
        product.step_i,
        product.matrix_alignment,
        planned(),
        **{x: options[x] for x in names},
    )
    wide_x = not launch.is_shifted and product.step_x == 1 and product.x_alignment % (launch.width * size) == 0
    numbers = {"BLOCK": BLOCK, "GROUP": launch.group, "WIDTH": launch.width, "LOADS": launch.loads}
    numbers |= {"X_WIDTH": launch.width if wide_x else 1, "HAS_GAPS": product.step_x != 1, "SHIFTED": launch.is_shifted}
    blocks = ceil_div(product.count, BLOCK // launch.group)
    _launch_shares(program, plan, product, "mv_rows", numbers, blocks, launch.shares, launch.depth)


def _add_columns(program: Program, plan: Plan, product: MatrixVector, options: dict[str, int]) -> None:
    launch = columns_launch(
        product.count, product.k, plan.problem.dtype.itemsize, product.step_p, product.matrix_alignment,
        planned(), **{x: options[x] for x in ("beside", "loads", "shares")},
    )  # fmt: skip
    numbers = {
        "BLOCK": BLOCK,
        "WIDTH": launch.width,
        "LOADS": launch.loads,
        "SLOTS": launch.slots,
        "LINES": launch.lines,
    }
    numbers["HAS_GAPS"] = product.step_x != 1
    blocks = ceil_div(product.count, launch.window)
    _launch_shares(program, plan, product, "mv_columns", numbers, blocks, launch.shares, launch.depth, launch.window)


def _launch_shares(
    program: Program,
    plan: Plan,
    product: MatrixVector,
    stem: str,
    numbers: dict[str, int],
    blocks: int,
    shares: int,
    depth: int,
    *sizes: int,
) -> None:
    """Add the launch of a kernel whose `blocks` groups of blocks share sums: parts in scratch, and tickets."""
    problem = plan.problem
    per_sum = 2 if problem.semiring.add.name == "logaddexp" else 1  # a maximum, and a sum of exponentials
    parts, tickets = Place(product.y.buffer), Place(product.y.buffer)
    if shares > 1:
        parts = program.reserve("parts", shares * product.count * per_sum, problem.dtype)
        tickets = program.reserve("tickets", blocks, np.dtype(np.uint32), is_zeroed=True)
    kernel = Kernel(stem, matrix_vector_defines(problem, product, **numbers), (BLOCK,), function=stem)
    arguments = product.arguments(problem)
    program.launch(kernel, blocks * shares, *arguments, parts, tickets, shares, depth, *sizes)
