"""Ragged sizes, which fit no tile: the loss of rate there, and the extra work of padding. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from harness.analysis import rates
from harness.analysis.conditions import is_firm
from harness.stats import statistics
from harness.stats.statistics import Interval
from harness.store.store import Cell

# Kinds of size in an axis "kind" that fit every register tile; sizes of any other kind are ragged.
REGULAR_KINDS = ("power of two", "tile multiple")
# To either side of a size: any tile of 64 has a multiple in it.
WINDOW = 32


def losses(cells: Iterable[Cell], options: Mapping[str, Any]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return, by contender and row, each ragged size with the loss of rate there [percent of that at whole tiles].

    Parameters
    ----------
    cells : iterable of Cell
    options : mapping
        ``x`` is the axis of sizes, ``"n"`` by default. Without ``sweeps``, cases have an axis ``kind``: the rate at
        whole tiles is that of the nearest regular sizes, interpolated by log n. With ``sweeps``, an axis whose values
        are dense ranges of sizes, it is the highest rate within `WINDOW`. ``rows`` are axes that tell rows
        of a contender apart.
    """
    x, sweeps, rows = options.get("x", "n"), options.get("sweeps"), options.get("rows", ())
    series = rates.group(
        (cell for cell in rates.contenders(cells) if cell.is_ok),
        lambda cell: (cell.contender, rates.words(cell, rows), cell.axes.get(str(sweeps))),
    )
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for (contender, row, _), own in series.items():
        own_losses = _losses_in_window(own, x) if sweeps else _losses_at_ragged_sizes(own, x)
        found[contender, row] = found.get((contender, row), []) + own_losses
    return {name: points for name, points in found.items() if points}


def firm_sizes(cells: Iterable[Cell], options: Mapping[str, Any]) -> set[tuple[str, int]]:
    """Return by contender the sizes whose time may be named as the worst: of several samples, no core taken away."""
    x = options.get("x", "n")
    return {(cell.contender, rates.axis(cell, x)) for cell in rates.contenders(cells) if cell.is_ok and is_firm(cell)}


def worst(points: Sequence[tuple[int, float]], firm: Collection[int]) -> tuple[int, float]:
    """Return the size with the largest loss and the loss: of the `firm` sizes, where one of those is large at all.

    What they are held against may not be firm: sizes of whole tiles farther away are no measure.
    """
    own = [point for point in points if point[0] in firm]
    is_enough = bool(own) and max(loss for _, loss in own) >= statistics.median([loss for _, loss in points])
    return max(own if is_enough else points, key=lambda point: point[1])


def _losses_at_ragged_sizes(series: list[Cell], x: str) -> list[tuple[int, float]]:
    regular = sorted((rates.axis(cell, x), cell.rate) for cell in series if cell.axes.get("kind") in REGULAR_KINDS)
    ragged = sorted((rates.axis(cell, x), cell.rate) for cell in series if cell.axes.get("kind") not in REGULAR_KINDS)
    return [(n, 100 * (1 - rate / _interpolate(n, regular))) for n, rate in ragged if regular]


def _losses_in_window(series: list[Cell], x: str) -> list[tuple[int, float]]:
    """Return the loss of each size but the best of its window.

    Cells of a sweep were timed one after the other, not interleaved: a core that was slower for seconds would look like
    a loss. So the rate is that of each cell's fastest tenth of samples.
    """
    points = sorted((rates.axis(cell, x), _undisturbed_rate(cell)) for cell in series)
    best = {n: max(rate for m, rate in points if abs(m - n) <= WINDOW) for n, _ in points}
    return [(n, 100 * (1 - rate / best[n])) for n, rate in points if rate < best[n]]


def _undisturbed_rate(cell: Cell) -> float:
    (time_ns,) = statistics.quantiles(cell.all_samples_ns, (0.1,))
    return rates.rate_of(Interval(time_ns, time_ns, time_ns), cell).estimate


def _interpolate(n: int, regular: list[tuple[int, float]]) -> float:
    below = max((point for point in regular if point[0] <= n), default=None)
    above = min((point for point in regular if point[0] >= n), default=None)
    if below is None or above is None or below == above:
        return (below or above or (n, math.nan))[1]
    share = math.log(n / below[0]) / math.log(above[0] / below[0])
    return below[1] * (1 - share) + above[1] * share


def extra_work(m: int, n: int, tile_m: int, tile_n: int) -> float:
    """Return the pairs that tiles of ``tile_m x tile_n`` compute beyond an m x n result [percent], edges padded.

    Source
    ------
    R. Nath, S. Tomov, J. Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010): overhead of padding
    against redirecting pointers.
    """
    padded = -(-m // tile_m) * tile_m * -(-n // tile_n) * tile_n
    return 100 * (padded / (m * n) - 1)
