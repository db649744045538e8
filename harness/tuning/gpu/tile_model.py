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
from harness.tuning.gpu.family import NO_STAGGER, Choice, Column, Costs, Stagger, Tile, least

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


class Columns(NamedTuple):
    """A row for each tile, number of shares and kind of cluster that may be thought of."""

    bm: Column
    bn: Column
    bk: Column
    area: Column
    rate: Column
    busy: Column  # blocks of a multiprocessor that reach the rate: fewer take as long
    held: Column
    is_transposed: Column  # 0 or 1
    in_common: Column  # side of what the blocks of a cluster may share, and the other one
    other: Column
    fixed: Column  # number of shares, or as many as give a multiprocessor so many blocks
    of_each: Column
    together: Column
    cluster: Column
    least: Column  # steps of k of each of several shares
    tile: Column  # its number


class Candidates(Sequence[Choice]):
    """Launches of tiles for a product, as columns of numbers; `tiles` and `along` of C, and in line with a cluster."""

    def __init__(self, of: Sequence[Tile], columns: Columns, shares: Column, tiles: Column, along: Column) -> None:
        self._of, self.columns, self.shares, self.tiles, self.along = of, columns, shares, tiles, along

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, index: Any) -> Any:
        columns = self.columns
        together, cluster = int(columns.together[index]), int(columns.cluster[index])
        tile = self._of[int(columns.tile[index])]
        return Choice(tile, int(self.shares[index]), together, cluster=cluster)


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

    def candidates(self, problem: Problem, device: Device, *, can_share: bool = True) -> Candidates:
        """Return all launches that are thought of: for small products one tile, so that sizes share kernels."""
        m, n, k = max(problem.m, 1), max(problem.n, 1), problem.k
        fitting = self if device.is_measured else _fitting(self, device)
        matrix = fitting.rows(m, n, is_small=max(m, n, k) <= SMALL, can_share=can_share)
        columns = Columns(*matrix)
        down, across = np.ceil(np.array([[m], [n]]) / matrix[:2])
        tiles, has_clusters = down * across, len(self.clusters) > 1
        along = np.where(columns.is_transposed, across, down) if has_clusters or self.costs.asked_s else down
        one_each = device.multiprocessors / (tiles * columns.together if len(self.together) > 1 else tiles)
        shares = np.maximum(columns.fixed, np.floor(one_each * columns.of_each))
        is_possible = shares * columns.least <= k
        if has_clusters:
            is_possible &= (columns.cluster == 1) | (along >= columns.cluster)
        if self.is_alone:
            alone = _alone(columns.together, device)
            is_possible &= (columns.together == 1) | (columns.together * tiles <= alone)
        possible = is_possible.nonzero()[0]
        columns = Columns(*matrix[:, possible])
        return Candidates(fitting.tiles, columns, shares[possible], tiles[possible], along[possible])

    def seconds(self, problem: Problem, candidates: Candidates, device: Device) -> Column:
        """Return the times of launches by the model [s]."""
        costs, columns, (tiles, along) = self.costs, candidates.columns, (candidates.tiles, candidates.along)
        m, n, k, narrow, wide = problem.m, problem.n, problem.k, problem.input_dtype.itemsize, problem.dtype.itemsize
        ragged_a, ragged_b, ragged_c = is_ragged(problem.lines, narrow, wide)
        together, cluster, has_clusters = columns.together, columns.cluster, len(self.clusters) > 1
        if has_clusters:
            tiles = np.where(cluster > 1, tiles / along * np.ceil(along / cluster) * cluster, tiles)
        steps_of_all = np.ceil(max(k, 1) / columns.bk)
        are_together = len(self.together) > 1
        steps = np.ceil(steps_of_all / together) if are_together else steps_of_all
        each = np.ceil(steps / candidates.shares)
        shares = np.ceil(steps / each)
        blocks = shares * together * tiles if are_together else shares * tiles
        at_once: Any = device.multiprocessors
        if has_clusters or are_together:
            at_once = _alone(together * cluster, device)
        wave, steps_of_each = at_once * columns.held, each * columns.bk
        waves = np.floor(blocks / wave)
        rest = blocks - waves * wave
        has_rest = rest > 0
        last = np.where(has_rest, np.maximum(np.ceil(rest / at_once), columns.busy), 0)
        pairs = (waves * columns.held + last) * columns.area * (steps_of_each + costs.ends)
        slower = (costs.ragged_a if ragged_a else 1) * (costs.ragged_b if ragged_b else 1)
        slower *= MEASURED.multiprocessors / device.speed[costs.speed]
        joined = (pairs * slower / columns.rate + costs.wave_s * (waves + has_rest)) ** costs.norm
        if costs.fetch < math.inf:
            sides = (columns.in_common / cluster if has_clusters else columns.in_common) + columns.other
            fetched = blocks * steps_of_each * sides
            if costs.crossing != 1:
                fetched = np.where(_crosses_lines(problem, columns), fetched * costs.crossing, fetched)
            joined = joined + (narrow / costs.fetch * fetched) ** costs.norm
        if costs.asked_s:
            asked = along * steps_of_all * (costs.asked_s * _sectors(problem, columns))
            asked = asked / cluster if has_clusters else asked
            joined = joined + asked**costs.norm
        memory_s = _memory_s(problem, costs, is_ragged_c=ragged_c) / device.speed["memory"]
        beside_s = costs.launch_s
        if ragged_a or ragged_b:
            beside_s += costs.copy_s + costs.copy_byte_s * narrow * (m * k * ragged_a + k * n * ragged_b)
        times: Column = (joined + memory_s**costs.norm) ** (1 / costs.norm) + beside_s
        fold = costs.fold_s + costs.fold_byte_s * wide * shares * candidates.tiles * columns.area
        times = times + np.where(shares > 1, fold, 0)
        if costs.together_s:
            times = times + costs.together_s * (together > 1)
        if has_clusters:
            times = times + costs.cluster_s * (cluster > 1)
        return times

    def rows(self, m: int, n: int, *, is_small: bool, can_share: bool) -> Column:
        """Return the `Columns` of all tiles that are thought of for a C of that size: the same for many sizes."""
        low, rows, columns = (
            sides[index] if (index := bisect.bisect_left(sides, size)) < len(sides) else otherwise
            for sides, size, otherwise in zip(self._sides, (m, m, n), (0, self.least, self.least), strict=True)
        )
        key = low, rows, columns, is_small, can_share
        if key not in self._kept:
            square = [x for x in self.tiles if is_small and x.launch.bm == x.launch.bn == SMALL_SIDE]
            suited = [tile for tile in self.tiles if self._suits(tile, low, rows, columns)]
            tiles = square or suited or self.tiles
            of_k, clusters = (self.together, self.clusters) if not square else ((1,), (1,))
            is_shared = can_share and not square
            numbered = [(self.tiles.index(tile), tile) for tile in tiles]
            self._kept[key] = _rows(numbered, of_k, clusters, is_alone=self.is_alone, can_share=is_shared)
        return self._kept[key]

    def _suits(self, tile: Tile, low: int, rows: int, columns: int) -> bool:
        bm, bn = tile.launch.bm, tile.launch.bn
        if tile.is_transposed:
            return bm == low
        is_narrow = bn == columns or bn >= self.least == columns
        return is_narrow and (bm == rows or bm >= self.least)

    @functools.cached_property
    def _kept(self) -> dict[tuple[int, int, int, bool, bool], Column]:
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
        candidates = self.candidates(problem, device, can_share=can_share)
        if len(candidates) > 1:
            return self.staggered(problem, least(candidates, self.seconds(problem, candidates, device))[1])
        return self.staggered(problem, candidates[0])

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


