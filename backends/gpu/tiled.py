"""Square tiles in shared memory: each element that a block loads is used by a whole row or column of its threads.

    grid    tiles of C, T x T      a block of T * T threads each
    loop    p0 over k by T         tiles of A and B in shared memory: T times fewer loads from global memory
    thread  one element            p over T by 1: two loads from shared memory a pair; a loop if ``unroll=0``

Source: CUDA C++ Programming Guide, "Shared Memory"; lecture notes on GPU programming: TILE_WIDTH.
"""

from __future__ import annotations

from backends.gpu._base.tiled_rung import TiledRung
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.program import Product
from harness.errors import PlanError
from harness.plan import Launch, Plan


class Tiled(TiledRung):
    """Square tiles in shared memory."""

    name = "gpu-tiled"
    step = 30
    idea = "a block loads tiles of A and B into shared memory, and uses each element once for every thread of a side"
    source = "CUDA C++ Programming Guide: shared memory; lecture notes on GPU programming: TILE_WIDTH"
    stem = "tiled"

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles; raise PlanError unless they are square."""
        launch = super().prepare_launch(plan)
        if not launch.bm == launch.bn == launch.bk or launch.tm * launch.tn > 1:
            raise PlanError(
                f"{self.name}: the tiles are not square", expected="bm == bn == bk, tm == tn == 1", got=str(launch)
            )
        return launch

    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the bytes of two tiles."""
        return 2 * launch.bm * launch.bk * itemsize

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the side of a tile, and whether its steps stay a loop."""
        loop = {} if plan.choice("unroll", (0, 1)) else {"UNROLL": 0}
        return as_defines({"TILE": plan.launch.bm, **loop})
