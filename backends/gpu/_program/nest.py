"""The loops of a launch: from the tiles of blocks and warps follows what is loaded from memory, L2 and shared memory.

    loop 5  i by group * bm  rows of tiles that blocks share in L2, if the rung walks through C in groups
    loop 4  j by bn, i by bm tile of a block
    loop 3  p over k by bk   tiles of A and B in shared memory, if the rung has them
    loop 2  p by 1           one step of all warps of a block
    loop 1  i by wm, j by wn tile of a warp: what its 32 threads load into registers for a step (p by 1)

Blocks and warps compute at the same time, and the loops say in which order they would one by one. So what blocks share
in L2 because they meet there is left out.
"""

from __future__ import annotations

from harness.interface import Nest
from harness.plan import WARP, Launch, Plan


def nest_of(plan: Plan) -> Nest | None:
    """Return the loops of a plan with a launch; None where the threads of a warp read no neighbours."""
    launch = plan.launch
    if launch is None or plan.options.get("access") == "uncoalesced":
        return None
    group, (wm, wn) = int(plan.options.get("group", 1)), warp_tile(launch)
    shared = [("p", launch.bk, "shared")] if launch.bk > 1 else []
    blocks = ("i", group * launch.bm), ("j", launch.bn), ("i", launch.bm)
    warps = ("p", 1), ("i", wm), ("j", wn)
    return Nest.of(*blocks, *shared, *warps, ("p", 1, "registers"), keeps_sums=True)


def warp_tile(launch: Launch) -> tuple[int, int]:
    """Return the tile of a warp; where threads are not grouped by warp, 32 of them that follow each other along n."""
    if launch.wm:
        return launch.wm, launch.wn
    across = min(launch.bn // launch.tn, WARP)
    return launch.tm * max(WARP // across, 1), launch.tn * across
