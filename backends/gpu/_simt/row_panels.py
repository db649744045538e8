"""The launch of row_panels.cu: products with a tall, narrow C and a short k, whose rows of A pass through once."""

from __future__ import annotations

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import WIDE
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div, product_defines
from backends.gpu._simt.alignments import of_other_rows
from harness.errors import PlanError
from harness.plan import WARP, Plan
from harness.tuning.device import odd_granules
from harness.tuning.gpu import row_panels


def add_row_panels(program: Program, plan: Plan, product: Product) -> None:
    """Add the launch for a plan with the option ``panels``, the warps that share k.

    Raises
    ------
    PlanError
        If C is wider than a panel or a triangle, A lies by columns, or a panel does not fit into shared memory.
    """
    launch, itemsize, slices = plan.launch, plan.problem.dtype.itemsize, int(plan.options["panels"])
    a, b, n, k = product.a, product.b, product.n, product.k
    assert launch is not None
    is_row = launch.bm == WARP * launch.tm and launch.bn == launch.tn and launch.bn * itemsize % WIDE == 0
    if not is_row or n > launch.bn or a.by_columns or product.is_triangle or product.batch:
        raise PlanError(
            "gpu-tuned: no row panels give C",
            expected=f"one product, whole, of at most {launch.bn} columns; bm == {WARP} tm, bn == tn, A by rows",
            got=f"{n} columns, {launch}, {a}",
        )
    granule = WIDE // itemsize
    apart = _apart(a, k, granule)
    shared = row_panels.shared_bytes(launch, k, apart, slices, itemsize)
    device.fitting("gpu-tuned", shared, launch)
    tile = {
        "TM": launch.tm,
        "BN": launch.bn,
        "SLICES": slices,
        "UNIT": _unit(a, k, apart, granule),
        "B_BY_COLUMNS": int(b.by_columns),
        "MIN_BLOCKS": int(plan.options["blocks"]),
    }
    defines = product_defines(plan.problem, product) + as_defines(tile)
    kernel = Kernel("row_panels", defines, (WARP * slices,), shared)
    blocks = min(ceil_div(product.m, launch.bm), int(plan.options["blocks"]) * device.planned().multiprocessors)
    program.alike = of_other_rows
    program.launch(kernel, blocks, *product.arguments, apart)


def _apart(a: Matrix, k: int, granule: int) -> int:
    """Return how far rows of A lie apart in shared memory: as in memory, unless many would be in the same banks."""
    if a.alignment % WIDE or a.ld % granule:
        return a.ld
    is_spread = a.ld // granule % 2 == 1 and a.ld - k < 2 * granule
    return a.ld if is_spread else odd_granules(k, granule)


def _unit(a: Matrix, k: int, apart: int, granule: int) -> int:
    """Return how many elements of a row of A one load takes."""
    whole = (unit for unit in (4, 2) if unit <= granule and a.alignment % WIDE == 0 and apart % unit == k % unit == 0)
    return next(whole, 1)
