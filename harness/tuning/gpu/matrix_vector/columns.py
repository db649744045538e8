"""How gpu-mv-tuned takes a matrix that is contiguous along y, by windows of its columns."""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

from harness.tuning.device import Device
from harness.tuning.gpu.matrix_vector.costs import (
    BLOCK,
    CACHED,
    FROM_MEMORY,
    WIDEST,
    ceil_div,
    cost_s,
    shares_up_to,
    unevenness,
)

# Columns: granules of 16 bytes side by side, and what reading so narrow or wide a window costs: of all matrices, and of
# large ones whose lines do not begin with a cache line.
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

# Loads of a thread in flight: elements of other sizes leave registers for 12. LINE_S: time that a thread takes for each
# line that it reads one after the other [s].
LOADS_OF_COLUMNS, LOADS_OTHERWISE, LINE_S = {4: (8, 16), 8: (8,)}, (8, 12), 6e-8
LOADS_FROM_MEMORY = LOADS_OF_COLUMNS | {8: (8, 12)}

# Rows of up to WHOLE_ROW_OF_LARGE granules are taken whole in matrices from LARGE_COLUMNS bytes on. Blocks that leave
# some multiprocessors with one more than the others take UNEVEN longer then.
LARGE_COLUMNS, WHOLE_ROW_OF_LARGE, UNEVEN = 2e8, 128, 0.17


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
def columns_launch(
    count: int, k: int, itemsize: int, step: int, aligned: int, device: Device, *, beside: int, loads: int, shares: int
) -> ColumnsLaunch:
    """Choose how to take the columns of a matrix whose columns lie side by side.

    Parameters
    ----------
    count, k : int
        Columns, and lines of the matrix.
    itemsize, step, aligned : int
        As in `rows_launch`; `step` is the distance of lines.
    device : Device
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
        for share in shares_up_to(most) if not shares else [max(1, min(shares, most))]:
            flight = min(lines * depth_of_loads, max(1, k // share)) * slots * WIDEST
            depth = max(1, ceil_div(ceil_div(k, share), lines)) * lines
            cost = penalty * cost_s(size, ceil_div(count, window), share, flight, window, device, costs)
            cost *= unevenness(share, UNEVEN, device) if is_large and window >= count else 1.0
            cost = max(cost, LINE_S * depth / lines)
            found.append((cost, ColumnsLaunch(window, slots, lines, width, depth_of_loads, share, depth)))
    _, best = min(found)
    return best._replace(shares=max(1, ceil_div(k, best.depth)))


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
