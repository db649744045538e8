"""The measured peak that bounds a cell, and the share of it that the cell reaches. Pure, from cells."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from harness.analysis import rates
from harness.stats.statistics import Interval
from harness.store.store import Cell

# What the records of all peaks contain: the role of their case, or the name of their contender.
IN_RECORDS = b'peak"'


def is_any_peak(cell: Cell) -> bool:
    """Return whether `cell` measures the peak of this processor, or of narrower vectors than it has."""
    return rates.is_peak(cell) or rates.is_narrow_peak(cell)


def kind(cell: Cell) -> Hashable:
    """Return the semiring, dtype, threads and device, which a peak and the cells it bounds have in common."""
    return rates.axis(cell, "semiring"), rates.axis(cell, "dtype"), cell.threads, rates.axis(cell, "device")


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
    changes nothing where there is one of the same run, or an earlier one.
    """
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
    if peak is None or rates.is_roof(cell) or not cell.is_ok:
        return None
    share = (
        rates.speed_up(cell, peak)
        if rates.in_turns(cell, peak)
        else Interval(*(bound / roof_rate(peak) for bound in rates.rate_interval(cell)))
    )
    return Interval(*(100 * bound for bound in share))
