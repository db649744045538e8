"""Tiles and shares of k for products on a GPU whose C has a narrow side, or few tiles: a model of their time.

A block that is alone on its multiprocessor hides no latency, and tiles that stick out of C compute for nothing. So the
tile of least time is chosen, of a table by kind of product, and with it by how many blocks k is shared. Rates are those
of one H200, 2026-11-22: 123 products of 41 shapes, 4000 choices, launches chained in a graph, cuBLAS in turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from harness.plan import WARP, Launch, count_tiles
from harness.problem import Problem

# Multiprocessors of an H200, and bytes that it moves a second.
MULTIPROCESSORS, BYTES_A_SECOND = 132, 4.2e12

# Adding up sums of shares takes so long [s], and so long for a byte of them; longer where persistent blocks store them.
FOLD_S, FOLD_BYTE_S, FOLD_BYTE_OF_MIXED_S = 4e-6, 0.6e-12, 1e-12

# Fewest tiles along k of a share.
LEAST_TILES = 2

# Numbers of shares that are always thought of, and tiles of a narrow side at most.
FEW_SHARES, MOST_ACROSS = (2, 3, 4, 5, 6), 5

# Products that are thin: one side of C is at most so long.
NARROW = 128


class Tile(NamedTuple):
    """A tile and its measured rate.

    Attributes
    ----------
    launch : Launch
    rate : float
        Pairs that a GPU full of such tiles combines in a second.
    warps : int
        Warps of a multiprocessor that reach this rate. Blocks share k until there are so many, if that pays.
    blocks : int
        Blocks that fit on a multiprocessor at once.
    """

    launch: Launch
    rate: float
    warps: int
    blocks: int


class Choice(NamedTuple):
    """A tile, and the number of blocks that share k."""

    tile: Tile
    shares: int


def _tile(sizes: tuple[int, ...], rate: float, warps: int, blocks: int) -> Tile:
    return Tile(Launch(*sizes), rate * 1e12, warps, blocks)


# gpu-tuned, elements of 4 bytes, rates over float32. Of cuBLAS: m = 31 of 5000 x 5000 by 32 x 128 1.18, by the square
# tiles before 0.36; n = 31 by 128 x 32 1.01 and 0.39; 100000 x 96 x 96 by 96 x 96 1.31 and 0.77, by 64 x 128 1.09.
# Narrow tiles along m cost more: each element of A is copied by itself.
SIMT_4 = (
    _tile((8, 128, 16, 8, 128, 4, 8, 4), 13, 4, 8),
    _tile((16, 256, 16, 16, 64, 4, 8, 3), 15, 8, 4),
    _tile((32, 128, 16, 32, 32, 8, 4, 3), 20, 16, 4),
    _tile((32, 32, 32, 16, 32, 4, 4, 3), 8, 8, 8),
    _tile((128, 16, 16, 64, 16, 8, 4, 3), 8, 8, 6),
    _tile((128, 32, 16, 32, 32, 8, 4, 3), 14.5, 16, 4),
    _tile((128, 64, 16, 64, 32, 8, 8, 2), 19.8, 16, 4),
    _tile((64, 64, 16, 32, 32, 8, 4, 3), 14.8, 16, 4),
    _tile((64, 128, 16, 32, 64, 8, 8, 2), 22, 16, 4),
    _tile((96, 96, 16, 32, 96, 8, 12, 2), 17.5, 9, 4),
)
# Elements of 8 bytes: 32 sums of a thread leave registers for three blocks.
SIMT_8 = tuple(
    tile._replace(blocks=min(tile.blocks, 3 if tile.launch.threads > 2 * WARP else 8))
    for tile in SIMT_4
    if tile.launch.tm * tile.launch.tn <= WARP
)

# gpu-tensor-core over float64, by mma.sync. Of cuBLAS: 31 x 5000 x 5000 1.12, 5000 x 31 x 5000 1.49.
DOUBLE = (
    _tile((16, 128, 16, 16, 32, 4, 4, 4), 12, 8, 2),
    _tile((32, 128, 16, 32, 32, 8, 4, 4), 21, 4, 2),
    _tile((48, 64, 16, 48, 16, 6, 4, 3), 17, 4, 2),
    _tile((48, 128, 16, 48, 32, 6, 8, 3), 22, 4, 2),
    _tile((32, 64, 16, 16, 32, 4, 4, 4), 15, 4, 2),
    _tile((32, 32, 16, 16, 16, 4, 2, 4), 10, 8, 2),
    _tile((128, 8, 16, 32, 8, 4, 2, 4), 6, 4, 2),
    _tile((128, 16, 16, 32, 16, 4, 4, 4), 10.5, 8, 2),
    _tile((64, 32, 16, 32, 16, 4, 4, 4), 15.3, 8, 2),
    _tile((64, 32, 32, 32, 16, 4, 4, 3), 15.3, 8, 2),
    _tile((128, 32, 16, 32, 32, 8, 4, 3), 18.8, 8, 2),
    _tile((64, 64, 16, 32, 32, 8, 4, 4), 21, 4, 2),
    _tile((128, 64, 16, 32, 32, 8, 4, 3), 20, 8, 1),
)
# The same by tiles that the copy engine of Hopper brings.
DOUBLE_TMA = _tile((128, 128, 16, 32, 64, 8, 8, 6), 22.4, 8, 1)
# The same over float32, of three TF32 products.
SINGLE = (
    _tile((16, 128, 32, 16, 32, 4, 4, 4), 12, 8, 2),
    _tile((32, 128, 32, 32, 32, 8, 4, 3), 18, 8, 2),
    _tile((128, 16, 32, 32, 16, 4, 4, 4), 10, 8, 2),
    _tile((128, 32, 32, 32, 32, 8, 4, 3), 16, 8, 2),
    _tile((64, 64, 32, 32, 32, 8, 4, 3), 22, 8, 2),
)
# 16-bit elements, by wgmma. Tiles of 64 rows are two blocks of a multiprocessor.
HALF = (
    _tile((64, 64, 64, 0, 0, 4, 4, 6), 150, 12, 2),
    _tile((64, 128, 64, 0, 0, 4, 8, 4), 200, 16, 2),
    _tile((64, 256, 64, 0, 0, 4, 16, 4), 230, 4, 1),
    _tile((128, 64, 64, 0, 0, 8, 4, 8), 187, 8, 1),
    _tile((128, 128, 64, 0, 0, 8, 8, 6), 280, 8, 1),
    _tile((128, 256, 64, 0, 0, 8, 16, 4), 350, 16, 1),
)


def choose(problem: Problem, tiles: Iterable[Tile], *, can_share: bool = True) -> Choice:
    """Return the tile, and the shares of k, of least time.

    Parameters
    ----------
    problem : Problem
    tiles : iterable of Tile
    can_share : bool
        Whether blocks may share k.
    """
    fitting = [tile for tile in tiles if _fits(problem, tile)]
    choices = [Choice(tile, shares) for tile in fitting for shares in _shares(problem, tile, can_share)]
    return min(choices, key=lambda choice: time_s(problem, choice))


def time_s(problem: Problem, choice: Choice) -> float:
    """Return the time of a product beyond its launch [s], by the model."""
    tile, shares = choice
    launch, itemsize = tile.launch, problem.dtype.itemsize
    blocks = shares * _count(problem, tile)
    waves, rest = divmod(blocks, MULTIPROCESSORS * tile.blocks)
    least = tile.warps * WARP / launch.threads  # fewer blocks of a multiprocessor take as long
    last = max(math.ceil(rest / MULTIPROCESSORS), least) if rest else 0
    busy = waves * max(tile.blocks, least) + last
    pairs = launch.bm * launch.bn * math.ceil(problem.k / shares)
    product_s = busy * pairs * MULTIPROCESSORS / tile.rate
    narrow = problem.input_dtype.itemsize
    moved = narrow * problem.k * (problem.m + problem.n) + itemsize * problem.m * problem.n
    size = itemsize * blocks * min(launch.bm, problem.m) * min(launch.bn, problem.n)
    fold_s = FOLD_S + (FOLD_BYTE_OF_MIXED_S if problem.is_mixed else FOLD_BYTE_S) * size if shares > 1 else 0
    return math.hypot(product_s, moved / BYTES_A_SECOND) + fold_s


def _fits(problem: Problem, tile: Tile) -> bool:
    """Return whether a tile is not much narrower than C."""
    launch = tile.launch
    is_wide = launch.bm * MOST_ACROSS >= problem.m or launch.bm >= NARROW // 2
    is_high = launch.bn * MOST_ACROSS >= problem.n or launch.bn >= NARROW // 2
    return is_wide and is_high


def _shares(problem: Problem, tile: Tile, can_share: bool) -> list[int]:
    """Return the numbers of shares that are thought of: a few, and those that fill a wave, or half of one."""
    launch = tile.launch
    fill = MULTIPROCESSORS * min(tile.blocks, max(1, tile.warps * WARP // launch.threads)) // _count(problem, tile)
    most = problem.k // (LEAST_TILES * launch.bk)
    if not can_share:
        return [1]
    return sorted({1} | {x for x in (*FEW_SHARES, fill // 2, fill) if 1 < x <= most})


def _count(problem: Problem, tile: Tile) -> int:
    launch = tile.launch
    return max(1, count_tiles(problem.m, problem.n, launch.bm, launch.bn, triangle=problem.triangle == "d"))


def is_thin(problem: Problem) -> bool:
    """Return whether one side of C is narrow."""
    return min(problem.m, problem.n) <= NARROW and problem.triangle != "d"
