"""The launch of warp_panels.cu: products with a tall, narrow C and a short k, whose rows of A pass through once."""

from __future__ import annotations

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import WIDE
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div, product_defines
from backends.gpu._simt.alignments import of_other_rows
from harness.errors import PlanError
from harness.plan import WARP, Plan
from harness.tuning.gpu import warp_panels


def add_warp_panels(program: Program, plan: Plan, product: Product) -> None:
    """Add the launch for a plan with the options ``lanes``, threads along a row of C, and ``panels``, warps of a block.

    Raises
    ------
    PlanError
        If C is wider than a panel or a triangle, A lies by columns, or panels do not fit into shared memory.
    """
    launch, itemsize = plan.launch, plan.problem.dtype.itemsize
    lanes, warps = int(plan.options["lanes"]), int(plan.options["panels"])
    a, b, n, k = product.a, product.b, product.n, product.k
    assert launch is not None
    granule = WIDE // itemsize
    across = launch.bk // granule  # lanes that copy a row of a chunk
    is_panel = lanes in (1, 2, 4, 8) and launch.bm == WARP // lanes * launch.tm and launch.bn == lanes * launch.tn
    are_chunks = across * granule == launch.bk and across in (2, 4, 8, 16, 32) and launch.stages >= 2
    is_block = 1 <= warps <= warp_panels.MOST_WARPS
    if not (is_panel and are_chunks and is_block):
        raise PlanError(
            "gpu-tuned: warps do not have row panels",
            expected=f"lanes 1, 2, 4 or 8; bm == {WARP} / lanes * tm, bn == lanes * tn; bk of 2, 4, 8, 16 or 32 "
            f"granules of {granule}; stages >= 2; panels, the warps of a block, 1 to {warp_panels.MOST_WARPS}",
            got=f"{launch}, lanes={lanes}, panels={warps}",
        )
    if n > launch.bn or a.by_columns or product.is_triangle or product.batch:
        raise PlanError(
            "gpu-tuned: no row panels give C",
            expected=f"one product, whole, of at most {launch.bn} columns, A by rows",
            got=f"{n} columns, {a}",
        )
    shared = warp_panels.shared_bytes(launch, k, warps, itemsize)
    device.fitting("gpu-tuned", shared, launch)
    tile = {
        "TM": launch.tm,
        "BN": launch.bn,
        "LANES": lanes,
        "KC": launch.bk,
        "STAGES": launch.stages,
        "UNIT": _unit(a, k, granule, itemsize),
        "B_BY_COLUMNS": int(b.by_columns),
    }
    kernel = Kernel("warp_panels", product_defines(plan.problem, product) + as_defines(tile), (WARP * warps,), shared)
    blocks = min(ceil_div(ceil_div(product.m, launch.bm), warps), device.planned().multiprocessors)
    program.alike = of_other_rows
    program.launch(kernel, blocks, *product.arguments)


def _unit(a: Matrix, k: int, granule: int, itemsize: int) -> int:
    """Return how many elements of a row of A one load takes."""
    units = (unit for unit in (granule, 2) if a.ld % unit == k % unit == a.alignment % (unit * itemsize) == 0)
    return next(units, 1)
