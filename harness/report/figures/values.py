"""Values that a figure can show, with their intervals, and the labels and ticks of their axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogFormatter, MaxNLocator, NullLocator

from harness.analysis import peaks, rates, read_rates, rivals, shares
from harness.analysis.findings import regret
from harness.stats.statistics import Interval
from harness.store.store import Cell

MOST_TICKS = 6
FEWEST_DECADE_TICKS, MOST_DECADE_TICKS = 2, 4
FEWEST_JOINED = 3  # points of a line: two are dots
MANY_G, NS_OF_A_MS = 10_000, 1e6  # rates from the one on are drawn in T, times below the other in us
NO_VALUE = Interval(math.nan, math.nan, math.nan)
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


# Ticks of an axis of ratios of which the ends are less than `WIDEST` apart; beyond it only powers of two are ticks.
POWERS = tuple(2.0**power for power in range(-6, 11))
RATIO_TICKS = tuple(sorted({*POWERS, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 1.75, 2.5, 3.0}))
WIDEST = 4.0
LEAST_APART = 0.17  # of the length of an axis of ratios, from tick to tick: its numbers would overlap
FEW_RATIOS = (0.25, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)  # of them, as many as have room along x

# Percentages of what is thought to be the most have this axis, or a longer one where more was measured.
PERCENTAGES, MOST_PERCENT = ("of_peak", "share"), 105.0


def percent(value: float) -> str:
    """Return a percentage of a peak in words: "84 %"; tensor cores are far above the SIMT peak."""
    return f"{short(value, 2)} %"


def log_label(name: str) -> str:
    """Return the label of a logarithmic axis of sizes."""
    return f"{name} (log scale)"


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
        return Interval(fact, fact, fact)
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


def mark_spread(
    panel: Axes, x: float, y: float, interval: Interval, samples: Sequence[float], colour: Any, *, across: str = "y"
) -> None:
    """Draw what one value may be: its samples as dots, or without `samples` its interval as a bar.

    `across` is the axis of the value, ``"x"`` or ``"y"``.
    """
    if samples:
        along = ([*samples], [y] * len(samples)) if across == "x" else ([x] * len(samples), [*samples])
        panel.plot(
            *along, linestyle="", marker="o", markersize=3, color=colour, alpha=0.55, markeredgewidth=0, zorder=4
        )
    else:
        below, above = interval.estimate - interval.low, interval.high - interval.estimate
        bars: dict[str, Any] = {f"{across}err": [[below], [above]]}
        panel.errorbar(x, y, fmt="none", ecolor=colour, elinewidth=1.2, capsize=2.5, **bars)


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


def scale_ticks(line: Axis, value: str, cells: list[Cell]) -> None:
    """Write the ticks of an axis of `value` by its `scale`."""
    factor = scale(value, cells)
    if factor != 1:
        line.set_major_formatter(lambda tick, _: f"{tick * factor:g}")


def and_where(label: str, cells: list[Cell]) -> str:
    """Return the label of an axis, and the processors that `cells` ran on if they are few."""
    return ", ".join(filter(None, [label, rates.runs_on(cells)]))


def short(number: float, digits: int = 3) -> str:
    """Return `number` with so many significant digits, never in scientific notation: "0.0123", "1.23", "1234"."""
    if number == 0 or not np.isfinite(number):
        return "0" if number == 0 else "-"
    number = float(f"{number:.{digits}g}") if abs(number) < 10**digits else number
    return f"{number:.{max(digits - 1 - int(np.floor(np.log10(abs(number)))), 0)}f}"


def plain_ticks(panel: Axes, values: Sequence[float]) -> None:
    """Label a logarithmic x axis at those of `values` that stand far enough apart, in plain numbers."""
    kept: list[float] = []
    powers = [value for value in values if math.log2(value).is_integer()]
    for value in powers if len(powers) > 3 else values:
        if not kept or value >= kept[-1] * 1.4:
            kept.append(value)
    panel.xaxis.set_major_locator(FixedLocator(kept))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda tick, _: f"{tick:.10g}")


def decade_ticks(chart: Axes, cells: list[Cell]) -> None:
    """Label the logarithmic x axis of rates at 1, 3, 10, 30 and on as far as they are seen, in the unit of `cells`.

    An axis on which one of these is seen, or none, is labelled at round numbers, evenly apart.
    """
    factor, (low, high) = scale("rate", cells), chart.get_xlim()
    powers = range(math.floor(math.log10(low * factor)), math.ceil(math.log10(high * factor)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 3)]
    seen = [tick for tick in ticks if low <= tick / factor <= high]
    if len(seen) > MOST_DECADE_TICKS:
        seen = [tick for tick in seen if math.log10(tick).is_integer()]
    elif len(seen) < FEWEST_DECADE_TICKS:
        round_ones = MaxNLocator(MOST_DECADE_TICKS).tick_values(low * factor, high * factor)
        seen = [float(tick) for tick in round_ones if low <= tick / factor <= high]
    chart.xaxis.set_major_locator(FixedLocator([tick / factor for tick in seen]))
    chart.xaxis.set_major_formatter(lambda tick, _: f"{tick * factor:g}")
    chart.xaxis.set_minor_formatter(lambda _tick, _: "")


def _apart(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Return the ticks of ratios that stand far enough from 1, and from one another, on a logarithmic axis."""
    least = LEAST_APART * math.log(high / low)
    kept = [1.0]
    for tick in sorted(ticks, key=lambda tick: abs(math.log(tick))):
        if all(abs(math.log(tick / other)) >= least for other in kept):
            kept.append(tick)
    return sorted(kept)


class PlainLogFormatter(LogFormatter):
    """Labels the ticks of a logarithmic axis that matplotlib would label, but in plain numbers, times a factor."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of the tick at `x`; empty for most of those between powers of ten."""
        return f"{x * self.factor:.6g}" if super().__call__(x, pos) else ""


def log_ticks(chart: Axes) -> None:
    """Make the x axis of ratios logarithmic, from below 1 to above 2: ticks are powers of two, more if it is short."""
    chart.set_xscale("log", base=2)
    low, high = chart.get_xlim()
    chart.set_xlim(low, high) if high >= WIDEST * low else chart.set_xlim(min(low, 0.8), max(high, 1.5))
    low, high = chart.get_xlim()
    if high < WIDEST * low:
        chart.xaxis.set_major_locator(FixedLocator(_apart([t for t in FEW_RATIOS if low <= t <= high], low, high)))
        chart.xaxis.set_minor_locator(NullLocator())
        chart.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
        return
    powers = range(math.ceil(math.log2(chart.get_xlim()[0])), math.floor(math.log2(chart.get_xlim()[1])) + 1)
    step = -(-len(powers) // MOST_TICKS)
    chart.xaxis.set_major_locator(FixedLocator([2.0**power for power in powers if power % step == 0]))
    chart.xaxis.set_major_formatter(lambda tick, _: power_of_two(math.log2(tick)))


def power_of_two(power: float) -> str:
    """Return 2 to the `power`: "1/64", "0.71", "8"."""
    if power <= -1 and float(power).is_integer():
        return f"1/{2.0**-power:.0f}"
    return f"{2.0**power:.3g}" if power < 10 else f"{2.0**power:.0f}"
