"""Losses of rate in a sweep of sizes, in units of a contender that was measured in turns at every size. Pure.

The sizes of a sweep are measured one after the other. Between two of them a shared machine changes by more than a
partial tile costs, and rates alone would show that. It cancels in the ratio of two contenders of one case. Whole tiles
lose nothing for not fitting: how far their own ratios are apart is the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from harness.analysis import rates, rivals
from harness.experiment import NARROW_PEAK
from harness.stats.statistics import median
from harness.store.store import Cell

# To either side of a size: any tile of 64 has a multiple in it.
WINDOW = 32
# Sizes that this divides are whole tiles, unless the option ``whole`` says otherwise: register tiles have 2 to 16 rows.
WHOLE = 16
FEWEST_WHOLE = 3  # sizes whose spread is called noise


class Sweep(NamedTuple):
    """What ragged sizes cost one contender in one row of a figure."""

    points: list[tuple[int, float]]  # each ragged size, and what it loses [percent of what whole tiles nearby have]
    noise: float  # the most by which one whole tile differs from the others nearby [percent]; NaN: not known
    beside: str  # the contender in whose units

    @property
    def is_noise_known(self) -> bool:
        """Whether enough whole tiles were measured."""
        return not math.isnan(self.noise)

    def is_beyond_noise(self, loss: float) -> bool:
        """Return whether a loss [percent] is more than what whole tiles differ by; False where that is not known."""
        return loss > self.noise


def sweeps(cells: Iterable[Cell], options: Mapping[str, Any]) -> dict[tuple[str, str], Sweep]:
    """Return by contender and row what ragged sizes cost; nothing of a contender that was measured alone.

    The unit is what the machine can do, if that was measured in turns: the peak, or the rate of reading. Else a library
    for ours, and ours for a library.

    Parameters
    ----------
    cells : iterable of Cell
    options : mapping
        ``x`` is the axis of sizes, ``"n"`` by default. Sizes that ``whole`` divides are whole tiles. ``rows`` are axes
        that tell rows of a contender apart.
    """
    x, whole, rows = options.get("x", "n"), options.get("whole", WHOLE), options.get("rows", ())
    timed = [cell for cell in cells if cell.is_ok]
    in_turns = rates.group(timed, lambda cell: (cell.run, cell.case))
    series = rates.group(rates.contenders(timed), lambda cell: (cell.contender, rates.words(cell, rows)))
    found = {}
    for name, own in series.items():
        beside = _unit(own, in_turns)
        ratios = [
            (int(rates.axis(cell, x)), _ratio(cell, other))
            for cell in own
            for other in in_turns[cell.run, cell.case]
            if other.contender == beside
        ]
        sweep = _sweep(ratios, whole, beside)
        if sweep.points:
            found[name] = sweep
    return found


def _unit(own: Sequence[Cell], in_turns: Mapping[Any, Sequence[Cell]]) -> str:
    """Return the contender that was measured in turns with most of `own`: of equals what the machine can do first."""
    others = [other for cell in own for other in in_turns[cell.run, cell.case] if other.contender != cell.contender]
    is_library = rivals.is_peer(own[0])
    usable = [
        other.contender
        for other in sorted(others, key=lambda other: not rates.is_roof(other))
        if other.contender != NARROW_PEAK and (rates.is_roof(other) or rivals.is_peer(other) != is_library)
    ]
    return max(dict.fromkeys(usable), key=usable.count, default="")


def _ratio(cell: Cell, other: Cell) -> float:
    """Return the rate of `cell` over that of `other`; over the rate of reading by the bytes that both move."""
    if other.contender != rates.READ:
        return rates.speed_up(cell, other).estimate
    return float(cell.facts["bytes_moved"] / other.facts["bytes_moved"]) / rates.time_ratio(cell, other).estimate


def _sweep(ratios: Sequence[tuple[int, float]], whole: int, beside: str) -> Sweep:
    fitting = [(n, ratio) for n, ratio in ratios if n % whole == 0]
    points, differences = list[tuple[int, float]](), list[float]()
    for n, ratio in sorted(ratios):
        nearby = [of_whole for m, of_whole in fitting if abs(m - n) <= WINDOW]
        if n % whole:
            points += [(n, 100 * (1 - ratio / median(nearby)))] if nearby else []
        else:
            nearby.remove(ratio)
            differences += [abs(100 * (1 - ratio / median(nearby)))] if nearby else []
    return Sweep(points, max(differences) if len(differences) >= FEWEST_WHOLE else math.nan, beside)
