"""The macros of warp_tiles.cuh and of the headers built on it, and the conditions on the tiles."""

from __future__ import annotations

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.tiled_rung import WIDE, Product, offset_type
from harness.errors import PlanError
from harness.plan import Launch, Plan

ORDERS = (0, 1, 2, 3, 4, 5, 6)


def group_size(itemsize: int) -> int:
    """Return how many elements a thread reads at once from shared memory: 16 bytes, and of small types four."""
    return min(WIDE // itemsize, 4)


def tile_bytes(launch: Launch, itemsize: int) -> int:
    """Return the shared memory of a tile of A, padded, and one of B."""
    return launch.bk * (launch.bm + group_size(itemsize) + launch.bn) * itemsize


def check_warp_tiles(name: str, launch: Launch, itemsize: int) -> Launch:
    """Return `launch`; raise PlanError unless warps have tiles and threads whole groups of elements."""
    group = group_size(itemsize)
    if not launch.wm or launch.tm % group or launch.tn % group or launch.bk % 2:
        raise PlanError(
            f"{name}: a thread has no whole groups of {group} elements",
            expected=f"wm, wn > 0, tm % {group} == tn % {group} == 0, and an even bk",
            got=str(launch),
        )
    return launch


def warp_tile_defines(plan: Plan, product: Product) -> Defines:
    """Return the macros that warp_tiles.cuh, order.cuh and store_tile.cuh expect."""
    launch, itemsize = plan.launch, plan.problem.dtype.itemsize
    assert launch is not None
    sizes = {name.upper(): getattr(launch, name) for name in "bm bn bk wm wn tm tn".split()}
    vectors = (product.out.ld * itemsize) % (group_size(itemsize) * itemsize) == 0 and product.out.alignment >= WIDE
    order = plan.choice("order", ORDERS)
    layout = {
        "ORDER": order,
        "C_VECTORS": vectors,
        "GROUP": plan.options["group"],
        "OFFSET": offset_type(launch, product),
    }
    return as_defines({**sizes, **layout})
