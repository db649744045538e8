"""Tiles of warps, and loads of 16 bytes: fewer instructions for the same bytes, and no conflict between banks.

    grid    tiles of C, bm x bn     walked through in groups of rows, so that blocks share A and B in L2
    loop    p0 over k by bk         a tile of A, transposed, and one of B in shared memory
    warp    wm x wn                 32 threads that read neighbouring groups of 16 bytes
    thread  tm x tn                 p over bk by 1

Source: CUTLASS, "Efficient GEMM in CUDA": threadblock, warp and thread tiles.
"""

from __future__ import annotations

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.padding import width_of_loads
from backends.gpu._simt.program import Product
from backends.gpu._simt.warp_tiles import WarpRung
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu import DEFAULT_EDGE, warp_tiles


class WarpTiled(WarpRung):
    """Warp tiles and 16-byte loads."""

    name = "gpu-warp-tiled"
    step = 50
    idea = "threads are placed by warps, and read 16 bytes at a time from global and from shared memory"
    source = "CUTLASS, Efficient GEMM in CUDA; lecture notes on GPU programming: vectorised loads"
    stem = "warp_tiled"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose tiles by the size of an element."""
        tiles, options = warp_tiles(problem)
        return Plan(problem, 1, options={"edge": DEFAULT_EDGE, **options}, launch=tiles)

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the tiles, and how wide loads may be."""
        launch, itemsize = plan.launch, plan.problem.dtype.itemsize
        width_a, width_b = (width_of_loads(x, itemsize) for x in (product.a, product.b))
        while launch.bk % width_a or launch.bm * launch.bk // width_a % launch.threads:
            width_a //= 2
        while launch.bn * launch.bk // width_b % launch.threads:
            width_b //= 2
        return super().tile_defines(plan, product) + as_defines({"WIDTH_A": width_a, "WIDTH_B": width_b})