def _crosses_lines(problem: Problem, columns: Columns) -> Any:
    """Return whether rows of tiles of A or B begin within lines of memory."""
    narrow = problem.input_dtype.itemsize
    if problem.n * narrow % LINE or problem.k * narrow % LINE:
        return True
    return (columns.is_transposed == 0) & (columns.bn < problem.n) & (columns.bn * narrow % LINE != 0)


def _sectors(problem: Problem, columns: Columns) -> Any:
    """Return the requests for a line that a block makes at once: four sectors.

    Short rows of B are asked for one by one. The more of them a line has, the fewer lines there are to be asked for.
    """
    row, sectors = problem.n * problem.input_dtype.itemsize, LINE // SECTOR
    of_short = sectors if row % ALIGNMENT else max(sectors, (LINE / max(row, 1)) ** 2)
    return sectors if of_short == sectors else np.where(columns.is_transposed, sectors, of_short)


def is_ragged(lines: tuple[int, int, int], narrow: int, wide: int) -> tuple[bool, bool, bool]:
    """Return whether lines of A, of B and of C with so many elements are not aligned, by bytes of an element."""
    of_a, of_b, of_c = lines
    return of_a * narrow % ALIGNMENT != 0, of_b * narrow % ALIGNMENT != 0, of_c * wide % ALIGNMENT != 0


def _alone(clusters: Column, device: Device) -> Column:
    """Return how many blocks of clusters of each size have a multiprocessor each for themselves."""
    by_size = _blocks_alone(device)
    return by_size[clusters.astype(np.intp)]


@functools.cache
def _blocks_alone(device: Device) -> Column:
    return np.array([device.alone(size) for size in range(9)], np.float64)


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
    tiles: Sequence[tuple[int, Tile]],
    together: tuple[int, ...],
    clusters: tuple[int, ...],
    *,
    is_alone: bool,
    can_share: bool,
) -> Column:
    rows = []
    kinds = [*((x, 1) for x in (together if can_share else (1,))), *((1, x) for x in clusters[1:])]
    for (number, tile), (of_k, cluster) in itertools.product(tiles, kinds):
        shares = [(x, 0.0) for x in FEW_SHARES] + [(1, x) for x in BLOCKS_OF_EACH]
        shares += [(1, share * tile.blocks) for share in OF_HELD]
        for fixed, of_each in shares if can_share and not (is_alone and of_k > 1) else [(1, 0.0)]:
            launch, sides = tile.launch, (tile.launch.bm, tile.launch.bn)
            in_common, other = sides if tile.is_transposed else sides[::-1]
            busy = min(tile.warps * WARP / tile.threads, tile.blocks)
            numbers = (*sides, launch.bk, launch.bm * launch.bn, tile.rate, busy, tile.blocks, tile.is_transposed)
            least = LEAST_TILES * launch.bk * of_k if fixed > 1 or of_each else 0
            rows.append((*numbers, in_common, other, fixed, of_each, of_k, cluster, least, number))
    return np.array(rows, np.float64).T.copy()
