"""Values that a figure can show, with their intervals, and the axes and lines that belong to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from harness.analysis import peaks, rates, read_rates, rivals, shares
from harness.analysis.findings import regret
from harness.experiment import NARROW_PEAK, Json
from harness.report.figures.chart import Axis, Look, Point, Rule, Series
from harness.stats.statistics import Interval, exact
from harness.store.store import Cell

LOG_SCALE = ", log scale"
FEWEST_JOINED = 3  # points of a line: two are dots
MANY_G, NS_OF_A_MS = 10_000, 1e6  # rates from the one on are drawn in T, times below the other in us
PERCENTAGES = ("of_peak", "share", "of_read")
RATIOS = ("time_ratio", "speed_up")  # values that are 1 for the reference
LEVEL = 0.95  # a peak of narrow vectors that is this part of the peak counts as level with it
NO_VALUE = exact(math.nan)
ONE, DASHED, DOTTED = Rule(1, "x"), {"linestyle": (0, (4, 3))}, {"linewidth": 0.7, "linestyle": (0, (1, 2))}
# Values that are found among all cells.
SHARES = {
    "of_peak": peaks.interval_of_peak,
    "of_read": read_rates.of_read,
    "over_fastest": rivals.over_fastest,
    "over_other": rivals.over_other,
    "regret": regret.regret,
}


# Values that are facts: what a label says, and the factor to its unit.
FACTS = {
    "residual": ("scaled residual, log scale", 1.0),
    "share": ("% of the time in products", 100.0),
    "greatest_error": ("largest error, u |A||B|, log scale", 1.0),
}


def percent(value: float) -> str:
    """Return a percentage of a peak in words: "84 %"; tensor cores are far above the SIMT peak."""
    return f"{short(value, 2)} %"


def joined(sizes: Sequence[float]) -> list[bool]:
    """Return which of some sizes a line joins: not those one or two beside a multiple of 8, which fit no tile.

    A line through 511, 512 and 513 would be a zigzag that hides the points. Where few are regular, all are joined.
    """
    known = set(sizes)
    regular = [not _is_beside(size, known) for size in sizes]
    return regular if sum(regular) >= FEWEST_JOINED else [True] * len(sizes)


def _is_beside(size: float, known: set[float]) -> bool:
    return size % 8 != 0 and any(size + step in known and (size + step) % 8 == 0 for step in (-2, -1, 1, 2))


def estimate(value: str, cell: Cell, cells: list[Cell]) -> Interval:
    """Return one of the values that a figure can show, with its interval."""
    if value == "rate":
        return rates.rate_interval(cell)
    if value == "time":
        return Interval(*(bound / 1e6 for bound in rates.time_interval(cell)))
    if value in FACTS:
        stored = shares.share(cell) if value == "share" else cell.facts.get(value)
        fact = FACTS[value][1] * float(math.nan if stored is None else stored)
        return exact(fact)
    if value in SHARES:
        return SHARES[value](cell, cells) or NO_VALUE
    reference = rates.reference_of(cell, cells)
    if reference is None:
        return NO_VALUE
    return (rates.time_ratio if value == "time_ratio" else rates.speed_up)(cell, reference)


def spread(value: str, cell: Cell, cells: list[Cell]) -> list[float]:
    """Return the values of single samples where processes are too few for an interval; else none."""
    if not cell.is_ok or rates.has_interval(cell):
        return []
    if value in SAMPLES:
        return SAMPLES[value](cell, cells)
    other = OTHERS[value](cell, cells) if value in OTHERS else None
    if other is None or other is cell or not rates.in_turns(cell, other):
        return []
    return rates.paired_ratios(cell, other) if value in TIMES else rates.sample_speeds(cell, other)


def _samples_of_peak(cell: Cell, cells: list[Cell]) -> list[float]:
    """Return the percentages of the peak: of that beside each sample, or of one that was measured by itself."""
    peak = peaks.peak_of(cell, cells)
    if peak is None:
        return []
    if rates.in_turns(cell, peak):
        return [100 * speed for speed in rates.sample_speeds(cell, peak)]
    return [100 * rate / peaks.roof_rate(peak) for rate in rates.sample_rates(cell)]


# What single samples are by themselves, and otherwise the cell that they are ratios to, of rates or of times.
SAMPLES: dict[str, Callable[[Cell, list[Cell]], list[float]]] = {
    "rate": lambda cell, _: rates.sample_rates(cell),
    "time": lambda cell, _: [ns / 1e6 for ns in cell.all_samples_ns],
    "of_peak": _samples_of_peak,
    "of_read": read_rates.samples_of_read,
}
OTHERS: dict[str, Callable[[Cell, list[Cell]], Cell | None]] = {
    "over_fastest": rivals.fastest_peer,
    "over_other": rivals.fastest_other,
    "regret": rivals.fastest_other,
    "time_ratio": rates.reference_of,
    "speed_up": rates.reference_of,
}
TIMES = ("time_ratio", "regret")


def value_label(value: str, cells: list[Cell]) -> str:
    """Return the words at an axis that shows `value`, with its unit."""
    reference = next((cell.reference for cell in cells), "the reference")
    return {
        **{name: label for name, (label, _) in FACTS.items()},
        "rate": unit(cells) + (" (2 operations a pair)" if unit(cells).endswith("op/s") else ""),
        "time": f"{'micro' if scale('time', cells) > 1 else 'milli'}seconds a call",
        "time_ratio": f"time relative to {reference}, log scale",
        "speed_up": f"speed relative to {reference}",
        "of_peak": "% of measured SIMT peak" if all(map(rates.is_on_device, cells)) else "% of measured peak",
        "of_read": "% of the measured rate of reading",
        "over_fastest": "rate / rate of the fastest library, log scale",
        "over_other": "rate / rate of the fastest other kernel, log scale",
        "regret": "time / time of the fastest backend, log scale",
    }[value]


def unit(cells: list[Cell]) -> str:
    """Return the unit in which rates of `cells` are drawn: thousands of its G are a T."""
    return rates.unit(cells) if scale("rate", cells) == 1 else f"T{rates.unit(cells)[1:]}"


def scale(value: str, cells: list[Cell]) -> float:
    """Return the factor of words to what is drawn: high rates [G operations/s] in T, short times [ms] in us."""
    done = [cell for cell in cells if cell.is_ok]
    if value == "rate" and done:
        return 1e-3 if max(cell.rate for cell in done) >= MANY_G else 1.0
    if value == "time" and done:
        return 1e3 if max(cell.median_ns for cell in done) < NS_OF_A_MS else 1.0
    return 1.0


def value_axis(value: str, cells: list[Cell], options: Json, *, is_row: bool = False) -> Axis:
    """Return the axis of a value: from 0, logarithmic if ``y_scale`` says so, and of ratios in rows always.

    ``limits`` are those of a linear one.
    """
    is_log = options.get("y_scale") == "log"
    label, factor = value_label(value, cells), scale(value, cells)
    if is_row and value not in ("rate", "time", *PERCENTAGES):
        return Axis(label, "ratio")
    if is_log:
        return Axis(rates.unit(cells) if value == "rate" else label, "log", factor=factor if value == "time" else 1.0)
    label = label.removesuffix(LOG_SCALE)
    if value in PERCENTAGES:
        return Axis(label, limits=(0, None), seen=(100.0,))
    return Axis(label, limits=tuple(options.get("limits", (0, None))), factor=factor)


def size_axis(name: str, sizes: Iterable[float], label: str = "") -> Axis:
    """Return a logarithmic axis of sizes, with ticks at some of them."""
    return Axis(label or f"{name} (log scale)", "log2", ticks=sorted(set(sizes)))


def point(value: str, at: float, cell: Cell, cells: list[Cell], begin: float = math.nan) -> Point:
    """Return a value of a cell at a place, with its interval or samples."""
    return Point(at, estimate(value, cell, cells), spread(value, cell, cells), begin)


def line(points: Sequence[Point], look: Look, name: str = "", fits: Sequence[bool] = ()) -> list[Series]:
    """Return a line through the points that `fits` says, by default whole tiles (`joined`), and the others as dots.

    With `fits` those are hollow. Two points are not joined.
    """
    chosen = list(fits) or joined([one.at for one in points])
    loose = {**look, "linestyle": ""}
    on, off = (
        [one for one, is_on in zip(points, chosen, strict=True) if is_on == side and math.isfinite(one.value.estimate)]
        for side in (True, False)
    )
    hollow = {**loose, "markerfacecolor": "white"} if fits else loose
    found = [Series(on, look if len(on) >= FEWEST_JOINED else loose, name), Series(off, hollow, "" if on else name)]
    return [series for series in found if series.points]


def peak_rules(value: str, shown: list[Cell], cells: list[Cell], across: str) -> list[Rule]:
    """Return lines at the peaks of the cells of a panel that shows `value`, a rate or a percentage of the peak.

    Cells with different numbers of threads, or on a device, have a line each. There is none of several semirings or
    dtypes: it would be the peak of only some of them. Where operands are narrower than sums, the line names the dtype
    of sums, whose peak it is. A thin line is the peak of AVX2 where wider vectors are there: the roof of libraries that
    lack them. It is left out where it would lie on the peak, on a processor that computes wide vectors in two halves.
    """
    if rates.common(shown, "problem") is None or value not in ("rate", "of_peak"):
        return []
    rising = sorted((peak for cell in shown if (peak := peaks.peak_of(cell, cells))), key=peaks.roof_rate)
    known = {(rates.is_on_device(peak), peak.threads): peak for peak in rising}  # of several runs the fastest
    rules = []
    for (is_on_device, threads), peak in known.items() if value == "rate" else ():
        count = "" if is_on_device or len(known) < 2 else f", {rates.plural(threads, 'thread')}"
        is_mixed = any(rates.axis(cell, "operands") is not None for cell in shown)
        of = f" of {rates.axis(peak, 'dtype')}" if is_mixed else ""
        rules.append(Rule(peaks.roof_rate(peak), across, peaks.name_of_peak(peak) + of + count, DASHED))
    for threads, (one, *_) in rates.group(shown, lambda cell: cell.threads).items():
        narrow, peak_of_one = peaks.narrow_peak_of(one, cells), peaks.peak_of(one, cells)
        if narrow is None or peak_of_one is None or rates.is_on_device(one):
            continue
        part = peaks.roof_rate(narrow) / peaks.roof_rate(peak_of_one)
        if part <= LEVEL:
            name = NARROW_PEAK + (f", {rates.plural(threads, 'thread')}" if threads > 1 else "")
            rules.append(Rule(peaks.roof_rate(narrow) if value == "rate" else 100 * part, across, name, DOTTED))
    return rules


def and_where(label: str, cells: list[Cell]) -> str:
    """Return the label of an axis, and the processors that `cells` ran on if they are few."""
    return ", ".join(filter(None, [label, rates.runs_on(cells)]))


def short(number: float, digits: int = 3) -> str:
    """Return `number` with so many significant digits, never in scientific notation: "0.0123", "1.23", "1234"."""
    if number == 0 or not np.isfinite(number):
        return "0" if number == 0 else "-"
    number = float(f"{number:.{digits}g}") if abs(number) < 10**digits else number
    return f"{number:.{max(digits - 1 - int(np.floor(np.log10(abs(number)))), 0)}f}"
