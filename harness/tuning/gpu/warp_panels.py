"""Row panels of A, a warp each, for a tall, narrow C by gpu-tuned: when, and by which panels."""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.plan import WARP, Launch
from harness.problem import Problem
from harness.tuning.device import Device

# Bytes that a copy takes at once, and of the elements that panels are for.
GRANULE_BYTES, SIZES = 16, (4, 8)
MOST_WARPS = 16

# C and k that panels are for. Where rows are few, tiles share k; where B leaves room for few warps, nothing hides
# waiting.
COLUMNS, FEWEST_ROWS, MOST_TERMS, FEWEST_WARPS = (13, 48), 2000, 700, 4
ROWS_OF_LONG = {True: 10_000, False: 6000}  # by whether a pair is one instruction over float32
# Over float32, where a pair is one instruction, tiles are as fast or faster for few rows and for many columns, unless k
# is short; and where they have just the columns of C: 32 but for a long C with a short k.
SOME_ROWS, MANY_COLUMNS, SHORT, SHORT_OF_MANY = 8000, 40, 32, 64
ROWS_OF_32, SHORT_OF_32 = 200_000, 60
# From so many steps on k is long. Then tiles are faster over float32 from so many columns on, if k is odd and a thread
# loads elements of A one by one, or if eight lanes leave much of a panel empty.
LONG_K, COLUMNS_OF_TILES = 128, (21, 25)

# Threads along a row of C. Four lanes suffice for few columns, by the bytes of an element, and over elements of 8 bytes
# where they leave less of a panel empty.
LANES, FEW_LANES, FEW_LANES_UP_TO = 8, 4, {4: 20, 8: 24}
# Rows of a panel by those of C; panels of 32 rows are for elements of 4 bytes, and for so many warps at once.
LOW, LOW_UP_TO, MIDDLE, HIGH, HIGH_FROM, HIGH_WARPS = 8, 10_500, 16, 32, 26_000, 8
# Bytes of a row in a chunk, and stages: of a C with few rows, of a long k with elements of 4 bytes, of others.
OF_FEW_ROWS, FEW_ROWS, OF_LONG_K, CHUNKS = (256, 3), 16_000, (256, 2), (128, 4)


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


def choose(problem: Problem, device: Device, *, is_fused: bool) -> WarpPanels | None:
    """Return the panels of a product; None: tiles suit it.

    `is_fused`: a pair is one instruction over float32.
    """
    m, n, k = problem.m, problem.n, problem.k
    fewest = FEWEST_ROWS if k < LONG_K else ROWS_OF_LONG[is_fused]
    is_tall = COLUMNS[0] <= n <= COLUMNS[1] and m >= fewest and 0 < k <= MOST_TERMS
    is_other = problem.is_mixed or problem.triangle or problem.layout[0] == "F"
    if not is_tall or is_other or problem.dtype.itemsize not in SIZES:
        return None
    if is_fused and _suits_tiles(m, n, k):
        return None
    itemsize, is_long = problem.dtype.itemsize, k >= LONG_K
    for rows in (LOW,) if m < LOW_UP_TO else (HIGH, MIDDLE):
        lanes = FEW_LANES if rows > LOW and _suits_few_lanes(n, itemsize) else LANES
        suits_high = is_fused or is_long if lanes == FEW_LANES else is_fused and not is_long
        if rows == HIGH and not (suits_high and m >= HIGH_FROM and itemsize == min(SIZES)):
            continue
        of = panels(problem, lanes, rows * lanes // WARP, _chunks(problem), device)
        if of is not None and of.most_warps >= FEWEST_WARPS and (rows < HIGH or of.warps >= HIGH_WARPS):
            return of
    return None


def _suits_tiles(m: int, n: int, k: int) -> bool:
    """Return whether tiles are as fast over float32."""
    if n in (31, 32):
        return m < ROWS_OF_32 or k > SHORT_OF_32
    if k >= LONG_K and m >= SOME_ROWS:
        of_odd, of_empty = COLUMNS_OF_TILES
        return (n >= of_odd and k % 2 == 1) or (n >= of_empty and _leaves_less(n))
    return (m < SOME_ROWS and k > SHORT) or (n > MANY_COLUMNS and k > SHORT_OF_MANY)


def _leaves_less(n: int) -> bool:
    """Return whether few lanes leave less of a panel empty."""
    return -n % FEW_LANES < -n % LANES


def _suits_few_lanes(n: int, itemsize: int) -> bool:
    return n <= FEW_LANES_UP_TO[itemsize] or (itemsize == max(SIZES) and _leaves_less(n))


def _chunks(problem: Problem) -> tuple[int, int]:
    """Return the bytes of a row in a chunk, and stages."""
    if problem.m < FEW_ROWS:
        return OF_FEW_ROWS
    return OF_LONG_K if problem.k >= LONG_K and problem.dtype.itemsize == min(SIZES) else CHUNKS


def panels(problem: Problem, lanes: int, rows: int, chunks: tuple[int, int], device: Device) -> WarpPanels | None:
    """Return panels with so many rows of a thread; None: B leaves no room for them.

    A block has no more warps than finish their panels together: with more, most would wait for a few.
    """
    (chunk_bytes, stages), itemsize, columns = chunks, problem.dtype.itemsize, -(-problem.n // lanes)
    launch = Launch(
        bm=WARP // lanes * rows, bn=lanes * columns, bk=chunk_bytes // itemsize, tm=rows, tn=columns, stages=stages
    )
    room = device.shared_memory - shared_bytes(launch, problem.k, 0, itemsize)
    most = min(MOST_WARPS, room // stage_bytes(launch, itemsize))
    if most < 1:
        return None
    of_multiprocessor = -(-problem.m // launch.bm) / device.multiprocessors
    rounds = math.ceil(of_multiprocessor / most)
    return WarpPanels(launch, lanes, max(1, math.ceil(of_multiprocessor / rounds)), most)
