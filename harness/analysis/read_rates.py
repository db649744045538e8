"""Rates of products that read a matrix once, in percent of the measured rate of reading. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import peaks, rates
from harness.stats.statistics import Interval
from harness.store.store import Cell

# The level at which a percentage of the rate of reading means something.
MEMORY = "memory"


def read_roof(cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """Return the cell that measured how fast memory is read where `cell` computes, by as many threads; or None.

    Of its own case; on a GPU else the fastest of any. The rate of a shared host moves by half within an hour, so one
    that was not measured in turns says nothing: products would read at 140 % of it.
    """
    place = rates.axis(cell, "device"), cell.threads
    roofs = [
        roof
        for roof in cells
        if roof.contender == rates.READ and roof.is_ok and (rates.axis(roof, "device"), roof.threads) == place
    ]
    beside = next((roof for roof in roofs if rates.in_turns(roof, cell)), None)
    alone = (roof for roof in roofs if rates.is_on_device(roof) and roof.axes.get("role") == "bandwidth")
    return beside or max(alone, key=peaks.roof_rate, default=None)


def of_read(cell: Cell, cells: Sequence[Cell]) -> Interval | None:
    """Return the bytes that `cell` has to move in percent of what could be read in that time.

    A rate that was measured in turns with `cell` is paired with it sample by sample: what slows memory down slows both.
    Of any other one the fastest call counts. None for a matrix that fits a cache: it may be read faster than memory, so
    that the percentage means nothing.
    """
    roof = read_roof(cell, cells)
    if roof is None or not cell.is_ok or cell.axes.get("level", MEMORY) != MEMORY or "bytes_moved" not in cell.facts:
        return None
    if rates.in_turns(roof, cell):
        estimate, low, high = rates.time_ratio(cell, roof)
        percent = 100 * float(cell.facts["bytes_moved"]) / float(roof.facts["bytes_moved"])
    else:
        estimate, low, high = rates.time_interval(cell)
        percent = 100 * float(cell.facts["bytes_moved"]) / peaks.roof_rate(roof)
    return Interval(percent / estimate, percent / high, percent / low)


def samples_of_read(cell: Cell, cells: Sequence[Cell]) -> list[float]:
    """Return `of_read` of single samples; none where that means nothing."""
    roof = read_roof(cell, cells)
    if roof is None or of_read(cell, cells) is None:
        return []
    moved = 100 * float(cell.facts["bytes_moved"])
    if rates.in_turns(roof, cell):
        return [moved / float(roof.facts["bytes_moved"]) / ratio for ratio in rates.paired_ratios(cell, roof)]
    return [moved / peaks.roof_rate(roof) / ns for ns in cell.all_samples_ns]
