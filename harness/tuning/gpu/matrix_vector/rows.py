"""How gpu-mv-tuned takes a matrix that is contiguous along k, row by row."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from harness.tuning.device import Device
from harness.tuning.gpu.matrix_vector.costs import BLOCK, WIDEST, ceil_div, cost_s, shares_up_to

# Threads of a row: about eight loads each, but so many threads in all. T rows by Z threads, no sharing:
#   10^6 x 100    256x1 2627, 64x4 4200, 32x8 4176, 8x32 1965, 1x256 290
#   10^5 x 1000   2537, 4071, 4353, 4523, 2464          10^4 x 10^4   810, 3149, 4170, 4429, 4512
LOADS_OF_ROW, FEWEST_THREADS = 8, 512  # threads of a multiprocessor

# Rows of so many elements at least come by 16 bytes wherever they begin, by bytes of an element; others would read x in
# too many pieces.
SHIFTED_FROM = {8: 64, 4: 10_000}

# So many rows take a warp each at most: no barriers. A x of 10^6 x 1000: float32 by 32 threads 4660, float64 by 64
# threads 4069.
MANY_ROWS = 1024  # of a multiprocessor

# Rows of narrow loads shorter than this take a warp each at most.
LONG_NARROW_ROW = 4000

# Short rows without gaps go through shared memory in tiles from this size of the matrix on: up to so many elements, of
# which 4-byte ones and smaller leave `mv_rows` nothing to lose where a row is at least 256 bytes in whole granules.
# A x by mv_rows: float32 10^6 x 33 2158, 10^6 x 100 4401; float64 10^6 x 33 1930, 10^6 x 100 3825.
# Rows that need so many threads for want of banks are left to `mv_rows` too: by tiles float32 10^6 x 32 takes 32
# threads a row, and reads 1560 where 10^6 x 33 reads 3894.
MOST_SHORT, SHORT_FROM_BYTES, EASY_ROW_BYTES, MANY_THREADS = 128, 4e6, 256, 16

# KiB of a tile, while four blocks are left for each multiprocessor; and bytes of all banks of shared memory.
TILES, TILES_AT_LEAST, BANKS_BYTES = (8, 16, 32, 40), 4, 128  # TILES_AT_LEAST: of a multiprocessor

# Very long rows: four of a block at a time, by 64 threads each, read x once for all four, which L1 does not hold.
VERY_LONG_ROW, FEWEST_VERY_LONG, THREADS_OF_VERY_LONG = 250_000, 64, 64
LARGE_BYTES, BLOCKS_OF_LARGE, BLOCK_BYTES = 5e8, 128, 1 << 18  # blocks of a multiprocessor

# Rows of 8-byte elements. Those that begin anywhere take at most 64 threads, those shorter than MIDDLE_ROW 32, short
# ones with two loads. Others have two loads in flight if they are shorter than LONG_ROW, or many of up to 32 threads.
DOUBLE, LONG_ROW, LOADS_OF_SHORTER = 8, 16384, 2
SHORT_ROW, LOADS_OF_SHORT, MIDDLE_ROW, GROUP_OF_MIDDLE, GROUP_OF_SHIFTED = 2000, 2, 5000, 32, 64


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


@functools.lru_cache(maxsize=4096)
def rows_launch(
    count: int,
    k: int,
    itemsize: int,
    step: int,
    aligned: int,
    device: Device,
    *,
    group: int,
    loads: int,
    width: int,
    shares: int,
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
    device : Device
    group, loads, width, shares : int
        0: chosen here; any other number is taken.
    """
    each = device.multiprocessors
    widest = math.gcd(WIDEST // itemsize, k or WIDEST, step if count > 1 else WIDEST, max(aligned // itemsize, 1))
    full = WIDEST // itemsize
    is_shifted = widest < full and k >= SHIFTED_FROM.get(itemsize, k + 1) and width != 1 and not 0 < group < full - 1
    width = full if is_shifted else min(width or widest, widest)
    is_very_long = k >= VERY_LONG_ROW and count >= FEWEST_VERY_LONG and width * itemsize == WIDEST
    if not group:
        group = 1
        while group < BLOCK and (
            group * LOADS_OF_ROW * width < k or (count * group < FEWEST_THREADS * each and group * 2 * width <= k)
        ):
            group *= 2
        if count >= MANY_ROWS * each or (width * itemsize < WIDEST and k < LONG_NARROW_ROW):
            group = min(group, 32)
        if is_shifted and itemsize == DOUBLE:
            group = min(group, GROUP_OF_MIDDLE if k < MIDDLE_ROW else GROUP_OF_SHIFTED)
        if is_very_long:
            group = min(group, THREADS_OF_VERY_LONG)
    is_shorter = (
        itemsize == DOUBLE and not is_shifted and k < LONG_ROW and (group == BLOCK or count >= MANY_ROWS * each)
    )
    is_short = is_shifted and itemsize == DOUBLE and k < SHORT_ROW
    of_double = LOADS_OF_SHORTER if is_shorter else LOADS_OF_SHORT if is_short else 0
    loads = loads or of_double or (4 if width * itemsize == WIDEST else 8)
    blocks, step_of_group, size = ceil_div(count, BLOCK // group), group * width, count * k * itemsize
    most = max(1, ceil_div(k, step_of_group * loads))
    shares = min(shares, max(1, ceil_div(k, step_of_group)))
    if not shares:
        flight = BLOCK * loads * width * itemsize
        shares = min(shares_up_to(most), key=lambda s: cost_s(size, blocks, s, flight, BLOCK // group, device))
        if size > LARGE_BYTES and is_very_long:
            shares = max(shares, min(most, BLOCKS_OF_LARGE * each // blocks, size // (blocks * BLOCK_BYTES)))
    depth = max(1, ceil_div(ceil_div(k, shares), step_of_group)) * step_of_group
    return RowsLaunch(group, width, loads, max(1, ceil_div(k, depth)), depth, is_shifted)


@functools.lru_cache(maxsize=4096)
def short_rows_launch(
    count: int, k: int, itemsize: int, step: int, device: Device, *, tile: int
) -> ShortRowsLaunch | None:
    """Choose how to take short rows that have no gaps between them; None: they are none, or others do as well.

    Parameters
    ----------
    count, k, itemsize, step : int
        As in `rows_launch`.
    device : Device
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
    fitting = [kib for kib in TILES if size >= TILES_AT_LEAST * device.multiprocessors * kib << 10] or TILES[:1]
    found = (_tile_of(kib, k, itemsize) for kib in ((tile,) if tile else fitting))
    return min(found, key=lambda launch: (launch.group, -launch.rows))


def _tile_of(kib: int, k: int, itemsize: int) -> ShortRowsLaunch:
    """Return what `kib` KiB hold, by as few threads of a row as meet a bank each, or as keep all threads busy."""
    room = (kib << 10) // (k * itemsize)  # rows
    group = math.gcd(k, BANKS_BYTES // max(itemsize, 4))
    while BLOCK // group > room:
        group *= 2
    return ShortRowsLaunch(group, kib, room // (BLOCK // group) * (BLOCK // group))
