"""The measured peak that bounds a cell, and the share of it that the cell reaches. Pure, from cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from harness.analysis import rates
from harness.dtypes import TABLE, dtype_name, parts_dtype
from harness.stats.statistics import Interval
from harness.store.store import Cell

# What the records of all peaks contain: the role of their case, or the name of their contender.
IN_RECORDS = b'peak"'

# The fact of a peak that products beat by more than chance, as something else ran meanwhile: in words, by their run.
MISSED, MOST_PERCENT = "missed_by", 101
# Contenders whose operations are counted as those of the product, and that compute fewer, or by narrower numbers.
_WITH_LESS_WORK = ("scipy ", "cpu-strassen", "cpu-three-m", "factors of ")


def is_any_peak(cell: Cell) -> bool:
    """Return whether `cell` measures the peak of this processor, or of narrower vectors than it has."""
    return rates.is_peak(cell) or rates.is_narrow_peak(cell)


def kind(cell: Cell) -> Hashable:
    """Return the semiring, dtype, threads and device, which a peak and the cells it bounds have in common.

    Operations over complex numbers are those of their parts, whose peak it is.
    """
    dtype = rates.axis(cell, "dtype")
    dtype = dtype_name(parts_dtype(np.dtype(dtype))) if dtype in TABLE else dtype
    return rates.axis(cell, "semiring"), dtype, cell.threads, rates.axis(cell, "device")


def is_bounded(cell: Cell) -> bool:
    """Return whether `cell` is a contender whose every operation is one of those that its peak counts."""
    operands = cell.axes.get("operands", "")
    known = "", "float32", "complex64", rates.axis(cell, "dtype")
    is_narrow = operands not in known  # which some units multiply many at once
    return not (rates.is_roof(cell) or is_narrow or cell.contender.startswith(_WITH_LESS_WORK))


def without_missed(cells: Sequence[Cell]) -> list[Cell]:
    """Return `cells`, with the fact `MISSED` for each peak of the host that one of them beats.

    No percentage is taken of such a peak in the run that beats it, nor in any if that is its own. Then another run's
    may hold for the same cells.
    """
    found = list(cells)
    while beaten := _beaten(found):
        for place, peak in enumerate(found):
            if by_run := beaten.get(id(peak)):
                missed = {**peak.facts.get(MISSED, {}), **by_run}
                found[place] = dataclasses.replace(peak, facts={**peak.facts, MISSED: missed})
    return found


def _beaten(cells: Sequence[Cell]) -> dict[int, dict[str, str]]:
    """Return by peak, as its id, and by run which cell has more than `MOST_PERCENT` of it, in words."""
    peaks, beaten = peaks_by_kind(cells), dict[int, dict[str, str]]()
    for cell in cells:
        peak = nearest(cell, peaks.get(kind(cell), [])) if cell.is_ok and is_bounded(cell) else None
        if peak and not rates.is_on_device(cell) and cell.rate > min(peak.rate, roof_rate(peak)):
            share = interval_of_peak(cell, [peak])
            if share and share.estimate > MOST_PERCENT:
                words = f"{cell.contender} reaches {share.estimate:.0f} % of it ({rates.size(cell)})"
                beaten.setdefault(id(peak), {})[cell.run] = words
    return beaten


def peaks_by_kind(cells: Iterable[Cell]) -> dict[Hashable, list[Cell]]:
    """Return the measured peaks among `cells` by `kind`: to look for the peaks of many cells once."""
    return rates.group((cell for cell in cells if cell.is_ok and rates.is_peak(cell)), kind)


def peak_of(cell: Cell, cells: Iterable[Cell]) -> Cell | None:
    """Return the measured peak that holds for `cell`: of its semiring, dtype, threads and device, see `nearest`."""
    return nearest(cell, peaks_by_kind(cells).get(kind(cell), []))


def narrow_peak_of(cell: Cell, cells: Iterable[Cell]) -> Cell | None:
    """Return the measured peak of AVX2 that holds for `cell`, see `nearest`, or None."""
    return nearest(cell, [c for c in cells if c.is_ok and rates.is_narrow_peak(c) and kind(c) == kind(cell)])


def nearest(cell: Cell, peaks: Sequence[Cell]) -> Cell | None:
    """Return that of `peaks`, all of the kind of `cell`, that was measured in turns with it, else the fastest of a run.

    That is the run of `cell`; else the last before it, else the first after it. So a peak that is measured later
    changes nothing where there is one of the same run, or an earlier one. One that was missed holds for none.
    """
    peaks = [peak for peak in peaks if not {cell.run, peak.run} & set(peak.facts.get(MISSED, ()))]
    beside = next((peak for peak in peaks if rates.in_turns(peak, cell)), None)
    if beside is not None:
        return beside
    runs = {peak.run for peak in peaks}  # named by when they began, so that they sort by time
    run = max((run for run in runs if run <= cell.run), default=min(runs, default=""))
    return max((peak for peak in peaks if peak.run == run), key=roof_rate, default=None)


def roof_rate(roof: Cell) -> float:
    """Return the rate of the fastest call of `roof`, not of the median one, in G operations or GB per second.

    A ceiling is not exceeded by chance, only missed when something else ran on the machine.
    """
    work = roof.facts["bytes_moved"] if roof.axes.get("role") == "bandwidth" else roof.facts["operations"]
    return float(work / min(roof.all_samples_ns))


def name_of_peak(peak: Cell, *, short: bool = False) -> str:
    """Return the name of a peak: on a GPU that of its SIMT units, which tensor cores may exceed."""
    name = "SIMT peak" if rates.is_on_device(peak) else "peak"
    return name if short else f"measured {name}"


def percent_of_peak(cell: Cell, cells: Iterable[Cell]) -> float | None:
    """Return the rate of `cell` in percent of the measured peak, or None if no peak was measured for it."""
    share = interval_of_peak(cell, cells)
    return None if share is None else share.estimate


def interval_of_peak(cell: Cell, cells: Iterable[Cell]) -> Interval | None:
    """Return the rate of `cell` with its interval, in percent of the measured peak; None without such a peak.

    A peak that was measured interleaved with `cell` is paired with it sample by sample: what slows a core down slows
    both. Of any other peak the fastest call counts.
    """
    peak = peak_of(cell, cells)
    if peak is None or not cell.is_ok or not (is_bounded(cell) or rates.is_on_device(cell)):
        return None
    share = (
        rates.speed_up(cell, peak)
        if rates.in_turns(cell, peak)
        else Interval(*(bound / roof_rate(peak) for bound in rates.rate_interval(cell)))
    )
    return Interval(*(100 * bound for bound in share))
