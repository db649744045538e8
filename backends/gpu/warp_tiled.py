"""Tiles of warps, and loads of 16 bytes: fewer instructions for the same bytes, and no conflict between banks.

    grid    tiles of C, bm x bn     walked through in groups of rows, so that blocks share A and B in L2
    loop    p0 over k by bk         a tile of A, transposed, and one of B in shared memory
    warp    wm x wn                 32 threads that read neighbouring groups of 16 bytes
    thread  tm x tn                 p over bk by 1

Three options leave one idea out each:

    global_load, shared_load   bytes that a load takes at most: 16; 4 or 8: scalar loads; 32: CUDA's double4
    tile_a                     "transposed"; "rows": as in A, so that threads read one element at a time; "padded rows":
                               the same, an element longer, so that threads of a warp read other banks

``blocks``, if not 0, is how many blocks must fit on a multiprocessor, which bounds the registers of a thread. So rungs
without an idea differ by the idea, not by the blocks that their registers leave room for.

Source: CUTLASS, "Efficient GEMM in CUDA": threadblock, warp and thread tiles.
"""

from __future__ import annotations

from backends.gpu._base.warp_rung import WarpRung, widest_load
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.padding import width_of_loads
from backends.gpu._program.program import Product
from harness.plan import Plan

# Ways to keep a tile of A in shared memory: elements after each of its rows; None where it is transposed.
TILES_OF_A = {"transposed": None, "rows": 0, "padded rows": 1}
BLOCKS = tuple(range(9))  # that must fit; 0: no condition


class WarpTiled(WarpRung):
    """Warp tiles and 16-byte loads."""

    name = "gpu-warp-tiled"
    step = 50
    idea = "threads are placed by warps, and read 16 bytes at a time from global and from shared memory"
    source = "CUTLASS, Efficient GEMM in CUDA; lecture notes on GPU programming: vectorised loads"
    stem = "warp_tiled"

    def shared_by(self, plan: Plan) -> int:
        """Return the bytes of a tile of A and one of B; where A stays rows, with the padding of these."""
        launch, padding = plan.launch, self._padding(plan)
        if padding is None:
            return super().shared_by(plan)
        return (launch.bm * (launch.bk + padding) + launch.bk * launch.bn) * plan.problem.dtype.itemsize

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the tiles, and how wide loads may be."""
        launch, itemsize, padding = plan.launch, plan.problem.dtype.itemsize, self._padding(plan)
        most = widest_load(plan, "global_load")
        width_a, width_b = (width_of_loads(x, itemsize, most) for x in (product.a, product.b))
        while launch.bk % width_a or launch.bm * launch.bk // width_a % launch.threads:
            width_a //= 2
        while launch.bn * launch.bk // width_b % launch.threads:
            width_b //= 2
        others = {} if padding is None else {"ROWS_OF_A": 1, "PAD_A": padding}
        if blocks := plan.choice("blocks", BLOCKS):
            others["BLOCKS"] = int(blocks)
        return super().tile_defines(plan, product) + as_defines({"WIDTH_A": width_a, "WIDTH_B": width_b, **others})

    def _padding(self, plan: Plan) -> int | None:
        """Return the elements after each row of a tile of A, or None where it is transposed."""
        return TILES_OF_A[str(plan.choice("tile_a", tuple(TILES_OF_A)))]
