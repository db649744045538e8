"""Ragged sizes, which fit no tile: the loss of rate there, and the extra work of padding. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from harness.analysis import rates
from harness.analysis.conditions import is_firm
from harness.analysis.ragged_sizes import swept
from harness.stats import statistics
from harness.store.store import Cell

# Kinds of size in an axis "kind" that fit every register tile; sizes of any other kind are ragged.
REGULAR_KINDS = ("power of two", "tile multiple")


def losses(cells: Iterable[Cell], options: Mapping[str, Any]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return, by contender and row, each ragged size with the loss of rate there [percent of that at whole tiles].

    Parameters
    ----------
    cells : iterable of Cell
    options : mapping
        ``x`` is the axis of sizes, ``"n"`` by default. Without ``sweeps``, cases have an axis ``kind``: the rate at
        whole tiles is that of the nearest regular sizes, interpolated by log n. With ``sweeps``, an axis whose values
        are dense ranges of sizes, the losses are those of `swept.sweeps`. ``rows`` are axes that tell rows of a
        contender apart.
    """
    if options.get("sweeps"):
        return {name: sweep.points for name, sweep in swept.sweeps(cells, options).items()}
    x, rows = options.get("x", "n"), options.get("rows", ())
    series = rates.group(rates.timed(cells), lambda cell: (cell.contender, rates.words(cell, rows)))
    found = {name: _losses_at_ragged_sizes(own, x) for name, own in series.items()}
    return {name: points for name, points in found.items() if points}


def beyond_noise(cells: Iterable[Cell], options: Mapping[str, Any]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return those of `losses` that are more than noise, as far as a sweep tells noise."""
    if not options.get("sweeps"):
        return losses(cells, options)
    found = swept.sweeps(cells, options).items()
    return {name: [point for point in own.points if own.is_beyond_noise(point[1])] for name, own in found}


def firm_sizes(cells: Iterable[Cell], options: Mapping[str, Any]) -> set[tuple[str, int]]:
    """Return by contender the sizes whose time may be named as the worst: of several samples, no core taken away."""
    x = options.get("x", "n")
    return {(cell.contender, rates.axis(cell, x)) for cell in rates.timed(cells) if is_firm(cell)}


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
