"""Numbers of matrix-vector products on a GPU: threads of a row, loads in flight, and blocks that share.

A product reads its matrix once, so all rules are about one thing: enough bytes in flight, evenly over the
multiprocessors, and no launch or exchange more than that takes. Measured on one H200 of 2026-11-22 (CuPy 14.2), GB/s of
the matrix, launches chained in a graph, matrices from memory. The read-only ceiling was 4598 GB/s.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

# Threads of a block of the tuned kernels, and bytes that one load of a thread takes at most.
BLOCK, WIDEST = 256, 16

# Multiprocessors of an H200, and what it reads a second: how long a product takes at best.
MULTIPROCESSORS, BYTES_A_SECOND = 132, 4.6e12

# Time of a share: parts to scratch, a ticket, the last block's loads. 2000 x 2000 in two shares 1918, in one 2925.
SHARE_S = 3e-6

# Threads of a row: about eight loads each, but so many threads in all. T rows by Z threads, no sharing:
#   10^6 x 100    256x1 2627, 64x4 4200, 32x8 4176, 8x32 1965, 1x256 290
#   10^5 x 1000   2537, 4071, 4353, 4523, 2464          10^4 x 10^4   810, 3149, 4170, 4429, 4512
LOADS_OF_ROW, FEWEST_THREADS = 8, MULTIPROCESSORS * 512

# Rows of narrow loads shorter than this take a warp each at most.
LONG_NARROW_ROW = 4000

# Blocks that keep memory busy: four a multiprocessor where a thread has four loads in flight, two where it has eight.
# Columns: 10000^2 3933 with 528 blocks, 4303 with 264; 10001^2 3348 and 4174; 10^6 x 100 3655 and 4066.
FULL_OF_ROWS, FULL_OF_COLUMNS = 4 * MULTIPROCESSORS, 2 * MULTIPROCESSORS

# Blocks beyond which no rule adds shares.
MOST_BLOCKS = 32 * MULTIPROCESSORS

# Columns: threads side by side, 512 bytes; rows of so many loads are taken whole. 1000 x 10000 by 32 threads side by
# side 2521, by 8 3223: matrices in L2 that need no sharing then. 33 x 10^6 by 64 3400, by 256 3839.
BESIDE, WHOLE_ROW = 32, 64
BESIDE_IN_L2, IN_L2_BYTES, FEWEST_IN_L2, MOST_IN_L2 = 8, 64e6, 264, 800
LOADS_OF_COLUMNS = 8

# The rungs below: threads of a block; T by Z of gpu-mv-grid, and rows of a thread (lecture: 32 rows by 8 threads).
THREADS = 256
TALL, DEEP, ROWS_OF_THREAD = 32, 8, 1
ROWS_OF_SCATTER = 64


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
    """

    group: int
    width: int
    loads: int
    shares: int
    depth: int


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
    width = min(width or widest, widest)
    if not group:
        group = 1
        while group < BLOCK and (
            group * LOADS_OF_ROW * width < k or (count * group < FEWEST_THREADS and group * 2 * width <= k)
        ):
            group *= 2
        if width * itemsize < WIDEST and k < LONG_NARROW_ROW:
            group = min(group, 32)
    loads = loads or (4 if width * itemsize == WIDEST else 8)
    blocks, step_of_group = ceil_div(count, BLOCK // group), group * width
    most = max(1, ceil_div(k, step_of_group * loads))
    shares = min(shares, max(1, ceil_div(k, step_of_group))) or even_shares(
        blocks, most, count * k * itemsize / BYTES_A_SECOND, FULL_OF_ROWS
    )
    depth = max(1, ceil_div(ceil_div(k, shares), step_of_group)) * step_of_group
    return RowsLaunch(group, width, loads, max(1, ceil_div(k, depth)), depth)


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
    width = WIDEST // itemsize
    period = width // math.gcd(width, step) if k > 1 else 1  # lines that begin at different distances from a granule
    granules = math.gcd(width, step if k > 1 else width, max(aligned // itemsize, 1))
    loads = loads or LOADS_OF_COLUMNS
    slots = min(beside or _beside(count, k, itemsize, width, loads), BLOCK // period)
    room = slots * width - (width - granules)  # columns that so many granules hold wherever a line begins
    blocks = ceil_div(count, room)
    window = ceil_div(ceil_div(count, blocks), granules) * granules
    blocks = ceil_div(count, window)
    slots = ceil_div(window + width - granules, width)
    lines = min(BLOCK // slots // period, ceil_div(max(k, 1), period)) * period
    most = max(1, ceil_div(k, lines * loads))
    shares = min(shares, max(1, ceil_div(k, lines))) or even_shares(
        blocks, most, count * k * itemsize / BYTES_A_SECOND, FULL_OF_COLUMNS
    )
    depth = max(1, ceil_div(ceil_div(k, shares), lines)) * lines
    return ColumnsLaunch(window, slots, lines, width, loads, max(1, ceil_div(k, depth)), depth)


def _beside(count: int, k: int, itemsize: int, width: int, loads: int) -> int:
    """Return threads side by side: whole rows, more where a matrix is wide or low, fewer where that saves sharing."""
    if count <= WHOLE_ROW * width:
        return ceil_div(count + width - 1, width)
    windows = ceil_div(count, BESIDE_IN_L2 * width)
    if count * k * itemsize < IN_L2_BYTES and FEWEST_IN_L2 <= windows < MOST_IN_L2 and BESIDE_IN_L2 * loads <= k:
        return BESIDE_IN_L2
    beside = BESIDE
    while beside < BLOCK and (ceil_div(count, 2 * beside * width) >= FULL_OF_COLUMNS or BLOCK // beside * loads > k):
        beside *= 2
    return beside


def even_shares(blocks: int, most: int, seconds: float, full: int) -> int:
    """Return by how many blocks to share each of `blocks` sums.

    Parameters
    ----------
    blocks : int
    most : int
        Shares that have something to do.
    seconds : float
        Time that the product takes at best.
    full : int
        Blocks that keep memory busy.
    """

    def cost(shares: int) -> float:
        total = blocks * shares
        uneven = ceil_div(total, MULTIPROCESSORS) * MULTIPROCESSORS / total
        return seconds * max(uneven, full / total) + (SHARE_S if shares > 1 else 0.0)

    return min(range(1, max(1, min(most, MOST_BLOCKS // max(blocks, 1))) + 1), key=cost)


def ceil_div(x: int, y: int) -> int:
    """Return how many pieces of `y` cover `x`."""
    return -(-x // y)
