"""The tiles of a kind of kernel, and the launch of least time among them by `tile_model`."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.plan import WARP
from harness.problem import Problem
from harness.tuning.device import MEASURED, Device
from harness.tuning.gpu.family import NO_STAGGER, Choice, Costs, Stagger, Tile
from harness.tuning.gpu.tile_model import BLOCKS_OF_EACH, FEW_SHARES, OF_HELD, Model, Row

# Side of the tile of small products, and the longest side of such a product.
SMALL_SIDE, SMALL = 32, 128

# Most rows that are bounded one after the other.
FEW_ROWS = 16

# Fewest tiles along k of a share.
LEAST_TILES = 2


class Rows:
    """Rows that are thought of for many products, and what bounds the times of their pairs."""

    def __init__(self, rows: list[Row], costs: Costs, slower: float) -> None:
        self.all = rows
        is_one = len(rows) == 1 and not rows[0].of_each
        self.only = Choice(rows[0].tile, 1) if is_one else None  # no other launch is thought of
        self._sides = np.array([float(x.bm) for x in rows]), np.array([float(x.bn) for x in rows])
        step_s = np.array([slower * x.area / x.rate for x in rows])
        together = np.array([x.together for x in rows], np.float64)
        at_once, busy_s = np.array([x.at_once for x in rows]), step_s * [x.busy for x in rows]
        tile_s, most = step_s / at_once, [max(x.of_each, default=0) for x in rows]
        self._steps_s, self._ends_s = busy_s / together, busy_s * costs.ends
        self._most_shares, self._least_s = at_once * most / together, busy_s * LEAST_TILES * [x.bk for x in rows]
        self._beside_s = np.array([x.more_s for x in rows]) + costs.wave_s
        # of each tile: its pairs, the addition of its shares, what it fetches; and that of each step of k
        zeros, fold = np.zeros(len(rows)), [x.area if x.of_each else math.inf for x in rows]
        self._of_tile = np.array((tile_s * together * costs.ends, fold, zeros))
        of_few: list[Any] = [*self._sides, self._steps_s, self._ends_s, tile_s, *self._of_tile[:2]]
        of_few += [x.fetched for x in rows], self._most_shares, self._least_s, self._beside_s
        self._few = [tuple(map(float, x)) for x in zip(*of_few, strict=True)]
        self._of_step = np.array((tile_s, zeros, [x.fetched for x in rows]))

    def bounds(self, m: int, n: int, k: int, model: Model) -> tuple[list[float], list[float], list[int]]:
        """Return what pairs and fetches of each row add to `Model.memory` at least, by one share of k and by several.

        A part of the second is the time to add up shares. The numbers of the rows come last, by the lesser of both.
        """
        norm = model.costs.norm
        if len(self.all) <= FEW_ROWS:
            return self._bounds_of_few(m, n, k, model)
        rows, columns = self._sides
        tiles = np.ceil(m / rows) * np.ceil(n / columns)
        of_all, fold, fetched = tiles * (self._of_tile + k * self._of_step)
        fold *= model.fold_s / model.ragged
        steps_s = k * self._steps_s
        of_one = np.maximum(steps_s + self._ends_s, of_all)
        of_steps = np.maximum(steps_s / np.maximum(self._most_shares / tiles, FEW_SHARES[-1]), self._least_s)
        of_fold = 2 * fold
        of_each = np.maximum(of_steps + of_fold, 2 * np.sqrt(steps_s * fold)) + self._ends_s
        of_several = np.maximum(of_each, of_all + of_fold)
        joined = (model.ragged * np.array((of_one, of_several)) + self._beside_s) ** norm
        if model.fetch:
            joined += (model.fetch * fetched) ** norm
        return *joined.tolist(), joined.min(0).argsort(kind="stable").tolist()

    def _bounds_of_few(self, m: int, n: int, k: int, model: Model) -> tuple[list[float], list[float], list[int]]:
        """Return the same of so few rows that arrays take longer than numbers."""
        norm, ragged, fetch, last = model.costs.norm, model.ragged, model.fetch * k, FEW_SHARES[-1]
        fold_s, of_one, of_several = 2 * model.fold_s / ragged, [], []
        for bm, bn, step_s, ends_s, tile_s, tile_ends_s, fold, fetched, most, least_s, beside_s in self._few:
            tiles = -(-m // bm) * -(-n // bn)
            steps_s, of_all, of_fold = k * step_s, tiles * (k * tile_s + tile_ends_s), fold_s * tiles * fold
            one, fetch_s = max(steps_s + ends_s, of_all), (fetch * tiles * fetched) ** norm
            of_steps = max(steps_s / max(last, most / tiles), least_s)
            of_each = max(of_steps + of_fold, math.sqrt(2 * steps_s * of_fold)) + ends_s
            of_one.append((ragged * one + beside_s) ** norm + fetch_s)
            of_several.append((ragged * max(of_each, of_all + of_fold) + beside_s) ** norm + fetch_s)
        least = list(map(min, of_one, of_several))
        return of_one, of_several, sorted(range(len(least)), key=least.__getitem__)


@dataclass(frozen=True, eq=False)
class TileFamily:
    """The tiles of a kind of kernel, the numbers of blocks of its clusters, and its costs.

    Blocks of a cluster share k (`together`), or what they fetch of the operand that their tiles have in common
    (`clusters`).

    If C is narrower than `least`, the narrowest tile that covers it is taken. Otherwise tiles narrower than `least` are
    ignored. With `is_alone` blocks of clusters share k only where each has a multiprocessor for itself, and no other
    shares are needed. Lines of tiles have elements of `itemsize` bytes, and `pad` of them more in shared memory.
    """

    tiles: tuple[Tile, ...]
    costs: Costs
    together: tuple[int, ...] = (1,)
    clusters: tuple[int, ...] = (1,)
    least: int = 0
    is_alone: bool = False
    stagger: Stagger = NO_STAGGER
    itemsize: int = 4
    pad: int = 4

    def fastest(
        self, problem: Problem, device: Device, most_s: float | None = None, *, can_share: bool = True
    ) -> tuple[float, Choice] | None:
        """Return the least time by the model [s], and its launch: of equal ones the first, with the fewest shares.

        None: all take longer than `most_s`. Without that the time of the only launch is not told. Rows come in the
        order of a bound that is never above their time, up to the least time so far. For small products one tile is
        thought of, so that sizes share kernels.
        """
        m, n, k = max(problem.m, 1), max(problem.n, 1), max(problem.k, 1)
        fitting = self if device.is_measured else _fitting(self, device)
        rows = fitting.rows(m, n, device, is_small=max(m, n, k) <= SMALL, can_share=can_share)
        if most_s is None and rows.only:
            return 0, rows.only
        model, first, found = Model(self.costs, problem, device, is_alone=self.is_alone), len(rows.all), None
        least_s = math.inf if most_s is None else most_s
        if least_s <= model.beside_s:
            return None
        budget, of_several = model.budgets(least_s)
        one, several, order = rows.bounds(m, n, k, model)
        for number in order:
            is_one, are_several = one[number] <= budget, several[number] <= of_several
            if not is_one and several[number] > budget:
                break
            if is_one or are_several:
                seconds, shares = model.of_row(rows.all[number], m, n, k, is_one, are_several)
                if seconds < least_s or (seconds == least_s and number < first):
                    least_s, first, found = seconds, number, (rows.all[number], shares)
                    budget, of_several = model.budgets(least_s)
        if found is None:
            return None
        row, shares = found
        return least_s, Choice(row.tile, shares, row.together, cluster=row.cluster)

    def rows(self, m: int, n: int, device: Device, *, is_small: bool, can_share: bool) -> Rows:
        """Return the rows of all tiles that are thought of for a C of that size: the same for many sizes."""
        low, rows, columns = (
            sides[index] if (index := bisect.bisect_left(sides, size)) < len(sides) else otherwise
            for sides, size, otherwise in zip(self._sides, (m, m, n), (0, self.least, self.least), strict=True)
        )
        key = low, rows, columns, is_small, can_share, device
        kept = self._kept.get(key)
        if kept is None:
            square = [x for x in self.tiles if is_small and x.launch.bm == x.launch.bn == SMALL_SIDE]
            suited = [tile for tile in self.tiles if self._suits(tile, low, rows, columns)]
            tiles = square or suited or self.tiles
            of_k, clusters = (self.together, self.clusters) if not square else ((1,), (1,))
            is_shared = can_share and not square
            kept = self._kept[key] = _rows(self, tiles, of_k, clusters, device, can_share=is_shared)
        return kept

    def _suits(self, tile: Tile, low: int, rows: int, columns: int) -> bool:
        bm, bn = tile.launch.bm, tile.launch.bn
        if tile.is_transposed:
            return bm == low
        is_narrow = bn == columns or bn >= self.least == columns
        return is_narrow and (bm == rows or bm >= self.least)

    @functools.cached_property
    def _kept(self) -> dict[tuple[Any, ...], Rows]:
        return {}

    @functools.cached_property
    def _sides(self) -> tuple[list[int], ...]:
        """Return rows of transposed tiles; rows and columns, below `least`, of all; in order."""
        low = {tile.launch.bm for tile in self.tiles if tile.is_transposed}
        rows, columns = ({getattr(tile.launch, side) for tile in self.tiles} for side in ("bm", "bn"))
        return sorted(low), *(sorted(size for size in sizes if size < self.least) for sizes in (rows, columns))

    @functools.cached_property
    def by_numbers(self) -> dict[tuple[int, ...], Tile]:
        """Tiles by bm, bn, bk, stages and slices."""
        return {(x.launch.bm, x.launch.bn, x.launch.bk, x.launch.stages, x.slices): x for x in reversed(self.tiles)}

    def choose(self, problem: Problem, device: Device, *, can_share: bool = True) -> Choice:
        """Return the launch of least time; without `can_share` blocks share no k."""
        found = self.fastest(problem, device, can_share=can_share)
        assert found is not None
        return self.staggered(problem, found[1])

    def staggered(self, problem: Problem, choice: Choice) -> Choice:
        """Return a choice with the number of steps of k at which its tiles begin."""
        return choice._replace(stagger=self.stagger.of(problem, choice))


@functools.cache
def _fitting(family: TileFamily, device: Device) -> TileFamily:
    """Return a family with the tiles that fit into the shared memory of a GPU, and as many of each as fit at once."""
    found = []
    for tile in family.tiles:
        launch, pad = tile.launch, family.pad
        lines = (max(side * (launch.bk + pad), launch.bk * (side + pad)) for side in (launch.bm, launch.bn))
        needed = launch.stages * sum(lines) * family.itemsize
        if needed <= device.shared_memory:
            at_once = device.blocks_by_shared_memory(needed)
            found.append(tile._replace(blocks=max(1, min(tile.blocks, at_once))))
    return replace(family, tiles=tuple(found))


def _rows(
    family: TileFamily,
    tiles: Sequence[Tile],
    together: tuple[int, ...],
    clusters: tuple[int, ...],
    device: Device,
    *,
    can_share: bool,
) -> Rows:
    rows = []
    kinds = [*((x, 1) for x in (together if can_share else (1,))), *((1, x) for x in clusters[1:])]
    has_clusters = len(family.together) > 1 or len(family.clusters) > 1
    for tile, (of_k, cluster) in itertools.product(tiles, kinds):
        launch, sides = tile.launch, (tile.launch.bm, tile.launch.bn)
        in_common, other = sides if tile.is_transposed else sides[::-1]
        busy, area = min(tile.warps * WARP / tile.threads, tile.blocks), launch.bm * launch.bn
        at_once = device.alone(of_k * cluster) if has_clusters else device.multiprocessors
        is_shared = can_share and not (family.is_alone and of_k > 1)
        of_each = (*BLOCKS_OF_EACH, *(share * tile.blocks for share in OF_HELD)) if is_shared else ()
        shape = (*sides, launch.bk, area, tile.rate, busy, tile.blocks, tile.is_transposed)
        least, fetched = LEAST_TILES * launch.bk * of_k, in_common / cluster + other
        more_s = (of_k > 1) * family.costs.together_s + (cluster > 1) * family.costs.cluster_s
        rows.append(Row(tile, *shape, of_k, cluster, at_once, of_each, least, fetched, more_s))
    return Rows(rows, family.costs, MEASURED.multiprocessors / device.speed[family.costs.speed])
