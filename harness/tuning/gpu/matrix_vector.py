"""Numbers of matrix-vector products on a GPU: threads of a row, loads in flight, and blocks that share.

A product reads its matrix once, so all rules are about one thing: enough bytes in flight, evenly over the
multiprocessors, and no launch or exchange more than that takes. Measured on one H200 of 2026-11-22 (CuPy 14.2), GB/s of
the matrix, launches chained in a graph, matrices from memory. The read-only ceiling was 4598 GB/s.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

# Threads of a block of the tuned kernels, and bytes that one load of a thread takes at most.
BLOCK, WIDEST = 256, 16

# Multiprocessors of an H200, and what it reads a second.
MULTIPROCESSORS, BYTES_A_SECOND = 132, 4.57e12

# Bytes in flight that memory needs: with b of them a product takes (1 + (in_flight / b)^6)^(1/6) as long as at best. A
# block with 32 KiB in flight brings 39 GB/s, one with 64 KiB 54: what is beyond full_flight counts as its square root.
#   x A of 8191^2   130 blocks of 32 KiB 69.7 us, 195 65.5, 264 65.7    10000 x 1000   32 blocks 32.2, 64 20.8, 128 15.2
SHARPNESS = 6

# More blocks than a turn of them cost `turn` of the time for each turn, up to three; a block 0.5 us while others wait.
#   x A of 10000^2   237 blocks 94.8 us, 316 98.2, 474 103.1, 632 99.2      8191^2   264 65.7, 396 67.5, 528 71.1
TURN, MOST_TURNS, QUEUED, BLOCK_S = 2 * MULTIPROCESSORS, 3, 3 * MULTIPROCESSORS, 0.5e-6


class Costs(NamedTuple):
    """What the loads of blocks cost.

    Attributes
    ----------
    in_flight, full_flight : float
        Bytes: of all blocks, and of one.
    turn : float
        Share of the time that a further turn of blocks costs.
    uneven : float
        Share of the time by which blocks that leave some multiprocessors one more than others take longer, if they have
        `full_flight` bytes in flight; proportionally less with fewer.
    """

    in_flight: float
    full_flight: float
    turn: float
    uneven: float


# Rows, and columns of matrices that the last cache holds; then columns of others, fitted to 4000 launches over 28
# matrices. There the choices take up to 1.04 times as long as the best launch, 1.01 in the mean; by the numbers of
# CACHED 1.16 and 1.03. float64 2000 x 20000 85.6 to 73.9 us, float32 12001^2 144.7 to 132.7 (H200, 2026-11-24).
CACHED, FROM_MEMORY = Costs(4.1e6, 32 << 10, 0.03, 0.0), Costs(2.9e6, 44 << 10, 0.05, 0.1)

# Time of sharing: parts to scratch, a ticket, the last block's loads; and of each part. x A of 1000^2 by 8, 16 loads:
# 4.7 us without, 5.3 in two shares; 2000^2 7.9 and 8.5; 4096^2 18.2 and 19.4, though blocks were few.
SHARE_S, PART_S = 2e-6, 0.2e-9

# Threads of a row: about eight loads each, but so many threads in all. T rows by Z threads, no sharing:
#   10^6 x 100    256x1 2627, 64x4 4200, 32x8 4176, 8x32 1965, 1x256 290
#   10^5 x 1000   2537, 4071, 4353, 4523, 2464          10^4 x 10^4   810, 3149, 4170, 4429, 4512
LOADS_OF_ROW, FEWEST_THREADS = 8, MULTIPROCESSORS * 512

# Numbers of shares that are thought of.
SHARES = (
    *range(1, 13),
    14,
    16,
    20,
    24,
    28,
    32,
    40,
    48,
    64,
    80,
    96,
    112,
    128,
    144,
    160,
    192,
    224,
    256,
    264,
    320,
    384,
    512,
)

# Rows of so many elements at least come by 16 bytes wherever they begin, by bytes of an element; others would read x
# in too many pieces. A x of float64 by 8 bytes: 10001^2 3945, a window of 8000^2 3686, 8192^2 by 16 bytes 4579.
# float32, by 4 to by 16 bytes in us: 12001^2 134.1 to 132.4, 8193 x 16387 124.5 to 122.7, 300 x 300001 109.9 to 87.3;
# 8191^2 63.0 to 63.9, 100001 x 999 93.1 to 94.7 (H200, 2026-11-24).
SHIFTED_FROM = {8: 64, 4: 10_000}

# So many rows take a warp each at most: no barriers. A x of 10^6 x 1000: float32 by 32 threads 4660, float64 by 64
# threads 4069.
MANY_ROWS = 1024 * MULTIPROCESSORS

# Rows of narrow loads shorter than this take a warp each at most.
LONG_NARROW_ROW = 4000

# Short rows without gaps go through shared memory in tiles from this size of the matrix on: up to so many elements, of
# which 4-byte ones and smaller leave `mv_rows` nothing to lose where a row is at least 256 bytes in whole granules.
# A x by mv_rows: float32 10^6 x 33 2158, 10^6 x 100 4401; float64 10^6 x 33 1930, 10^6 x 100 3825.
# Rows that need so many threads for want of banks are left to `mv_rows` too: by tiles float32 10^6 x 32 takes 32
# threads a row, and reads 1560 where 10^6 x 33 reads 3894.
MOST_SHORT, SHORT_FROM_BYTES, EASY_ROW_BYTES, MANY_THREADS = 128, 4e6, 256, 16

# KiB of a tile, while four blocks are left for each multiprocessor; and bytes of all banks of shared memory.
TILES, TILES_AT_LEAST, BANKS_BYTES = (8, 16, 32, 40), 4 * MULTIPROCESSORS, 128

# Very long rows: four of a block at a time, by 64 threads each, read x once for all four, which L1 does not hold. In
# large matrices so many blocks even out what the last ones leave idle, each of so many bytes at least. us by a row a
# block to this: float32 200 x 10^6 191.7 to 181.1, 1000 x 10^6 928 to 871; float64 300 x 300000 190.5 to 162.7,
# 1000 x 10^6 1786 to 1738. Shorter rows lose, float32 1000 x 100000 0.986 of the speed (H200, 2026-11-24).
VERY_LONG_ROW, FEWEST_VERY_LONG, THREADS_OF_VERY_LONG = 250_000, 64, 64
LARGE_BYTES, BLOCKS_OF_LARGE, BLOCK_BYTES = 5e8, 128 * MULTIPROCESSORS, 1 << 18

# Columns: granules of 16 bytes side by side, and what reading so narrow or wide a window costs: of all matrices, and of
# large ones whose lines do not begin with a cache line. 8191^2 by 8, 16, 32, 64 at the best number of shares: 76.2,
# 70.1, 65.5, 66.4 us; 4096^2: 18.2, 19.2, 20.2, 20.9. Rows of up to WHOLE_ROW granules are taken whole, in
# matrices from WHOLE_BYTES on. By 4: 1000^2 in float64 5.24, by 8 5.92; not so
# for smaller elements, whose window has more columns.
BESIDE = {
    4: (1.06, 1.3),
    8: (1.03, 1.2),
    16: (1.01, 1.07),
    32: (1.0, 1.0),
    64: (1.01, 1.01),
    128: (1.02, 1.02),
    256: (1.03, 1.03),
}
# Further ones of matrices that the last cache does not hold.
BESIDE_FROM_MEMORY = {24: (1.0, 1.03), 48: (1.0, 1.02)}
FEWEST_BESIDE, FEWEST_OTHERWISE = {8: 4}, 8
CACHE_LINE, WHOLE_ROW, WHOLE_BYTES, CACHED_BYTES = 128, 64, 1e6, 5e7

# Loads of a thread in flight. x A of 1000^2, 2000^2, 4096^2 by 8 without sharing: 16 loads 4.7, 7.9, 18.2 us, 8 loads
# 5.6, 9.4, 20.1; of 8191^2, where blocks are enough, 81.8 and 77.8. float64: 8 loads take least at most sizes, from
# memory 12 at some, 16 up to twice as long. Elements of other sizes leave registers for 12.
#
# A thread takes so long for each line that it reads one after the other [s]: x A of 100^2 in float64, by 8 threads side
# by side 2.19 us (4 lines), by 16 2.29 (7), by 32 2.79 (13), by 50 3.33 (20).
LOADS_OF_COLUMNS, LOADS_OTHERWISE, LINE_S = {4: (8, 16), 8: (8,)}, (8, 12), 6e-8
LOADS_FROM_MEMORY = LOADS_OF_COLUMNS | {8: (8, 12)}

# Rows of up to WHOLE_ROW_OF_LARGE granules are taken whole in matrices from LARGE_COLUMNS bytes on. Blocks that leave
# some multiprocessors with one more than the others take UNEVEN longer then. x A in us, by windows of part of a row, or
# unevenly, to this: float64 10^6 x 200 416 to 371, 10^6 x 130 277 to 253; float32 10^6 x 200 202 to 186, 500000 x 300
# 161 to 146, 2 10^6 x 100 200 to 187. Of wider matrices the same gained and lost. 12 loads of float64 in flight lost
# 0.4 to 4 % there (H200, 2026-11-23).
LARGE_COLUMNS, WHOLE_ROW_OF_LARGE, UNEVEN = 2e8, 128, 0.17

# The rungs below: threads of a block; T by Z of gpu-mv-grid, and rows of a thread (lecture: 32 rows by 8 threads).
THREADS = 256
TALL, DEEP, ROWS_OF_THREAD = 32, 8, 1
ROWS_OF_SCATTER = 64


# Rows of 8-byte elements. Those that begin anywhere take at most SHIFTED_GROUP threads, short ones fewer and two loads:
# 100001 x 999 228.5 to 192.5 us (H200, 2026-11-24). Others have two loads in flight if they are shorter than LONG_ROW.
# Over cuBLAS's gemv, this to four loads of 256 threads: 10001^2 1.02 to 0.97, 20000 x 3001 1.07 to 0.93, 8000^2 1.11 to
# 1.07, 10000^2 1.05 to 1.00, 3000^2 1.09 to 1.02; 16384^2 1.01 to 1.02, so four stay (H200, 2026-11-22). So do many
# rows of up to 32 threads: 10^6 x 200 by two loads 4495, by four 3845; 10^6 x 300 4585, 3845 (H200, 2026-11-23).
DOUBLE, SHIFTED_GROUP, LONG_ROW, LOADS_OF_SHORTER = 8, 64, 16384, 2
SHORT_SHIFTED_ROW, SHORT_SHIFTED = 2000, (32, 2)


class RowsLaunch(NamedTuple):
    """How rows are taken.

    Attributes
    ----------
    group : int
        Threads of a row, a power of two.
    width, loads : int
        Elements of one load, and loads in flight.
    shares, depth : int
        Blocks that share a row, and elements of each share.
    is_shifted : bool
        Whether rows begin or end inside of a load.
    """

    group: int
    width: int
    loads: int
    shares: int
    depth: int
    is_shifted: bool = False


class ShortRowsLaunch(NamedTuple):
    """How short rows are taken.

    Attributes
    ----------
    group : int
        Threads of a row, a power of two.
    kib : int
        KiB of shared memory for a tile.
    rows : int
        Rows of a tile.
    """

    group: int
    kib: int
    rows: int


class ColumnsLaunch(NamedTuple):
    """How columns are taken.

    Attributes
    ----------
    window : int
        Columns of a block.
    slots, lines : int
        Threads side by side, and lines of them.
    width, loads : int
        As in `RowsLaunch`; always 16 bytes.
    shares, depth : int
        Blocks that share a window, and lines of the matrix in each share.
    """

    window: int
    slots: int
    lines: int
    width: int
    loads: int
    shares: int
    depth: int


@functools.lru_cache(maxsize=4096)
def rows_launch(
    count: int, k: int, itemsize: int, step: int, aligned: int, *, group: int, loads: int, width: int, shares: int
) -> RowsLaunch:
    """Choose how to take the rows of a matrix.

    Parameters
    ----------
    count, k : int
        Rows, and elements of a row.
    itemsize : int
        Bytes of an element.
    step : int
        Distance of rows, in elements.
    aligned : int
        Bytes that the address of the matrix is a multiple of.
    group, loads, width, shares : int
        0: chosen here; any other number is taken.
    """
    widest = math.gcd(WIDEST // itemsize, k or WIDEST, step if count > 1 else WIDEST, max(aligned // itemsize, 1))
    full = WIDEST // itemsize
    is_shifted = widest < full and k >= SHIFTED_FROM.get(itemsize, k + 1) and width != 1 and not 0 < group < full - 1
    width = full if is_shifted else min(width or widest, widest)
    is_very_long = k >= VERY_LONG_ROW and count >= FEWEST_VERY_LONG and width * itemsize == WIDEST
    if not group:
        group = 1
        while group < BLOCK and (
            group * LOADS_OF_ROW * width < k or (count * group < FEWEST_THREADS and group * 2 * width <= k)
        ):
            group *= 2
        if count >= MANY_ROWS or (width * itemsize < WIDEST and k < LONG_NARROW_ROW):
            group = min(group, 32)
        if is_shifted and itemsize == DOUBLE:
            group = min(group, SHORT_SHIFTED[0] if k < SHORT_SHIFTED_ROW else SHIFTED_GROUP)
        if is_very_long:
            group = min(group, THREADS_OF_VERY_LONG)
    is_shorter = itemsize == DOUBLE and not is_shifted and k < LONG_ROW and (group == BLOCK or count >= MANY_ROWS)
    is_short = is_shifted and itemsize == DOUBLE and k < SHORT_SHIFTED_ROW
    of_double = LOADS_OF_SHORTER if is_shorter else SHORT_SHIFTED[1] if is_short else 0
    loads = loads or of_double or (4 if width * itemsize == WIDEST else 8)
    blocks, step_of_group, size = ceil_div(count, BLOCK // group), group * width, count * k * itemsize
    most = max(1, ceil_div(k, step_of_group * loads))
    shares = min(shares, max(1, ceil_div(k, step_of_group)))
    if not shares:
        flight = BLOCK * loads * width * itemsize
        shares = min(_shares(most), key=lambda s: cost_s(size, blocks, s, flight, BLOCK // group))
        if size > LARGE_BYTES and is_very_long:
            shares = max(shares, min(most, BLOCKS_OF_LARGE // blocks, size // (blocks * BLOCK_BYTES)))
    depth = max(1, ceil_div(ceil_div(k, shares), step_of_group)) * step_of_group
    return RowsLaunch(group, width, loads, max(1, ceil_div(k, depth)), depth, is_shifted)


@functools.lru_cache(maxsize=4096)
def short_rows_launch(count: int, k: int, itemsize: int, step: int, *, tile: int) -> ShortRowsLaunch | None:
    """Choose how to take short rows that have no gaps between them; None: they are none, or others do as well.

    Parameters
    ----------
    count, k, itemsize, step : int
        As in `rows_launch`.
    tile : int
        KiB of a tile; 0: chosen here, and only where it takes less time.
    """
    size = count * k * itemsize
    if not 0 < k <= MOST_SHORT or step != k:
        return None
    is_easy = itemsize < 8 and k * itemsize % WIDEST == 0 and k * itemsize >= EASY_ROW_BYTES
    is_easy |= math.gcd(k, BANKS_BYTES // max(itemsize, 4)) >= MANY_THREADS
    if not tile and (size < SHORT_FROM_BYTES or is_easy):
        return None
    fitting = [kib for kib in TILES if size >= TILES_AT_LEAST * kib << 10] or TILES[:1]
    found = (_tile_of(kib, k, itemsize) for kib in ((tile,) if tile else fitting))
    return min(found, key=lambda launch: (launch.group, -launch.rows))


def _tile_of(kib: int, k: int, itemsize: int) -> ShortRowsLaunch:
    """Return what `kib` KiB hold, by as few threads of a row as meet a bank each, or as keep all threads busy."""
    room = (kib << 10) // (k * itemsize)  # rows
    group = math.gcd(k, BANKS_BYTES // max(itemsize, 4))
    while BLOCK // group > room:
        group *= 2
    return ShortRowsLaunch(group, kib, room // (BLOCK // group) * (BLOCK // group))


@functools.lru_cache(maxsize=4096)
def columns_launch(
    count: int, k: int, itemsize: int, step: int, aligned: int, *, beside: int, loads: int, shares: int
) -> ColumnsLaunch:
    """Choose how to take the columns of a matrix whose columns lie side by side.

    Parameters
    ----------
    count, k : int
        Columns, and lines of the matrix.
    itemsize, step, aligned : int
        As in `rows_launch`; `step` is the distance of lines.
    beside, loads, shares : int
        Threads side by side, loads in flight, blocks that share a window; 0: chosen here.
    """
    width, size = WIDEST // itemsize, count * k * itemsize
    period = width // math.gcd(width, step) if k > 1 else 1  # lines that begin at different distances from a granule
    granules = math.gcd(width, step if k > 1 else width, max(aligned // itemsize, 1))
    is_cached = size < CACHED_BYTES
    is_at_ease = is_cached or (step * itemsize % CACHE_LINE == 0 and aligned == WIDEST)
    whole = ceil_div(count + width - 1, width)
    found: list[tuple[float, ColumnsLaunch]] = []
    penalties = BESIDE if is_cached else BESIDE | BESIDE_FROM_MEMORY
    costs = CACHED if is_cached else FROM_MEMORY
    fewest, is_large = FEWEST_BESIDE.get(itemsize, FEWEST_OTHERWISE), size >= LARGE_COLUMNS
    whole_row = WHOLE_ROW_OF_LARGE if is_large else WHOLE_ROW
    of_size = LOADS_OF_COLUMNS if is_cached or whole <= whole_row else LOADS_FROM_MEMORY
    for side, depth_of_loads in itertools.product(
        (beside,) if beside else [x for x in penalties if x >= fewest],
        (loads,) if loads else of_size.get(itemsize, LOADS_OTHERWISE),
    ):
        penalty = penalties.get(side, (1.0, 1.0))[0 if is_at_ease else 1] if whole > side else 1.0
        slots = whole if side < whole <= whole_row and size > WHOLE_BYTES and not beside else side
        window, slots, lines = _windows(count, k, width, granules, period, slots)
        most = ceil_div(k, lines * (1 if shares else depth_of_loads))
        for share in _shares(most) if not shares else [max(1, min(shares, most))]:
            flight = min(lines * depth_of_loads, max(1, k // share)) * slots * WIDEST
            depth = max(1, ceil_div(ceil_div(k, share), lines)) * lines
            cost = penalty * cost_s(size, ceil_div(count, window), share, flight, window, costs)
            cost *= _uneven(share, UNEVEN) if is_large and window >= count else 1.0
            cost = max(cost, LINE_S * depth / lines)
            found.append((cost, ColumnsLaunch(window, slots, lines, width, depth_of_loads, share, depth)))
    _, best = min(found)
    return best._replace(shares=max(1, ceil_div(k, best.depth)))


def _shares(most: int) -> list[int]:
    return [shares for shares in SHARES if shares <= max(1, most)]


def _uneven(blocks: int, share: float) -> float:
    """Return how much longer so many blocks take than ones that all multiprocessors have equally many of."""
    return 1 + share * (ceil_div(blocks, MULTIPROCESSORS) * MULTIPROCESSORS / blocks - 1)


def _windows(count: int, k: int, width: int, granules: int, period: int, slots: int) -> tuple[int, int, int]:
    """Return the columns of a block, the threads side by side that they take, and how many lines of these there are.

    Parameters
    ----------
    count, k : int
    width : int
        Elements of a granule.
    granules : int
        Every line begins at a multiple of so many elements from a granule.
    period : int
        The lines of a block must be a multiple of it.
    slots : int
        Threads side by side, at most.
    """
    slots = min(slots, BLOCK // period)
    room = slots * width - (width - granules)  # columns that so many granules hold wherever a line begins
    blocks = ceil_div(count, room)
    window = ceil_div(ceil_div(count, blocks), granules) * granules
    slots = ceil_div(window + width - granules, width)
    return window, slots, min(BLOCK // slots // period, ceil_div(max(k, 1), period)) * period


def cost_s(size: int, blocks: int, shares: int, flight: int, sums: int, costs: Costs = CACHED) -> float:
    """Return the time that a product takes beyond a launch [s], by the numbers above.

    Parameters
    ----------
    size : int
        Bytes of the matrix.
    blocks, shares : int
        Groups of blocks, and blocks of each, which share sums.
    flight : int
        Bytes that a block has in flight.
    sums : int
        Elements of y of a group.
    costs : Costs
    """
    total = blocks * shares
    effective = min(flight, costs.full_flight) * math.sqrt(max(1.0, flight / costs.full_flight))
    starved = math.pow(1 + math.pow(costs.in_flight / (total * effective), SHARPNESS), 1 / SHARPNESS)
    turns = 1 + costs.turn * min(ceil_div(total, TURN) - 1, MOST_TURNS)
    uneven = _uneven(total, costs.uneven * flight / costs.full_flight)
    queued = BLOCK_S * max(0, total - QUEUED) / QUEUED
    shared = SHARE_S + PART_S * shares * sums if shares > 1 else 0.0
    return size / BYTES_A_SECOND * starved * turns * uneven + queued + shared


def ceil_div(x: int, y: int) -> int:
    """Return how many pieces of `y` cover `x`."""
    return -(-x // y)
