"""Numbers of the GPU kernels that stream a matrix once, gpu-symv and gpu-rank-update, each with its source.

Sizes are elements. One H200, 2026-11-22, unless a row says otherwise.
"""

from __future__ import annotations

from harness.problem import Problem

# gpu-symv: sides of a tile by bytes of an element, and rows of a warp. Microseconds, side x warps: float32 at 16384
# 128 x 16 132, 64 x 8 140, 128 x 8 196; float64 at 16384 32 x 4 282, 32 x 8 353, 64 x 8 379, at 4096 20.5 to 27.6.
SYMV_SIDE, SYMV_ROWS = {8: 32, 4: 128, 2: 128, 1: 128}, 8
# Below this n tiles are at most this wide, so that there are more: float32 at 4096 64 x 8 13.3, 128 x 16 14.8; at 1000
# 4.9 to 5.7.
SYMV_SMALL, SYMV_SMALL_SIDE = 5000, 64

# gpu-rank-update: steps of k whose rows of B fit the registers.
MOST_STEPS = 16
# Threads of a block that stand side by side, and rows of a thread in flight. GB/s of ger at 16384: float32 64 x 4 4196,
# 256 x 4 4195, 64 x 8 4195; float64 64 x 4 4122.
ACROSS, ROWS = 64, 4
# How often a thread takes so many rows, by bytes of an element. Once, four times: float32 4196, 4032 (ger) and 3992,
# 3865 (syr); float64 3932, 4122 and 3759, 3991.
TURNS = {8: 4, 4: 1, 2: 1, 1: 1}
# A D of fewer rows has one in a thread. Several runs side by side gain nothing: axpy 4352 with 1, 4251 with 4.
FEW_ROWS = 4
# Half of the rows from so many steps of k on, for lack of registers.
MANY_STEPS = 8
# Bytes and elements that a load takes at most: narrow ones take a register each.
WIDE, MOST_ELEMENTS = 16, 4


def symv_tiles(problem: Problem) -> dict[str, int]:
    """Return the side of a tile and the warps of a block of gpu-symv."""
    side = SYMV_SIDE[problem.dtype.itemsize]
    if problem.m < SYMV_SMALL:
        side = min(side, SYMV_SMALL_SIDE)
    return {"side": side, "warps": side // SYMV_ROWS}


def rank_update_tiles(problem: Problem) -> dict[str, int]:
    """Return threads side by side, rows in flight, turns and runs side by side of gpu-rank-update."""
    itemsize, k = problem.dtype.itemsize, problem.k
    m, n = (1, problem.m) if problem.n == 1 else (problem.m, problem.n)
    if m < FEW_ROWS:
        return {"across": 256, "rows": 1, "turns": 1, "runs": 1}
    across, run = 1, min(WIDE // itemsize, MOST_ELEMENTS)
    while across < ACROSS and across * run < n:
        across *= 2
    rows = ROWS if k <= MANY_STEPS else ROWS // 2
    turns = TURNS[itemsize] if k == 1 else TURNS[8]
    return {"across": across, "rows": rows, "turns": turns * ROWS // rows, "runs": 1}
