"""Tiles and shares of k for products on a GPU that are thin, flat or deep: a model of their time.

A block that is alone on its multiprocessor hides no latency, and tiles that stick out of C compute for nothing. So the
tile of least time is chosen, of a table by kind of kernel, and with it by how many blocks k is shared. The numbers of
the model are in `harness/tuning/gpu/thin_tiles.py`. Near a product that was measured, the fastest there is taken
(``thin_measured.json``).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.plan import WARP, Launch, count_tiles
from harness.problem import Problem

# Multiprocessors of an H200, and bytes that rows must begin at a multiple of to be read and written at once.
MULTIPROCESSORS, ALIGNMENT = 132, 16

# Blocks of clusters of so many that are alone on their multiprocessors: clusters lie within groups of 16 or 18 of
# these. Fitted to 361 launches of tensor_core_half_mma.cu (H200, 2026-11-23).
CLUSTERED = {4: 124, 8: 112}

# Fewest tiles along k of a share.
LEAST_TILES = 2

# Numbers of shares that are always thought of.
FEW_SHARES = (2, 3, 4, 5, 6)

# The fastest tile, shares, blocks of a cluster and stagger of measured products, by dtype of A and B and sizes. They
# hold for products whose sizes differ by this factor at most, each, and whose rows are aligned alike.
MEASURED, NEAR = Path(__file__).with_name("thin_measured.json"), 1.1

# Time with stagger to that without, H200, 2026-11-24, by the tiles that are within 15 % of the fastest: float64 by 16
# steps 0.965, at most 1.06; float32 by 16, C tall, 0.987, at most 1.05; 16 bits by 4, at most 48 columns, 0.958, at
# most 1.03. With more shares of k, or several tiles on both sides, it gains nothing.
SHARES, LINES = 2, 1024

# Side of the tile of small products.
SMALL_SIDE = 32

# Products that are thin, flat or deep: a side of C is at most NARROW, or MIDDLE and the other is so many times as long;
# k is at most SHORT, or so many times as long as the sides of C, which has few tiles.
NARROW, MIDDLE, FLAT, SHORT, DEEP, FEW_ELEMENTS = 128, 512, 8, 32, 4, 66 * 128 * 128


class Tile(NamedTuple):
    """A tile and its measured rate.

    Attributes
    ----------
    launch : Launch
    rate : float
        Pairs that a GPU full of such tiles combines in a second.
    warps : float
        Warps of a multiprocessor that reach this rate. Blocks share k until there are so many, if that pays.
    blocks : int
        Blocks that fit on a multiprocessor at once.
    slices : int
        Warps that take turns along k for the same part of the tile.
    """

    launch: Launch
    rate: float
    warps: float
    blocks: int
    slices: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.launch.threads * self.slices


class Costs(NamedTuple):
    """What the products of a kind of kernel take beside their pairs.

    Attributes
    ----------
    launch_s, wave_s : float
        Time of a launch [s], and what each wave of blocks takes longer.
    read, write : float
        Bytes of A and B, and of C, that memory moves in a second.
    ends : float
        Steps of k that a block could do in the time of its first loads and of its stores.
    ragged_a, ragged_b, ragged_c : float
        How much longer pairs take where rows of A, or of B, are not aligned, and stores of C where its rows are not.
    fold_s, fold_byte_s : float
        Time to add up sums of shares [s], and that for each byte of them.
    cluster_s : float
        Time in which the blocks of a cluster add up their sums.
    copy_s, copy_byte_s : float
        Time of copies of operands whose rows are not aligned, where the kernel needs them, and that for each byte.
    norm : float
        Pairs and memory overlap: the time of both is the norm of this order of the time of each.
    """

    launch_s: float = 1.8e-6
    wave_s: float = 0.6e-6
    read: float = 4.1e12
    write: float = 2.9e12
    ends: float = 6
    ragged_a: float = 1
    ragged_b: float = 1
    ragged_c: float = 1.5
    fold_s: float = 2.6e-6
    fold_byte_s: float = 0.4e-12
    cluster_s: float = 0
    copy_s: float = 0
    copy_byte_s: float = 0
    norm: float = 2.5


class Stagger(NamedTuple):
    """At how many steps of k tiles begin that all read the same rows of one operand, with little else to wait for.

    Those are the tiles of a C that is one tile high, or wide, with at most `SHARES` shares of k.

    Attributes
    ----------
    flat : int
        Of a C that is one tile high. If rows of B are a multiple of `LINES` bytes apart, all begin at the same step.
    tall : int
        Of a C that is one tile wide.
    columns : int
        Most columns of such a C.
    """

    flat: int = 1
    tall: int = 1
    columns: int = 1 << 31

    def of(self, problem: Problem, choice: Choice) -> int:
        """Return the number for a choice."""
        launch = choice.tile.launch
        tiles_m, tiles_n = -(-problem.m // launch.bm), -(-problem.n // launch.bn)
        if min(tiles_m, tiles_n) > 1 or choice.shares * choice.together > SHARES:
            return 1
        if tiles_n >= tiles_m:
            return 1 if problem.n * problem.input_dtype.itemsize % LINES == 0 else self.flat
        return self.tall if problem.n <= self.columns else 1


class Kind(NamedTuple):
    """The tiles of a kind of kernel, the numbers of blocks of its clusters that share k, and its costs.

    Tiles with a side below `least` are for a C that has no longer one, and of those the shortest is taken: the time of
    others was not measured. With `is_alone` blocks of clusters share k only where each has a multiprocessor for itself,
    and no other shares are needed.
    """

    tiles: tuple[Tile, ...]
    costs: Costs
    clusters: tuple[int, ...] = (1,)
    least: int = 0
    is_alone: bool = False
    stagger: Stagger = Stagger()

    def suits(self, tile: Tile, problem: Problem) -> bool:
        """Return whether `tile` is thought of for `problem`."""
        launches = [x.launch for x in self.tiles]
        rows, columns = (
            min((x for x in sides if size <= x < self.least), default=self.least)
            for sides, size in (([x.bm for x in launches], problem.m), ([x.bn for x in launches], problem.n))
        )
        return (tile.launch.bm == rows or tile.launch.bm >= self.least) and (
            tile.launch.bn == columns or tile.launch.bn >= self.least
        )


class Choice(NamedTuple):
    """A tile, the number of shares of k, and the blocks of a cluster that each of these is divided among.

    Tiles begin at `stagger` steps of k (``stagger.cuh``).
    """

    tile: Tile
    shares: int
    together: int = 1
    stagger: int = 1


def measured(problem: Problem, kinds: Mapping[str, Kind]) -> tuple[str, Choice] | None:
    """Return the kind by name, and the choice, that was fastest at the nearest measured product; None: none is near.

    Measured were products of plus_times; those of float16 count as bfloat16.
    """
    dtype = "bfloat16" if problem.is_mixed else problem.input_dtype.name
    sizes, found = (problem.m, problem.n, problem.k), []
    for of, numbers in _fastest().get(dtype, {}).items():
        far = max(abs(math.log(x / y)) for x, y in zip(sizes, of, strict=True)) if min(sizes) else math.inf
        _, n, k = of
        if far <= math.log(NEAR) and _is_ragged(problem, k, n, n) == _is_ragged(problem, *problem.lines):
            found.append((far, numbers))
    for _, (*of_tile, shares, together, stagger) in sorted(found):
        for name, kind in kinds.items():
            for tile in kind.tiles:
                launch = tile.launch
                if [launch.bm, launch.bn, launch.bk, launch.stages, tile.slices] == of_tile:
                    return name, Choice(tile, shares, together, stagger)
    return None


@functools.cache
def _fastest() -> dict[str, dict[tuple[int, ...], list[int]]]:
    entries = json.loads(MEASURED.read_text(encoding="utf-8"))["fastest"]
    return {
        dtype: {tuple(map(int, sizes.split("x"))): numbers for sizes, numbers in by_sizes.items()}
        for dtype, by_sizes in entries.items()
    }


def choose(problem: Problem, kind: Kind, *, can_share: bool = True) -> Choice:
    """Return the tile, and the shares of k, of least time.

    Parameters
    ----------
    problem : Problem
    kind : Kind
    can_share : bool
        Whether blocks may share k.
    """
    found = min(choices(problem, kind, can_share=can_share), key=lambda choice: time_s(problem, choice, kind.costs))
    return found._replace(stagger=kind.stagger.of(problem, found))


def choices(problem: Problem, kind: Kind, *, can_share: bool = True) -> Iterator[Choice]:
    """Yield all choices that are thought of: for small products one tile, so that sizes share kernels."""
    is_small = max(problem.m, problem.n, problem.k) <= NARROW
    square = [tile for tile in kind.tiles if is_small and tile.launch.bm == tile.launch.bn == SMALL_SIDE]
    can_share = can_share and not square
    for tile in square or [tile for tile in kind.tiles if kind.suits(tile, problem)]:
        for together in kind.clusters if can_share else (1,):
            is_alone = kind.is_alone and together > 1
            if is_alone and together * _count(problem, tile) > CLUSTERED.get(together, MULTIPROCESSORS):
                continue
            for shares in [1] if is_alone else _shares(problem, tile, together, can_share):
                yield Choice(tile, shares, together)


def time_s(problem: Problem, choice: Choice, costs: Costs) -> float:
    """Return the time of a product [s], by the model."""
    tile, (each, shares) = choice.tile, _steps(problem, choice)
    launch, narrow, wide = tile.launch, problem.input_dtype.itemsize, problem.dtype.itemsize
    m, n, k = problem.m, problem.n, problem.k
    is_ragged = _is_ragged(problem, *problem.lines)
    blocks = shares * choice.together * _count(problem, tile)
    at_once = CLUSTERED.get(choice.together, MULTIPROCESSORS)
    waves, rest = divmod(blocks, at_once * tile.blocks)
    least = min(tile.warps * WARP / tile.threads, tile.blocks)  # fewer blocks of a multiprocessor take as long
    last = max(math.ceil(rest / at_once), least) if rest else 0
    pairs = (waves * tile.blocks + last) * launch.bm * launch.bn * (each * launch.bk + costs.ends)
    slower = (costs.ragged_a if is_ragged[0] else 1) * (costs.ragged_b if is_ragged[1] else 1)
    product_s = pairs * MULTIPROCESSORS / tile.rate * slower + costs.wave_s * (waves + (rest > 0))
    written = wide * m * n / costs.write * (costs.ragged_c if is_ragged[2] else 1)
    memory_s = narrow * k * (m + n) / costs.read + written
    beside_s = costs.launch_s + costs.cluster_s * (choice.together > 1)
    if shares > 1:
        beside_s += costs.fold_s + costs.fold_byte_s * wide * shares * _count(problem, tile) * launch.bm * launch.bn
    if is_ragged[0] or is_ragged[1]:
        copied = narrow * (m * k * is_ragged[0] + k * n * is_ragged[1])
        beside_s += costs.copy_s + costs.copy_byte_s * copied
    return float((product_s**costs.norm + memory_s**costs.norm) ** (1 / costs.norm) + beside_s)


def _is_ragged(problem: Problem, of_a: int, of_b: int, of_c: int) -> tuple[bool, bool, bool]:
    """Return whether lines of A, of B and of C with so many elements are not aligned, in a product of such dtypes."""
    narrow, wide = problem.input_dtype.itemsize, problem.dtype.itemsize
    return of_a * narrow % ALIGNMENT != 0, of_b * narrow % ALIGNMENT != 0, of_c * wide % ALIGNMENT != 0


def _steps(problem: Problem, choice: Choice) -> tuple[int, int]:
    """Return the tiles along k that a block takes, and the shares that are not empty."""
    steps = math.ceil(math.ceil(problem.k / choice.tile.launch.bk) / choice.together)
    each = max(1, math.ceil(steps / choice.shares))
    return each, max(1, math.ceil(steps / each))


def _shares(problem: Problem, tile: Tile, together: int, can_share: bool) -> list[int]:
    """Return the numbers of shares that are thought of: a few, and those that give each multiprocessor equally many."""
    if not can_share:
        return [1]
    one_each = MULTIPROCESSORS / (_count(problem, tile) * together)
    most = problem.k // (LEAST_TILES * tile.launch.bk * together)
    fill = {int(one_each * times) for times in (0.5, 1, 2, tile.blocks / 2, tile.blocks)}
    return sorted({1} | {x for x in (*FEW_SHARES, *fill) if 1 < x <= most})


def _count(problem: Problem, tile: Tile) -> int:
    launch = tile.launch
    return max(1, count_tiles(problem.m, problem.n, launch.bm, launch.bn, triangle=problem.triangle == "d"))


def is_thin(problem: Problem) -> bool:
    """Return whether a product is thin, flat or deep: other rules are for products with many tiles and a long k."""
    if problem.triangle == "d":
        return False
    least, most = sorted((problem.m, problem.n))
    is_narrow = least <= NARROW or (least <= MIDDLE and most >= FLAT * least)
    is_deep = problem.m * problem.n <= FEW_ELEMENTS and problem.k >= DEEP * most
    return is_narrow or is_deep or problem.k <= SHORT
