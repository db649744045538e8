"""The time of a product on a GPU by its tiles, by a model: pairs, memory, fetches of tiles, launches and shares.

Pairs and what moves overlap, so their times are joined by a norm. A block that is alone on its multiprocessor hides no
latency, and tiles that stick out of C compute for nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.plan import WARP, Launch, count_tiles
from harness.problem import Problem
from harness.tuning.device import MEASURED, Device

# Bytes that rows must begin at a multiple of to be read and written at once.
ALIGNMENT = 16

# Bytes of a line of memory and of its sectors, and those of all operands that L2 holds whole, or holds none of, of a
# product that is repeated.
LINE, SECTOR, IN_L2 = 128, 32, (36e6, 48e6)

# Rows of tiles by wgmma that are computed as they are: one or two instructions.
WGMMA_ROWS = (64, 128)


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


class Choice(NamedTuple):
    """A tile, the number of shares of k, and the blocks of a cluster that each of these is divided among.

    Tiles begin at `stagger` steps of k (``stagger.cuh``). The blocks of a `cluster` share what they fetch instead.
    """

    tile: Tile
    shares: int
    together: int = 1
    stagger: int = 1
    cluster: int = 1


def time_s(problem: Problem, choice: Choice, costs: Costs, device: Device) -> float:
    """Return the time of a product [s], by the model."""
    faster, of_memory = device.speed[costs.speed], device.speed["memory"]
    tile, (each, shares) = choice.tile, _steps(problem, choice)
    launch, narrow, wide = tile.launch, problem.input_dtype.itemsize, problem.dtype.itemsize
    m, n, k = problem.m, problem.n, problem.k
    ragged_a, ragged_b, ragged_c = is_ragged(problem, *problem.lines)
    blocks = shares * choice.together * count_blocks(problem, tile, choice.cluster)
    at_once = device.alone(choice.together * choice.cluster)
    waves, rest = divmod(blocks, at_once * tile.blocks)
    least = min(tile.warps * WARP / tile.threads, tile.blocks)  # fewer blocks of a multiprocessor take as long
    last = max(math.ceil(rest / at_once), least) if rest else 0
    pairs = (waves * tile.blocks + last) * launch.bm * launch.bn * (each * launch.bk + costs.ends)
    slower = (costs.ragged_a if ragged_a else 1) * (costs.ragged_b if ragged_b else 1)
    product_s = pairs * MEASURED.multiprocessors / (tile.rate * faster) * slower + costs.wave_s * (waves + (rest > 0))
    written = wide * m * n / costs.write * (costs.ragged_c if ragged_c else 1)
    read = narrow * k * (m + n)
    far = min(max((read + wide * m * n - IN_L2[0]) / (IN_L2[1] - IN_L2[0]), 0), 1) if costs.near else 1
    memory_s = (read * (far / costs.read + (1 - far) / (costs.near or 1)) + written) / of_memory
    in_common, own = (launch.bm, launch.bn) if tile.is_transposed else (launch.bn, launch.bm)
    fetch_s = narrow * blocks * each * launch.bk * (in_common / choice.cluster + own) / costs.fetch
    fetch_s *= costs.crossing if _crosses_lines(problem, tile) else 1
    asked_s = (
        costs.asked_s * tiles_along(problem, tile) / choice.cluster * math.ceil(k / launch.bk) * _sectors(problem, tile)
    )
    beside_s = costs.launch_s + costs.together_s * (choice.together > 1) + costs.cluster_s * (choice.cluster > 1)
    if shares > 1:
        beside_s += (
            costs.fold_s + costs.fold_byte_s * wide * shares * count_blocks(problem, tile) * launch.bm * launch.bn
        )
    if ragged_a or ragged_b:
        copied = narrow * (m * k * ragged_a + k * n * ragged_b)
        beside_s += costs.copy_s + costs.copy_byte_s * copied
    overlapping = sum(x**costs.norm for x in (product_s, memory_s, fetch_s, asked_s)) ** (1 / costs.norm)
    return float(overlapping + beside_s)


def _crosses_lines(problem: Problem, tile: Tile) -> bool:
    """Return whether rows of tiles of A or B begin within lines of memory."""
    narrow, bn = problem.input_dtype.itemsize, tile.launch.bn
    is_cut = not tile.is_transposed and problem.n > bn and bn * narrow % LINE
    return bool(is_cut or problem.n * narrow % LINE or problem.k * narrow % LINE)


def _sectors(problem: Problem, tile: Tile) -> float:
    """Return the requests for a line that a block makes at once: four sectors.

    Short rows of B are asked for one by one. The more of them a line has, the fewer lines there are to be asked for.
    """
    row = problem.n * problem.input_dtype.itemsize
    sectors = LINE // SECTOR
    return sectors if tile.is_transposed or row % ALIGNMENT else max(sectors, (LINE / max(row, 1)) ** 2)


def is_ragged(problem: Problem, of_a: int, of_b: int, of_c: int) -> tuple[bool, bool, bool]:
    """Return whether lines of A, of B and of C with so many elements are not aligned, in a product of such dtypes."""
    narrow, wide = problem.input_dtype.itemsize, problem.dtype.itemsize
    return of_a * narrow % ALIGNMENT != 0, of_b * narrow % ALIGNMENT != 0, of_c * wide % ALIGNMENT != 0


def _steps(problem: Problem, choice: Choice) -> tuple[int, int]:
    """Return the tiles along k that a block takes, and the shares that are not empty."""
    steps = math.ceil(math.ceil(problem.k / choice.tile.launch.bk) / choice.together)
    each = max(1, math.ceil(steps / choice.shares))
    return each, max(1, math.ceil(steps / each))


def count_blocks(problem: Problem, tile: Tile, cluster: int = 1) -> int:
    """Return the blocks that compute a tile each, if so many neighbours are a cluster."""
    launch = tile.launch
    bm, bn = (launch.bm, cluster * launch.bn) if tile.is_transposed else (cluster * launch.bm, launch.bn)
    return max(1, count_tiles(problem.m, problem.n, bm, bn, triangle=problem.triangle == "d")) * cluster


def tiles_along(problem: Problem, tile: Tile) -> int:
    """Return how many tiles lie in the direction of a cluster."""
    if tile.is_transposed:
        return math.ceil(problem.n / tile.launch.bn)
    return math.ceil(problem.m / tile.launch.bm)
