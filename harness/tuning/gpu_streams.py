"""Numbers of the GPU kernels that stream a matrix once, gpu-symv and gpu-rank-update, each with its source.

Sizes are elements. One H200, 2026-11-22, unless a row says otherwise.
"""

from __future__ import annotations

from harness.problem import Problem

# gpu-symv: elements of a row of a tile that a lane holds, by bytes of an element (16 bytes are one load), and the warps
# of a block. Float32 at 16384: 16 warps of 8 rows 137 us, 8 warps of 16 rows 190 (the prototype).
SYMV_LANE, SYMV_WARPS = {8: 2, 4: 4, 2: 4, 1: 4}, {8: 8, 4: 16, 2: 16, 1: 16}
# Below this n tiles are half as wide, so that there are four times as many.
SYMV_SMALL = 2048

# gpu-rank-update: steps of k whose rows of B fit the registers.
MOST_STEPS = 16
# Threads of a block that stand side by side; rows of a thread in flight, and how often.
ACROSS, ROWS, TURNS = 64, 4, 4
# Half of the rows from so many steps of k on, for lack of registers.
MANY_STEPS = 8
# Elements that a load takes at most: narrow ones take a register each.
MOST_ELEMENTS = 4
# Of a D of few rows: rows, and runs of 16 bytes side by side instead of rows; only up to so many steps of k.
FEW_ROWS, RUNS, RUNS_STEPS = 4, 4, 4


def symv_tiles(problem: Problem) -> dict[str, int]:
    """Return the side of a tile and the warps of a block of gpu-symv."""
    itemsize = problem.dtype.itemsize
    side, warps = 32 * SYMV_LANE[itemsize], SYMV_WARPS[itemsize]
    return {"side": side // 2, "warps": warps // 2} if problem.m < SYMV_SMALL else {"side": side, "warps": warps}


def rank_update_tiles(m: int, n: int, k: int, run: int) -> dict[str, int]:
    """Return threads side by side, rows in flight, turns and runs side by side of gpu-rank-update.

    Parameters
    ----------
    m, n, k : int
        Of D as rows.
    run : int
        Elements that one load takes.
    """
    if m < FEW_ROWS:
        return {"across": 256, "rows": 1, "turns": 1, "runs": RUNS if k <= RUNS_STEPS else 1}
    across = 1
    while across < ACROSS and across * run < n:
        across *= 2
    rows = ROWS if k <= MANY_STEPS else ROWS // 2
    return {"across": across, "rows": rows, "turns": TURNS * ROWS // rows, "runs": 1}
