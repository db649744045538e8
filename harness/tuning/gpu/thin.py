"""Tiles and shares of k for products on a GPU that are thin, flat or deep, or so small that tiles do not fill it.

The tile of least time is chosen, of a table by kind of kernel, and with it by how many blocks k is shared
(`thin_model.time_s`; its numbers are in `thin_tiles`). Near a product that was measured, the fastest there is taken
(``thin_measured.json``).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.problem import Problem
from harness.tuning.device import Device
from harness.tuning.gpu.thin_model import (
    Choice,
    Costs,
    Tile,
    count_blocks,
    is_ragged,
    tiles_along,
    time_s,
)

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
NARROW, MIDDLE, FLAT, SHORT, DEEP, ELEMENTS_OF_FEW = 128, 512, 8, 32, 4, 128 * 128


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
    """The tiles of a kind of kernel, the numbers of blocks of its clusters, and its costs.

    Blocks of a cluster share k (`together`), or what they fetch of the operand that their tiles have in common
    (`clusters`).

    Tiles with a side below `least` are for a C that has no longer one, and of those the shortest is taken. With
    `is_alone` blocks of clusters share k only where each has a multiprocessor for itself, and no other shares are
    needed.
    """

    tiles: tuple[Tile, ...]
    costs: Costs
    together: tuple[int, ...] = (1,)
    clusters: tuple[int, ...] = (1,)
    least: int = 0
    is_alone: bool = False
    stagger: Stagger = Stagger()

    def suits(self, tile: Tile, problem: Problem) -> bool:
        """Return whether `tile` is thought of for `problem`."""
        launch, tiles = tile.launch, [x.launch for x in self.tiles]
        if tile.is_transposed:
            return launch.bm == min(
                (x.launch.bm for x in self.tiles if x.is_transposed and x.launch.bm >= problem.m), default=0
            )
        rows = min((x.bm for x in tiles if problem.m <= x.bm < self.least), default=self.least)
        columns = min((x.bn for x in tiles if problem.n <= x.bn < self.least), default=self.least)
        is_narrow = launch.bn == columns or launch.bn >= self.least == columns
        return is_narrow and (launch.bm == rows or launch.bm >= self.least)


def measured(problem: Problem, kinds: Mapping[str, Kind], device: Device) -> tuple[str, Choice] | None:
    """Return the kind by name, and the choice, that was fastest at the nearest measured product; None: none is near.

    Measured were products of plus_times; those of float16 count as bfloat16.
    """
    dtype = "bfloat16" if problem.is_mixed else problem.input_dtype.name
    sizes, found = (problem.m, problem.n, problem.k), []
    if not device.is_measured:
        return None
    for of, numbers in _fastest().get(dtype, {}).items():
        far = max(abs(math.log(x / y)) for x, y in zip(sizes, of, strict=True)) if min(sizes) else math.inf
        _, n, k = of
        if far <= math.log(NEAR) and is_ragged(problem, k, n, n) == is_ragged(problem, *problem.lines):
            found.append((far, numbers))
    for _, (*of_tile, shares, together, stagger, cluster) in sorted(found):
        for name, kind in kinds.items():
            for tile in kind.tiles:
                launch = tile.launch
                if [launch.bm, launch.bn, launch.bk, launch.stages, tile.slices] == of_tile:
                    return name, Choice(tile, shares, together, stagger, cluster)
    return None


@functools.cache
def _fastest() -> dict[str, dict[tuple[int, ...], list[int]]]:
    entries = json.loads(MEASURED.read_text(encoding="utf-8"))["fastest"]
    return {
        dtype: {tuple(map(int, sizes.split("x"))): numbers for sizes, numbers in by_sizes.items()}
        for dtype, by_sizes in entries.items()
    }


def choose(problem: Problem, kind: Kind, device: Device, *, can_share: bool = True) -> Choice:
    """Return the tile, and the shares of k, of least time.

    Parameters
    ----------
    problem : Problem
    kind : Kind
    device : Device
    can_share : bool
        Whether blocks may share k.
    """
    thought_of = choices(problem, kind, device, can_share=can_share)
    found = min(thought_of, key=lambda choice: time_s(problem, choice, kind.costs, device))
    return found._replace(stagger=kind.stagger.of(problem, found))


def choices(problem: Problem, kind: Kind, device: Device, *, can_share: bool = True) -> Iterator[Choice]:
    """Yield all choices that are thought of: for small products one tile, so that sizes share kernels."""
    is_small = max(problem.m, problem.n, problem.k) <= NARROW
    square = [tile for tile in kind.tiles if is_small and tile.launch.bm == tile.launch.bn == SMALL_SIDE]
    can_share = can_share and not square
    for tile in square or [tile for tile in kind.tiles if kind.suits(tile, problem)]:
        for together in kind.together if can_share else (1,):
            is_alone = kind.is_alone and together > 1
            if is_alone and together * count_blocks(problem, tile) > device.alone(together):
                continue
            for shares in [1] if is_alone else _shares(problem, tile, together, can_share, device):
                yield Choice(tile, shares, together)
        for cluster in kind.clusters[1:]:
            if tiles_along(problem, tile) >= cluster:
                for shares in _shares(problem, tile, 1, can_share, device):
                    yield Choice(tile, shares, cluster=cluster)


def _shares(problem: Problem, tile: Tile, together: int, can_share: bool, device: Device) -> list[int]:
    """Return the numbers of shares that are thought of: a few, and those that give each multiprocessor equally many."""
    if not can_share:
        return [1]
    one_each = device.multiprocessors / (count_blocks(problem, tile) * together)
    most = problem.k // (LEAST_TILES * tile.launch.bk * together)
    fill = {int(one_each * times) for times in (0.5, 1, 2, tile.blocks / 2, tile.blocks)}
    return sorted({1} | {x for x in (*FEW_SHARES, *fill) if 1 < x <= most})


def is_thin(problem: Problem, device: Device) -> bool:
    """Return whether a product is thin, flat or deep: other rules are for products with many tiles and a long k."""
    if problem.triangle == "d":
        return False
    least, most = sorted((problem.m, problem.n))
    is_narrow = least <= NARROW or (least <= MIDDLE and most >= FLAT * least)
    is_deep = problem.m * problem.n <= device.multiprocessors // 2 * ELEMENTS_OF_FEW and problem.k >= DEEP * most
    return is_narrow or is_deep or problem.k <= SHORT
