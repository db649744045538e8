"""Families of kernels: what each would launch for a product, and how long that takes; the plan is what takes least.

The time of tiles is a model: pairs, memory, fetches of tiles, launches and shares of k. Pairs and what moves overlap,
so their times are joined by a norm. A block that is alone on its multiprocessor hides no latency, and tiles that stick
out of C compute for nothing. All candidates of a product are weighed at once.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from harness.plan import WARP, Launch
from harness.problem import Problem
from harness.tuning.device import MEASURED, Device

# Bytes that rows must begin at a multiple of to be read and written at once.
ALIGNMENT = 16

# Bytes of a line of memory and of its sectors, and those of all operands that L2 holds whole, or holds none of, of a
# product that is repeated.
LINE, SECTOR, IN_L2 = 128, 32, (36e6, 48e6)

# Rows of tiles by wgmma that are computed as they are: one or two instructions.
WGMMA_ROWS = (64, 128)

# Side of the tile of small products, and the longest side of such a product.
SMALL_SIDE, SMALL = 32, 128

# Fewest tiles along k of a share.
LEAST_TILES = 2

# Numbers of shares that are always thought of. Beside them those that give a multiprocessor so many blocks; the last
# two times as many as it holds.
FEW_SHARES, BLOCKS_OF_EACH, OF_HELD = (1, 2, 3, 4, 5, 6), (0.5, 1.0, 2.0), (0.5, 1.0)

# Most shares, and bytes between rows of B, for which tiles begin at different steps of k
# (docs/lab/2026-11-24-stagger.md).
SHARES, LINES = 2, 1024

Column = np.ndarray[Any, np.dtype[np.float64]]


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

    @property
    def is_transposed(self) -> bool:
        """Whether C is computed transposed: by wgmma, where rows of a tile are none of its instruction."""
        return not self.launch.wm and self.launch.bm not in WGMMA_ROWS


class Choice(NamedTuple):
    """A tile, the number of shares of k, and the blocks of a cluster that each of these is divided among.

    Tiles begin at `stagger` steps of k (``stagger.cuh``). The blocks of a `cluster` share what they fetch instead.
    """

    tile: Tile
    shares: int
    together: int = 1
    stagger: int = 1
    cluster: int = 1


class Family(Protocol):
    """Launches of one kind of kernel."""

    def candidates(self, problem: Problem, device: Device) -> Sequence[Choice]:
        """Return what may be launched for a product on a GPU."""
        ...

    def seconds(self, problem: Problem, candidates: Any, device: Device) -> Sequence[float] | Column:
        """Return the time of each of the candidates [s]."""
        ...


def fastest(families: Mapping[str, Family], problem: Problem, device: Device) -> tuple[str, Choice]:
    """Return the candidate of least time, and the name of its family; of equal ones the first."""
    found = []
    for name, family in families.items():
        candidates = family.candidates(problem, device)
        if len(candidates) == len(families) == 1:
            return name, candidates[0]
        if len(candidates):
            times = np.asarray(family.seconds(problem, candidates, device))
            least = float(times.min())
            found.append((least, name, candidates, times))
    least, name, candidates, times = min(found, key=lambda of_family: of_family[0])
    first, *others = (candidates[int(index)] for index in np.flatnonzero(times == least))
    for choice in others:  # numbers of shares of which some are empty: the fewest
        if choice.shares < first.shares and choice._replace(shares=first.shares) == first:
            first = choice
    return name, first


class Costs(NamedTuple):
    """What the products of a kind of kernel take beside their pairs.

    Attributes
    ----------
    launch_s, wave_s : float
        Time of a launch [s], and what each wave of blocks takes longer.
    read, write : float
        Bytes of A and B, and of C, that memory moves in a second.
    near : float
        Bytes of A and B in a second where all operands fit into L2 (`IN_L2`); 0: as from memory.
    fetch : float
        Bytes of tiles of A and B that multiprocessors fetch in a second, most of them from L2.
    crossing : float
        How much longer fetches take of tiles whose rows do not begin at lines of memory.
    asked_s : float
        Time of one request for a sector that all blocks ask for at once [s].
    ends : float
        Steps of k that a block could do in the time of its first loads and of its stores.
    ragged_a, ragged_b, ragged_c : float
        How much longer pairs take where rows of A, or of B, are not aligned, and stores of C where its rows are not.
    fold_s, fold_byte_s : float
        Time to add up sums of shares [s], and that for each byte of them.
    together_s, cluster_s : float
        Time in which the blocks of a cluster that share k add up their sums; what clusters take longer that share what
        they fetch.
    copy_s, copy_byte_s : float
        Time of copies of operands whose rows are not aligned, where the kernel needs them, and that for each byte.
    norm : float
        Pairs, memory and fetches overlap: the time of all is the norm of this order of the time of each.
    speed : str
        The rate of a `Device` by which the rates of tiles are scaled for chips that were not measured.
    """

    launch_s: float = 1.8e-6
    wave_s: float = 0.6e-6
    read: float = 4.1e12
    write: float = 2.9e12
    near: float = 0
    fetch: float = math.inf
    crossing: float = 1
    asked_s: float = 0
    ends: float = 6
    ragged_a: float = 1
    ragged_b: float = 1
    ragged_c: float = 1.5
    fold_s: float = 2.6e-6
    fold_byte_s: float = 0.4e-12
    together_s: float = 0
    cluster_s: float = 0
    copy_s: float = 0
    copy_byte_s: float = 0
    norm: float = 2.5
    speed: str = "single"


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


NO_STAGGER = Stagger()


class Columns(NamedTuple):
    """A row for each tile, number of shares and kind of cluster that may be thought of."""

    tile: tuple[Tile, ...]
    bm: Column
    bn: Column
    bk: Column
    area: Column
    rate: Column
    busy: Column  # blocks of a multiprocessor that reach the rate: fewer take as long
    held: Column
    is_transposed: Any
    in_common: Column  # side of what the blocks of a cluster may share, and the other one
    other: Column
    fixed: Column  # number of shares, or as many as give a multiprocessor so many blocks
    of_each: Column
    together: Column
    cluster: Column


class Candidates(Sequence[Choice]):
    """Launches of tiles for a product, as columns of numbers."""

    def __init__(self, columns: Columns, shares: Column, tiles: Column, along: Column, is_possible: Any) -> None:
        self.columns, self.shares, self.tiles, self.along = columns, shares, tiles, along
        self.is_possible = is_possible

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, index: Any) -> Any:
        columns = self.columns
        together, cluster = int(columns.together[index]), int(columns.cluster[index])
        return Choice(columns.tile[index], int(self.shares[index]), together, cluster=cluster)


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
        columns = fitting.columns(m, n, is_small=max(m, n, k) <= SMALL, can_share=can_share)
        down, across = np.ceil(m / columns.bm), np.ceil(n / columns.bn)
        tiles, has_clusters = down * across, len(self.clusters) > 1
        along = np.where(columns.is_transposed, across, down) if has_clusters or self.costs.asked_s else down
        one_each = device.multiprocessors / (tiles * columns.together)
        shares = np.maximum(columns.fixed, np.floor(one_each * columns.of_each))
        most = k // (LEAST_TILES * columns.bk * columns.together)
        is_possible = (shares == 1) | (shares <= most)
        if has_clusters:
            is_possible &= (columns.cluster == 1) | (along >= columns.cluster)
        if self.is_alone:
            alone = _alone(columns.together, device)
            is_possible &= (columns.together == 1) | (columns.together * tiles <= alone)
        return Candidates(columns, shares, tiles, along, is_possible)

    def seconds(self, problem: Problem, candidates: Candidates, device: Device) -> Column:
        """Return the times of launches by the model [s]; of those that are not possible infinity."""
        costs, columns, (tiles, along) = self.costs, candidates.columns, (candidates.tiles, candidates.along)
        m, n, k, narrow, wide = problem.m, problem.n, problem.k, problem.input_dtype.itemsize, problem.dtype.itemsize
        ragged_a, ragged_b, ragged_c = is_ragged(problem.lines, narrow, wide)
        together, cluster, has_clusters = columns.together, columns.cluster, len(self.clusters) > 1
        if has_clusters:
            tiles = np.where(cluster > 1, tiles / along * np.ceil(along / cluster) * cluster, tiles)
        steps_of_all = np.ceil(k / columns.bk)
        steps = np.ceil(steps_of_all / together)
        each = np.maximum(1, np.ceil(steps / candidates.shares))
        shares = np.maximum(1, np.ceil(steps / each))
        blocks = shares * together * tiles
        at_once = (
            _alone(together * cluster, device)
            if has_clusters or len(self.together) > 1
            else np.float64(device.multiprocessors)
        )
        waves = np.floor(blocks / (at_once * columns.held))
        rest = blocks - waves * at_once * columns.held
        last = np.where(rest > 0, np.maximum(np.ceil(rest / at_once), columns.busy), 0)
        pairs = (waves * columns.held + last) * columns.area * (each * columns.bk + costs.ends)
        slower = (costs.ragged_a if ragged_a else 1) * (costs.ragged_b if ragged_b else 1)
        slower *= MEASURED.multiprocessors / device.speed[costs.speed]
        joined = (pairs * slower / columns.rate + costs.wave_s * (waves + (rest > 0))) ** costs.norm
        if costs.fetch < math.inf:
            fetched = blocks * each * columns.bk * (columns.in_common / cluster + columns.other)
            if costs.crossing != 1:
                fetched = np.where(_crosses_lines(problem, columns), fetched * costs.crossing, fetched)
            joined = joined + (narrow / costs.fetch * fetched) ** costs.norm
        if costs.asked_s:
            asked = costs.asked_s * along / cluster * steps_of_all * _sectors(problem, columns)
            joined = joined + asked**costs.norm
        memory_s = _memory_s(problem, costs, is_ragged_c=ragged_c) / device.speed["memory"]
        beside_s = costs.launch_s
        if ragged_a or ragged_b:
            beside_s += costs.copy_s + costs.copy_byte_s * narrow * (m * k * ragged_a + k * n * ragged_b)
        times = (joined + memory_s**costs.norm) ** (1 / costs.norm) + beside_s
        fold = costs.fold_s + costs.fold_byte_s * wide * shares * candidates.tiles * columns.area
        times = times + np.where(shares > 1, fold, 0)
        if costs.together_s:
            times = times + costs.together_s * (together > 1)
        if has_clusters:
            times = times + costs.cluster_s * (cluster > 1)
        return np.where(candidates.is_possible, times, math.inf)

    def columns(self, m: int, n: int, *, is_small: bool, can_share: bool) -> Columns:
        """Return the rows for all tiles that are thought of for a C of that size, which are the same for many sizes."""
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
            self._kept[key] = _columns(tiles, of_k, clusters, is_alone=self.is_alone, can_share=is_shared)
        return self._kept[key]

    def _suits(self, tile: Tile, low: int, rows: int, columns: int) -> bool:
        bm, bn = tile.launch.bm, tile.launch.bn
        if tile.is_transposed:
            return bm == low
        is_narrow = bn == columns or bn >= self.least == columns
        return is_narrow and (bm == rows or bm >= self.least)

    @functools.cached_property
    def _kept(self) -> dict[tuple[int, int, int, bool, bool], Columns]:
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
        alone = _Alone(self) if not can_share else self
        return self.staggered(problem, fastest({"": alone}, problem, device)[1])

    def staggered(self, problem: Problem, choice: Choice) -> Choice:
        """Return a choice with the number of steps of k at which its tiles begin."""
        return choice._replace(stagger=self.stagger.of(problem, choice))


class _Alone(NamedTuple):
    """A family whose blocks share no k."""

    family: TileFamily

    def candidates(self, problem: Problem, device: Device) -> Candidates:
        return self.family.candidates(problem, device, can_share=False)

    def seconds(self, problem: Problem, candidates: Candidates, device: Device) -> Column:
        return self.family.seconds(problem, candidates, device)


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
    return ~columns.is_transposed & (columns.bn < problem.n) & (columns.bn * narrow % LINE != 0)


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


def _columns(
    tiles: Sequence[Tile], together: tuple[int, ...], clusters: tuple[int, ...], *, is_alone: bool, can_share: bool
) -> Columns:
    rows, of_rows = [], []
    kinds = [*((x, 1) for x in (together if can_share else (1,))), *((1, x) for x in clusters[1:])]
    for tile, (of_k, cluster) in itertools.product(tiles, kinds):
        shares = [(x, 0.0) for x in FEW_SHARES] + [(1, x) for x in BLOCKS_OF_EACH]
        shares += [(1, share * tile.blocks) for share in OF_HELD]
        for fixed, of_each in shares if can_share and not (is_alone and of_k > 1) else [(1, 0.0)]:
            launch, sides = tile.launch, (tile.launch.bm, tile.launch.bn)
            in_common, other = sides if tile.is_transposed else sides[::-1]
            busy = min(tile.warps * WARP / tile.threads, tile.blocks)
            numbers = (*sides, launch.bk, launch.bm * launch.bn, tile.rate, busy, tile.blocks, tile.is_transposed)
            rows.append((*numbers, in_common, other, fixed, of_each, of_k, cluster))
            of_rows.append(tile)
    columns = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    of_all = Columns(tuple(of_rows), *columns)
    return of_all._replace(is_transposed=of_all.is_transposed > 0)
