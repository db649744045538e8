"""The time of tiles by a model: pairs, memory, fetches of tiles, launches and shares of k.

Pairs and what moves overlap, so their times are joined by a norm. A block that is alone on its multiprocessor hides no
latency, and tiles that stick out of C compute for nothing. All candidates of a product are weighed at once.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from harness.plan import WARP
from harness.problem import Problem
from harness.tuning.device import MEASURED, Device
from harness.tuning.gpu.family import NO_STAGGER, Choice, Costs, Stagger, Tile

# Bytes that rows must begin at a multiple of to be read and written at once.
ALIGNMENT = 16

# Bytes of a line of memory and of its sectors, and those of all operands that L2 holds whole, or holds none of, of a
# product that is repeated.
LINE, SECTOR, IN_L2 = 128, 32, (36e6, 48e6)

# Side of the tile of small products, and the longest side of such a product.
SMALL_SIDE, SMALL = 32, 128

# Fewest tiles along k of a share.
LEAST_TILES = 2

# Numbers of shares that are always thought of. Beside them those that give a multiprocessor so many blocks; the last
# two times as many as it holds.
FEW_SHARES, BLOCKS_OF_EACH, OF_HELD = (1, 2, 3, 4, 5, 6), (0.5, 1.0, 2.0), (0.5, 1.0)


# By how much rounding may make a bound greater than a time.
LEEWAY = 1e-9


class Row(NamedTuple):
    """A tile and a kind of cluster that may be thought of, on one GPU; blocks share k by any of some numbers.

    Attributes
    ----------
    tile : Tile
    bm, bn, bk, area : int
    rate : float
    busy : float
        Blocks of a multiprocessor that reach the rate: fewer take as long.
    held : int
    is_transposed : bool
    in_common, other : int
        Side of what the blocks of a cluster may share, and the other one.
    together, cluster, at_once : int
        Blocks that share k, or what they fetch; and those that have a multiprocessor each for themselves.
    of_each : tuple of float
        Blocks of a multiprocessor that shares may give; empty: no others than those of `together` share k.
    least : int
        Steps of k of each of several shares.
    """

    tile: Tile
    bm: int
    bn: int
    bk: int
    area: int
    rate: float
    busy: float
    held: int
    is_transposed: bool
    in_common: int
    other: int
    together: int
    cluster: int
    at_once: int
    of_each: tuple[float, ...]
    least: int


class Rows:
    """Rows that are thought of for many products, and what bounds the times of their pairs."""

    def __init__(self, rows: list[Row], costs: Costs, slower: float) -> None:
        self.all = rows
        is_one = len(rows) == 1 and not rows[0].of_each
        self.only = Choice(rows[0].tile, 1) if is_one else None  # no other launch is thought of
        self._sides = np.array([(x.bm, x.bn) for x in rows], np.float64).T.copy()
        step_s = np.array([slower * x.area / x.rate for x in rows])
        together = np.array([x.together for x in rows], np.float64)
        busy_s, tile_s = step_s * [x.busy for x in rows], step_s / [x.at_once for x in rows]
        self._of_busy = busy_s / together, busy_s * costs.ends
        self._of_all = tile_s, tile_s * together * costs.ends
        most = [max(x.of_each, default=0) for x in rows]
        self._most_shares = np.array([x.at_once for x in rows]) * most / together
        self._least_s = busy_s * LEAST_TILES * [x.bk for x in rows]
        more = [(x.together > 1) * costs.together_s + (x.cluster > 1) * costs.cluster_s for x in rows]
        self._beside_s = np.array(more) + costs.wave_s
        self._fetched = np.array([x.in_common / x.cluster + x.other for x in rows])
        self._fold = np.array([x.area if x.of_each else math.inf for x in rows])

    def bounds(self, m: int, n: int, k: int, model: Model) -> tuple[list[float], list[float]]:
        """Return what pairs and fetches of each row add to `Model.memory` at least, by one share of k and by several.

        A part of the second is the time to add up shares.
        """
        fold_s, norm = model.fold_s / model.ragged, model.costs.norm
        down, across = np.ceil(np.array(((m,), (n,))) / self._sides)
        tiles = down * across
        (step_s, ends_s), (all_s, all_ends_s) = self._of_busy, self._of_all
        steps_s, of_all, fold = k * step_s, tiles * (k * all_s + all_ends_s), fold_s * tiles * self._fold
        one = np.maximum(steps_s + ends_s, of_all)
        of_steps = np.maximum(steps_s / np.maximum(FEW_SHARES[-1], self._most_shares / tiles), self._least_s)
        of_each = np.maximum(of_steps + 2 * fold, 2 * np.sqrt(steps_s * fold)) + ends_s
        several = np.maximum(of_each, of_all + 2 * fold)
        joined = (model.ragged * np.array((one, several)) + self._beside_s) ** norm
        if model.fetch:
            joined += (model.fetch * k * tiles * self._fetched) ** norm
        of_one, of_several = joined.tolist()
        return of_one, of_several


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
        model, least_s, first, found = (
            Model(self, problem, device),
            math.inf if most_s is None else most_s,
            len(rows.all),
            None,
        )
        budget, of_several = model.budgets(least_s)
        one, several = rows.bounds(m, n, k, model)
        for bound, number in sorted(zip(map(min, one, several), itertools.count())):
            if bound > budget:
                break
            is_one, are_several = one[number] <= budget, several[number] <= of_several
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


def _memory_s(problem: Problem, costs: Costs, *, is_ragged_c: bool) -> float:
    """Return the time in which memory moves A, B and C [s]."""
    m, n, k, narrow, wide = problem.m, problem.n, problem.k, problem.input_dtype.itemsize, problem.dtype.itemsize
    read, written = narrow * k * (m + n), wide * m * n
    far = in_memory(read + written) if costs.near else 1
    of_c = written / costs.write * (costs.ragged_c if is_ragged_c else 1)
    return read * (far / costs.read + (1 - far) / (costs.near or 1)) + of_c


def in_memory(size: float) -> float:
    """Return which share of operands of so many bytes comes from memory, if a product is repeated."""
    return min(max((size - IN_L2[0]) / (IN_L2[1] - IN_L2[0]), 0), 1)


def is_ragged(lines: tuple[int, int, int], narrow: int, wide: int) -> tuple[bool, bool, bool]:
    """Return whether lines of A, of B and of C with so many elements are not aligned, by bytes of an element."""
    of_a, of_b, of_c = lines
    return of_a * narrow % ALIGNMENT != 0, of_b * narrow % ALIGNMENT != 0, of_c * wide % ALIGNMENT != 0


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
        shape = (*sides, launch.bk, area, tile.rate, busy, tile.blocks, tile.is_transposed, in_common, other)
        least = LEAST_TILES * launch.bk * of_k
        rows.append(Row(tile, *shape, of_k, cluster, at_once, of_each, least))
    return Rows(rows, family.costs, MEASURED.multiprocessors / device.speed[family.costs.speed])


class Model:
    """What the time of all launches of a product depends on, once."""

    def __init__(self, family: TileFamily, problem: Problem, device: Device) -> None:
        costs = self.costs = family.costs
        m, n, k, narrow, wide = problem.m, problem.n, problem.k, problem.input_dtype.itemsize, problem.dtype.itemsize
        ragged_a, ragged_b, ragged_c = is_ragged(problem.lines, narrow, wide)
        self.multiprocessors, self.is_alone = device.multiprocessors, family.is_alone
        self.has_clusters, self.are_together = len(family.clusters) > 1, len(family.together) > 1
        self.ragged = (costs.ragged_a if ragged_a else 1) * (costs.ragged_b if ragged_b else 1)
        self.slower = self.ragged * (MEASURED.multiprocessors / device.speed[costs.speed])
        memory_s = _memory_s(problem, costs, is_ragged_c=ragged_c) / device.speed["memory"]
        self.memory = memory_s**costs.norm
        self.beside_s = costs.launch_s
        if ragged_a or ragged_b:
            self.beside_s += costs.copy_s + costs.copy_byte_s * narrow * (m * k * ragged_a + k * n * ragged_b)
        self.fetch, self.fold_s = narrow / costs.fetch, costs.fold_byte_s * wide
        of_b = n * narrow
        self.crosses = costs.crossing != 1 and (of_b % LINE != 0 or k * narrow % LINE != 0)
        self.row, self.narrow, self.n = of_b, narrow, n
        # Requests for a line that a block makes at once: four sectors. Short rows of B are asked for one by one. The
        # more of them a line has, the fewer lines there are to be asked for.
        sectors = LINE // SECTOR
        self.of_lines, self.of_short = (
            sectors,
            sectors if of_b % ALIGNMENT else max(sectors, (LINE / max(of_b, 1)) ** 2),
        )

    def budgets(self, least_s: float) -> tuple[float, float]:
        """Return the bounds of `Rows` above which a launch is slower than that [s], by one share and by several."""
        beside_s, norm, memory = self.beside_s, self.costs.norm, self.memory - LEEWAY * self.memory
        of_several_s = max(least_s - beside_s - self.costs.fold_s, 0)
        return (least_s - beside_s) ** norm * (1 + LEEWAY) - memory, of_several_s**norm * (1 + LEEWAY) - memory

    def of_row(self, row: Row, m: int, n: int, k: int, is_one: bool, are_several: bool) -> tuple[float, int]:
        """Return the least time of a row, by one share or several [s], and their number; infinite: none."""
        down, across = -(-m // row.bm), -(-n // row.bn)
        tiles, along = down * across, across if row.is_transposed else down
        is_apart = self.is_alone and row.together > 1 and row.together * tiles > row.at_once
        if is_apart or (row.cluster > 1 and along < row.cluster):
            return math.inf, 1
        best_s, shares = self.seconds(row, tiles, along, k, 1) if is_one else math.inf, 1
        if are_several and row.of_each and (most := k // row.least) > 1:
            one_each = self.multiprocessors / (tiles * row.together)
            for number in sorted({*FEW_SHARES[1:], *(math.floor(one_each * x) for x in row.of_each)}):
                if 1 < number <= most:
                    seconds = self.seconds(row, tiles, along, k, number)
                    if seconds < best_s:
                        best_s, shares = seconds, number
        return best_s, shares

    def seconds(self, row: Row, tiles: int, along: int, k: int, shares: int) -> float:
        """Return the time of a launch [s]."""
        costs, cluster, in_common = self.costs, row.cluster, row.in_common / row.cluster
        count, steps_of_all = tiles, -(-k // row.bk)
        if cluster > 1:
            count = tiles // along * -(-along // cluster) * cluster
        steps = -(-steps_of_all // row.together)
        each = -(-steps // shares)
        shares = -(-steps // each)
        blocks, steps_of_each = shares * row.together * count, each * row.bk
        waves, rest = divmod(blocks, row.at_once * row.held)
        last = max(-(-rest // row.at_once), row.busy) if rest else 0
        pairs = (waves * row.held + last) * row.area * (steps_of_each + costs.ends)
        joined: float = (pairs * self.slower / row.rate + costs.wave_s * (waves + (rest > 0))) ** costs.norm
        if self.fetch:
            fetched = blocks * steps_of_each * (in_common + row.other)
            if self.crosses or (costs.crossing != 1 and self._crosses(row)):
                fetched *= costs.crossing
            joined += (self.fetch * fetched) ** costs.norm
        if costs.asked_s:
            sectors = self.of_lines if row.is_transposed else self.of_short
            joined += (along * steps_of_all * (costs.asked_s * sectors) / cluster) ** costs.norm
        seconds: float = (joined + self.memory) ** (1 / costs.norm) + self.beside_s
        if shares > 1:
            seconds += costs.fold_s + self.fold_s * shares * tiles * row.area
        if row.together > 1:
            seconds += costs.together_s
        return seconds + costs.cluster_s if cluster > 1 else seconds

    def _crosses(self, row: Row) -> bool:
        """Return whether rows of tiles of B begin within lines of memory."""
        return not row.is_transposed and row.bn < self.n and row.bn * self.narrow % LINE != 0
