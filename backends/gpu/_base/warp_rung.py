"""The common part of the rungs whose threads are placed by warps: macros of warp_tiles.cuh, and conditions on tiles."""

from __future__ import annotations

from backends.gpu._base.tiled_rung import TiledRung
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.padding import WIDE
from backends.gpu._program.program import Product
from backends.gpu._simt.copies import group_size, offset_type
from harness.errors import PlanError
from harness.plan import Launch, Plan

ORDERS = (0, 1, 2, 3, 4, 5, 6)
# Bytes that a load takes at most: CUDA's float and double, double2, and double4, which is two loads.
LOADS = (4, 8, 16, 32)


def widest_load(plan: Plan, option: str, legal: tuple[int, ...] = LOADS) -> int:
    """Return the bytes that the plan allows a load to take, 16 unless it has the option; an element at least."""
    return max(int(plan.choice(option, legal)) if option in plan.options else WIDE, plan.problem.dtype.itemsize)


class WarpRung(TiledRung):
    """A rung with tiles of warps, whose threads read groups of elements from shared memory."""

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles; raise PlanError unless tiles divide into tiles of warps and groups of threads."""
        launch = super().prepare_launch(plan)
        group = group_size(plan.problem.dtype.itemsize, widest_load(plan, "shared_load"))
        if not launch.wm or launch.tm % group or launch.tn % group or launch.bk % 2:
            raise PlanError(
                f"{self.name}: a thread has no whole groups of {group} elements",
                expected=f"wm, wn > 0, tm % {group} == tn % {group} == 0, and an even bk",
                got=str(launch),
            )
        return launch

    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the bytes of a tile of A, padded, and one of B."""
        return launch.bk * (launch.bm + group_size(itemsize) + launch.bn) * itemsize

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the macros that warp_tiles.cuh, order.cuh and store_tile.cuh expect."""
        launch, itemsize = plan.launch, plan.problem.dtype.itemsize
        sizes = {name.upper(): getattr(launch, name) for name in "bm bn bk wm wn tm tn".split()}
        vectors = (product.out.ld * itemsize) % (group_size(itemsize) * itemsize) == 0 and product.out.alignment >= WIDE
        layout = {
            "ORDER": plan.choice("order", ORDERS),
            "C_VECTORS": vectors,
            "GROUP": plan.options["group"],
            "OFFSET": offset_type(launch, product.a, product.b),
        }
        loads = widest_load(plan, "shared_load")
        return as_defines({**sizes, **layout, **({"SHARED_LOAD": loads} if loads != WIDE else {})})
