"""Row panels of A, a warp each, for a tall, narrow C by gpu-tuned: when, and by which panels.

Fitted to 84 products with 2,000 to 400,000 rows, 6 to 64 columns and 6 to 800 terms, each over plus_times float32,
min_plus int32 and max_min float64, by 12 kinds of panels (H100, 2026-11-26): those chosen take 1.03 (float32, int32)
and 1.06 (float64) of the time of the fastest. Of 56 drawn afterwards, 13 to 48 columns, tiles took 1.43 (int32) and
1.73 (float64) of their time, 0.94 at least. The rules for float32 were then fitted to 74 products on an H100, of which
tiles took 1.24 of the time, 0.96 at least, and to 40 on an H200, 1.14, 0.86 at least.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.plan import WARP, Launch
from harness.problem import Problem
from harness.tuning.gpu.thin_model import MULTIPROCESSORS

# Bytes that a copy takes at once, and of the elements that panels are for.
GRANULE_BYTES, SIZES = 16, (4, 8)
MOST_WARPS = 16

# C and k that panels are for. Where rows are few, tiles share k; where B leaves room for few warps, nothing hides
# waiting.
COLUMNS, FEWEST_ROWS, LONG, ROWS_OF_LONG, MOST_TERMS, FEWEST_WARPS = (13, 48), 2000, 150, 10_000, 700, 4
# Over float32, where a pair is one instruction, tiles are as fast or faster for few rows and for many columns, unless k
# is short, and where they have just the columns of C: 16 but for a long k, 32 but for a long C with a short k.
SOME_ROWS, MANY_COLUMNS, SHORT, SHORT_OF_MANY = 8000, 40, 32, 64
LONG_OF_16, ROWS_OF_32, SHORT_OF_32 = 300, 200_000, 60
# An odd k makes a thread load elements of A one by one. Then tiles are faster from so many steps on, by up to 1.4
# (H200), but for the columns of which they leave most empty.
ODD_UP_TO, EMPTY_COLUMNS = 128, range(18, 21)

# Threads along a row of C: four where they leave less of a panel empty.
LANES, FEW_LANES, FEW_LANES_FOR = 8, 4, range(17, 21)
# Rows of a panel by those of C; panels of 32 rows are for sums of float32 alone, and for so many warps at once.
LOW, LOW_UP_TO, MIDDLE, HIGH, HIGH_FROM, HIGH_WARPS = 8, 10_500, 16, 32, 26_000, 8
# Bytes of a row in a chunk, and stages, by rows of C.
WIDE_CHUNKS, WIDE_UP_TO, CHUNKS = (256, 3), 16_000, (128, 4)


class WarpPanels(NamedTuple):
    """The panels of a product.

    Attributes
    ----------
    launch : Launch
        A panel, `bm` x `bn`; its chunks of `bk` steps, `stages` of them; rows and columns of a thread.
    lanes : int
        Threads along a row of C.
    warps, most_warps : int
        Of a block, which has a multiprocessor for itself; those that there is room for.
    """

    launch: Launch
    lanes: int
    warps: int
    most_warps: int


def shared_bytes(launch: Launch, k: int, warps: int, itemsize: int) -> int:
    """Return the shared memory of a block: B, and the stages of its warps."""
    of_b = -(-k * launch.bn * itemsize // GRANULE_BYTES) * GRANULE_BYTES
    return of_b + warps * stage_bytes(launch, itemsize)


def stage_bytes(launch: Launch, itemsize: int) -> int:
    """Return the bytes of the stages of a warp."""
    return launch.stages * launch.bm * (launch.bk * itemsize + GRANULE_BYTES)


def choose(problem: Problem, most_bytes: int, *, is_fused: bool) -> WarpPanels | None:
    """Return the panels of a product, whose block takes `most_bytes` of shared memory at most; None: tiles suit it.

    `is_fused`: a pair is one instruction over float32.
    """
    m, n, k = problem.m, problem.n, problem.k
    fewest = FEWEST_ROWS if k <= LONG else ROWS_OF_LONG
    is_tall = COLUMNS[0] <= n <= COLUMNS[1] and m >= fewest and 0 < k <= MOST_TERMS
    is_other = problem.is_mixed or problem.triangle or problem.layout[0] == "F"
    if not is_tall or is_other or problem.dtype.itemsize not in SIZES:
        return None
    if is_fused and _suits_tiles(m, n, k):
        return None
    chunks = WIDE_CHUNKS if m < WIDE_UP_TO else CHUNKS
    preferred = (HIGH, MIDDLE) if is_fused and m >= HIGH_FROM else (MIDDLE,)
    for rows in (LOW,) if m < LOW_UP_TO else preferred:
        lanes = FEW_LANES if n in FEW_LANES_FOR and rows > LOW else LANES
        of = panels(problem, lanes, rows * lanes // WARP, chunks, most_bytes)
        if of is not None and of.most_warps >= FEWEST_WARPS and (rows < HIGH or of.warps >= HIGH_WARPS):
            return of
    return None


def _suits_tiles(m: int, n: int, k: int) -> bool:
    """Return whether tiles are as fast over float32."""
    if n in (15, 16):
        return k < LONG_OF_16
    if n in (31, 32):
        return m < ROWS_OF_32 or k > SHORT_OF_32
    if k % 2 and k > ODD_UP_TO and n not in EMPTY_COLUMNS:
        return True
    return (m < SOME_ROWS and k > SHORT) or (n > MANY_COLUMNS and k > SHORT_OF_MANY)


def panels(problem: Problem, lanes: int, rows: int, chunks: tuple[int, int], most_bytes: int) -> WarpPanels | None:
    """Return panels with so many rows of a thread; None: B leaves no room for them.

    A block has no more warps than finish their panels together: 2500 panels of 132 multiprocessors are two for each of
    10 warps. With 16 most would wait for a few.
    """
    (chunk_bytes, stages), itemsize, columns = chunks, problem.dtype.itemsize, -(-problem.n // lanes)
    launch = Launch(
        bm=WARP // lanes * rows, bn=lanes * columns, bk=chunk_bytes // itemsize, tm=rows, tn=columns, stages=stages
    )
    room = most_bytes - shared_bytes(launch, problem.k, 0, itemsize)
    most = min(MOST_WARPS, room // stage_bytes(launch, itemsize))
    if most < 1:
        return None
    of_multiprocessor = -(-problem.m // launch.bm) / MULTIPROCESSORS
    rounds = math.ceil(of_multiprocessor / most)
    return WarpPanels(launch, lanes, max(1, math.ceil(of_multiprocessor / rounds)), most)
