"""Numbers of the GPU kernels that stream a matrix once, gpu-symv and gpu-rank-update, each with its source.

Sizes are elements. One H200, 2026-11-22, unless a row says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.problem import Problem


class Strip(NamedTuple):
    """A strip of gpu-symv: columns of a tile, warps of a block, rows of a warp, tiles, threads of a multiprocessor."""

    side: int
    warps: int
    rows: int
    tiles: int
    resident: int


# Strips by bytes of an element: of rows that all begin at multiples of SECTOR bytes, and of others, each from an n on.
SECTOR = 32
_SMALL = Strip(64, 8, 8, 1, 1536)
SYMV = {
    8: (
        {12000: Strip(32, 8, 8, 4, 1280), 1500: Strip(32, 8, 8, 2, 1280), 0: Strip(32, 4, 8, 1, 1280)},
        {15000: Strip(128, 16, 8, 2, 512), 1500: Strip(64, 8, 8, 1, 1024), 0: Strip(32, 4, 8, 1, 1280)},
    ),
    4: ({15000: Strip(128, 16, 8, 2, 1024), 3500: Strip(128, 16, 8, 1, 1024), 0: _SMALL}, {0: _SMALL}),
}
# Of small elements, whose numbers were not measured.
SYMV_OTHERS = Strip(64, 8, 8, 1, 0)

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


def symv_strip(problem: Problem) -> Strip:
    """Return the numbers of a strip of gpu-symv."""
    n, itemsize = problem.m, problem.dtype.itemsize
    if itemsize not in SYMV:
        return SYMV_OTHERS
    by_size = SYMV[itemsize][n * itemsize % SECTOR != 0]
    return next(strip for least, strip in by_size.items() if n >= least)


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
