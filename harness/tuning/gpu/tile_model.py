"""The time of a launch of tiles by a model: pairs, memory, fetches of tiles, launches and shares of k.

Pairs and what moves overlap, so their times are joined by a norm. A block that is alone on its multiprocessor hides no
latency, and tiles that stick out of C compute for nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.problem import Problem
from harness.tuning.device import MEASURED, Device
from harness.tuning.gpu.family import Costs, Tile

# Bytes that rows must begin at a multiple of to be read and written at once.
ALIGNMENT = 16

# Bytes of a line of memory and of its sectors, and those of all operands that L2 holds whole, or holds none of, of a
# product that is repeated.
LINE, SECTOR, IN_L2 = 128, 32, (36e6, 48e6)

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
    together, cluster, at_once : int
        Blocks that share k, or what they fetch; and those that have a multiprocessor each for themselves.
    of_each : tuple of float
        Blocks of a multiprocessor that shares may give; empty: no others than those of `together` share k.
    least : int
        Steps of k of each of several shares.
    fetched, more_s : float
        Elements that a block fetches for a step of k; time that its kind of cluster takes more [s].
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
    together: int
    cluster: int
    at_once: int
    of_each: tuple[float, ...]
    least: int
    fetched: float
    more_s: float


class Model:
    """What the time of all launches of a product depends on, once."""

    def __init__(self, costs: Costs, problem: Problem, device: Device, *, is_alone: bool) -> None:
        self.costs, self.is_alone, self.multiprocessors = costs, is_alone, device.multiprocessors
        m, n, k, narrow, wide = problem.m, problem.n, problem.k, problem.input_dtype.itemsize, problem.dtype.itemsize
        ragged_a, ragged_b, ragged_c = is_ragged(problem.lines, narrow, wide)
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
        """Return the least time of a row, by one share or several [s], and their number; infinite: none.

        The inner loop is most of a plan's time, so it holds what depends on the number of shares, and no more.
        """
        costs, norm, cluster, together = self.costs, self.costs.norm, row.cluster, row.together
        down, across = -(-m // row.bm), -(-n // row.bn)
        tiles, along = down * across, across if row.is_transposed else down
        if (self.is_alone and together > 1 and together * tiles > row.at_once) or (cluster > 1 and along < cluster):
            return math.inf, 1
        numbers = [1] if is_one else []
        if are_several and row.of_each:
            numbers += self._several(row, tiles, k // row.least)
        bk, held, busy, at_once, ends, wave_s = row.bk, row.held, row.busy, row.at_once, costs.ends, costs.wave_s
        of_share = together * (tiles // along * -(-along // cluster) * cluster if cluster > 1 else tiles)
        steps_of_all = -(-k // bk)
        steps, room = -(-steps_of_all // together), at_once * held
        pair_s, beside, fetched_s = row.area * self.slower / row.rate, self.memory, self.fetch * row.fetched
        if self.crosses or (costs.crossing != 1 and self._crosses(row)):
            fetched_s *= costs.crossing
        if costs.asked_s:
            sectors = self.of_lines if row.is_transposed else self.of_short
            beside += (along * steps_of_all * (costs.asked_s * sectors) / cluster) ** norm
        fold_s, of_fold_s, best_s, best, before = costs.fold_s, self.fold_s * tiles * row.area, math.inf, 1, 0
        for number in numbers:
            each = -(-steps // number)
            if each == before:  # as many shares as before
                continue
            before, shares, steps_of_each = each, -(-steps // each), each * bk
            blocks = shares * of_share
            waves, rest = divmod(blocks, room)
            busiest: float = waves * held
            if rest:
                busiest += max(-(-rest // at_once), busy)
                waves += 1
            joined = (busiest * pair_s * (steps_of_each + ends) + wave_s * waves) ** norm
            seconds = (joined + (fetched_s * blocks * steps_of_each) ** norm + beside) ** (1 / norm)
            if shares > 1:
                seconds += fold_s + of_fold_s * shares
            if seconds < best_s:
                best_s, best = seconds, number
        return best_s + self.beside_s + row.more_s, best

    def _several(self, row: Row, tiles: int, most: int) -> list[int]:
        """Return numbers of shares, two to `most`, that are thought of."""
        one_each, last = self.multiprocessors / (tiles * row.together), FEW_SHARES[-1]
        more = sorted([x for each in row.of_each if last < (x := int(one_each * each)) <= most])
        return [*FEW_SHARES[1 : max(most, 1)], *more]

    def _crosses(self, row: Row) -> bool:
        """Return whether rows of tiles of B begin within lines of memory."""
        return not row.is_transposed and row.bn < self.n and row.bn * self.narrow % LINE != 0


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
