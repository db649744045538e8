"""Blocks of a GPU that share k: which tiles of a product they share, by how many, and how the shares are added up.

Tiles rarely fill the GPU a whole number of times. Blocks share those that whole waves leave over, or all of them.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import NamedTuple

from harness.plan import Launch, count_tiles
from harness.problem import Problem
from harness.tuning.device import Device

# A wave is a tile on each multiprocessor. Blocks share the tiles that whole waves leave over where `sharing` says so.
# Its costs are steps of k of a wave: fold.cu itself, and each sum of a share. WAIT: how long the last blocks wait for
# each other, in shares. LEAST_GAIN: in waves.
FOLD_STEPS, FOLD_STEPS_EACH, WAIT, LEAST_GAIN = 128, 0.25, 0.25, 0.25

# Most shares of a tile, of which 64 were no better at 8192; and of all tiles: 24 MiB of float32, which stay in L2.
MOST_SHARES, MOST_PARTS = 16, 768

# Threads of a block of fold.cu, which adds up shares of k; elements of a thread, if that leaves so many threads.
# With fewer, up to FOLD_LINES threads add up one element, each of them FOLD_LEAST shares at least.
FOLD_BLOCK, FOLD_EACH, FOLD_THREADS = 256, 4, 1 << 16
FOLD_LINES, FOLD_LEAST = 32, 4

# Fewest steps of k in a share where blocks share k: with large tiles, and with small ones.
LEAST_SHARE, LEAST_SHARE_OF_FEW = 128, 64

# Fused products of so many large tiles share all of their tiles. A whole tile alone on its multiprocessor hides no
# latency, and shares beside it wait for it. A ragged C takes small tiles, each by a number of blocks from
# MIDDLE_SHARES; a C of whole small tiles takes large ones, if they are more than a wave.
MIDDLE = ((0.685, 0.695), (0.875, 0.935), (1.001, 2.125))  # waves
MIDDLE_SHARES, MIDDLE_SHARES_OF_LARGE, NOT_SHARED, EACH_SHARE = (1, 2, 3, 4), (2, 3, 4, 5, 6), 0.03, 0.005

# Ragged squares of plus_times over float32, by their lines of RAGGED_LINE: the fastest of these tiles, blocks of a
# multiprocessor and shares of k. A line is what the sides of all tiles are multiples of, so that the tiles of a C of as
# many lines are as many. k may be shorter or longer than the sides by this factor.
RAGGED, RAGGED_LINE, RAGGED_K = Path(__file__).with_name("ragged_measured.json"), 32, 1.25
RAGGED_TILES = (
    Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=2),
    Launch(bm=64, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2),
    Launch(bm=96, bn=96, bk=16, wm=32, wn=96, tm=8, tn=12, stages=2),
    Launch(bm=128, bn=64, bk=16, wm=64, wn=32, tm=8, tn=8, stages=2),
    Launch(bm=128, bn=96, bk=16, wm=64, wn=48, tm=8, tn=12, stages=2),
    Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2),
)

# A triangle of up to so many waves of `TunedTiles.triangle` takes these tiles: its diagonal cuts less off them. With
# hardly more tiles than a wave has, blocks share all of them.
TRIANGLE_WAVES, SCARCE_WAVES, SHARES_OF_SCARCE = 7, 1.25, 10

# A wave so long that all tiles are left over.
ENDLESS = 1 << 30


class TunedTiles(NamedTuple):
    """Tiles for products with many blocks and for those with few, and the options of either."""

    many: Launch
    few: Launch
    blocks: int  # that are to fit on a multiprocessor at once
    order: int  # of the products of a step, 0 to 6: see fragments.cuh
    idle: int = 0  # multiprocessors that many blocks may leave without one
    middle: Launch | None = None  # tiles for ragged products of one to two waves
    middle_blocks: int = 5  # of `middle` that are to fit on a multiprocessor at once
    triangle: Launch | None = None  # tiles for a triangle of few waves
    triangle_blocks: int = 4  # of `triangle` that are to fit on a multiprocessor at once


def whole(device: Device) -> dict[str, int]:
    """Return the options that share no tile."""
    return {"shares": 1, "wave": device.multiprocessors}


def tiles_and_shares(
    problem: Problem, row: TunedTiles, device: Device, *, can_share: bool
) -> tuple[Launch, dict[str, int]]:
    """Return the tiles, and which of them blocks share: all of them if they alone are too few to fill the GPU."""
    if row.triangle is not None and can_share and problem.triangle == "d":
        count = count_of(problem, row.triangle)
        if count <= TRIANGLE_WAVES * device.multiprocessors:
            shared = _of_triangle(problem, row.triangle, row.triangle_blocks, count, device)
            return row.triangle, shared | {"blocks": row.triangle_blocks}
    if row.middle is not None and can_share and _is_middle(count_of(problem, row.many) / device.multiprocessors):
        middle = _all_shared(problem, row.many, row.middle, device)
        if middle is not None:
            tiles, shared = middle
            return tiles, shared | ({"blocks": row.middle_blocks} if tiles is row.middle else {})
    fewest_of_many = device.multiprocessors - row.idle
    choices = (row.many, fewest_of_many, LEAST_SHARE), (row.few, 0, LEAST_SHARE_OF_FEW)
    for tiles, fewest, least in choices[problem.n <= row.few.bn :]:
        blocks = count_of(problem, tiles)
        if blocks >= (device.multiprocessors if can_share else fewest):
            return tiles, sharing(problem, tiles, row.blocks, device) if can_share else whole(device)
        most = problem.k // least if can_share else 1
        shares = max(1, min(device.multiprocessors * row.blocks // max(blocks, 1), most))
        if blocks * shares >= fewest:
            break
    return tiles, {"shares": shares, "wave": device.multiprocessors}


def _is_middle(waves: float) -> bool:
    return any(least <= waves <= most for least, most in MIDDLE)


def of_ragged_square(problem: Problem, device: Device) -> tuple[Launch, dict[str, int]] | None:
    """Return the tiles and shares that were fastest for a square of as many lines; None: it is none, or unknown."""
    m, n, k = problem.m, problem.n, problem.k
    lines = {-(-size // RAGGED_LINE) for size in (m, n)}
    is_like = device.is_measured and len(lines) == 1 and max(m, n) <= RAGGED_K * k and k <= RAGGED_K * max(m, n)
    if not is_like or (m % RAGGED_LINE == 0 and n % RAGGED_LINE == 0):
        return None
    known = _ragged_squares().get(str(lines.pop()))
    if known is None:
        return None
    bm, bn, blocks, shares, is_all = known
    tiles = next(x for x in RAGGED_TILES if (x.bm, x.bn) == (bm, bn))
    return tiles, {
        "blocks": blocks,
        "shares": shares,
        "wave": ENDLESS if is_all and shares > 1 else device.multiprocessors,
    }


@functools.cache
def _ragged_squares() -> dict[str, list[int]]:
    measured: dict[str, list[int]] = json.loads(RAGGED.read_text(encoding="utf-8"))["fastest"]
    return measured


def _all_shared(problem: Problem, large: Launch, small: Launch, device: Device) -> tuple[Launch, dict[str, int]] | None:
    """Return tiles for one to two waves and the number of shares of each; None if sharing all of them gains nothing."""
    is_ragged = bool(problem.m % small.bm or problem.n % small.bn)
    tiles, numbers = (small, MIDDLE_SHARES) if is_ragged else (large, MIDDLE_SHARES_OF_LARGE)
    count, most = count_of(problem, tiles), max(1, problem.k // LEAST_SHARE)
    if not is_ragged and count <= device.multiprocessors:
        return None  # about 960 x 960: as good without

    def waves(shares: int) -> float:
        return -(-count * shares // device.multiprocessors) / shares + (
            EACH_SHARE * shares if shares > 1 else NOT_SHARED
        )

    return tiles, {"shares": min((x for x in numbers if x <= most), key=waves, default=1), "wave": ENDLESS}


def _of_triangle(problem: Problem, tiles: Launch, blocks: int, count: int, device: Device) -> dict[str, int]:
    """Return how many blocks share a tile of a triangle of `count` tiles."""
    if count > SCARCE_WAVES * device.multiprocessors:
        return sharing(problem, tiles, blocks, device)
    fill = max(SHARES_OF_SCARCE, device.multiprocessors * blocks // max(count, 1))
    return {"shares": max(1, min(fill, problem.k // LEAST_SHARE_OF_FEW)), "wave": ENDLESS}


def count_of(problem: Problem, tiles: Launch) -> int:
    """Return how many tiles C consists of."""
    return count_tiles(problem.m, problem.n, tiles.bm, tiles.bn, triangle=problem.triangle == "d")


def sharing(problem: Problem, tiles: Launch, blocks: int, device: Device) -> dict[str, int]:
    """Return how many blocks share each of the tiles that whole waves leave over, and the tiles of a wave.

    The time of a product is counted in waves: a share takes its part of one. If all tiles fit on the GPU at once, a
    second choice shares all of them: its wave is longer than their number.

    Parameters
    ----------
    problem : Problem
    tiles : Launch
    blocks : int
        Blocks that are to fit on a multiprocessor at once.
    device : Device
    """
    one_each = device.multiprocessors
    count = count_of(problem, tiles)
    room, most = one_each * blocks, min(problem.k // LEAST_SHARE, MOST_SHARES)

    def waves(shares: int, shared: int) -> float:
        fold = FOLD_STEPS + FOLD_STEPS_EACH * shares * shared if shares > 1 else 0
        return (-(-count * shares // one_each) + WAIT) / shares + fold / problem.k

    choices = [(waves(1, 0) - LEAST_GAIN, whole(device))]
    for wave in (one_each, room) if count < room else (one_each,):
        rest = count % wave
        parts = one_each if wave == one_each and count < room else MOST_PARTS
        numbers = range(min(most, parts // rest if rest else 0), 1, -1)
        choices += [(waves(shares, rest), {"shares": shares, "wave": wave}) for shares in numbers]
    return min(choices, key=lambda choice: choice[0])[1]
