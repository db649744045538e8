"""Stored cells as tables: the rows, the columns that a case calls for, in Markdown or for the terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis import caveats, conditions, rates
from harness.analysis import peaks as analysis_peaks
from harness.experiment import Experiment
from harness.stats.statistics import Interval
from harness.store.store import Cell

# The experiment that the terminal shows at the end of a run, and its columns of numbers.
HEADLINE = "ladder"
HEADLINE_NUMBERS = ("of peak", "over step below", "over naive")

# Axes that other columns of a table say already, or that say nothing to a reader.
_HIDDEN_AXES = frozenset({"m", "n", "k", "semiring", "dtype", "role", "method", "backend", "device"})


@dataclass(frozen=True)
class Row:
    """One contender in one case, as tables show it.

    Parameters
    ----------
    experiment, where, contender : str
        `where` describes the case: semiring, dtype, sizes and other axes.
    threads : int
    device : str
        ``"GPU"``; empty: the host.
    status, reason : str
        As in the store.
    unit : str
        Of `rate`.
    rate : Interval or None
        None without a time, or for a task that counts no operations.
    time_ms : Interval or None
        Of a call.
    percent_of_peak : float or None
        None if no peak was measured for this semiring, dtype and number of threads.
    over_below : Interval or None
        Speed relative to the contender before it in the case, which on a ladder is the rung below.
    over_reference : Interval or None
        Speed relative to `reference`.
    reference : str
    launch_us : float or None
        What the host takes to launch a call; None where nothing is launched.
    clock_and_power : str
        Of what computed, as far as it tells.
    samples, processes : int
    remarks : str
        What else a reader has to know of the time (`harness.analysis.caveats`), or empty.
    """

    experiment: str
    where: str
    contender: str
    threads: int
    device: str
    status: str
    reason: str
    unit: str
    rate: Interval | None
    time_ms: Interval | None
    percent_of_peak: float | None
    over_below: Interval | None
    over_reference: Interval | None
    reference: str
    launch_us: float | None
    clock_and_power: str
    samples: int
    processes: int
    caveats: str


def summary_rows(cells: Iterable[Cell], unsure: Mapping[caveats.Key, str] | None = None) -> list[Row]:
    """Return a row for each cell of a contender, in the order of the store; peaks and bandwidths are no contenders.

    There are remarks only if it is told whose ratios are `unsure` (`harness.analysis.caveats.doubts`).
    """
    everything = list(cells)
    peaks = analysis_peaks.peaks_by_kind(everything)
    rows = []
    for own in rates.group(everything, lambda cell: (cell.experiment, cell.run, cell.case)).values():
        if rates.is_roof(own[0]):
            continue
        where, unit, shown = place(own), rates.unit(own), rates.contenders(own)
        for cell, below in zip(shown, rates.steps_below(shown), strict=True):
            around = [*own, *peaks.get(analysis_peaks.kind(cell), ())]
            said = "" if unsure is None else caveats.of_cell(cell, unsure)
            rows.append(_row(cell, below, around, where, unit, said))
    return rows


def place(cells: Sequence[Cell]) -> str:
    """Return what the cells of one case have in common, for people: "plus_times, float64, n=512, kind prime"."""
    axes = [f"{name} {value}" for name, value in cells[0].axes.items() if name not in _HIDDEN_AXES]
    return ", ".join([word for word in [rates.describe(cells)] if word] + axes)


def table(experiment: Experiment, cells: Iterable[Cell], unsure: Mapping[caveats.Key, str] | None = None) -> str:
    """Return the rows of `experiment` as a table in Markdown, with the columns that its cases call for.

    Told whose ratios are `unsure`, it has a last column that says what a reader has to know of each time.
    """
    rows = summary_rows(_of_experiment(experiment.name, cells), unsure)
    is_ladder = any(figure.options.get("labels") == "ladder" for figure in experiment.figures)
    columns: dict[str, list[str]] = {
        "case": [row.where for row in rows],
        "contender": [row.contender for row in rows],
        "threads": [row.device or str(row.threads) for row in rows],
        "rate": [
            f"{number(row.rate)} {row.unit}" if row.rate else row.status if not row.time_ms else "" for row in rows
        ],
        "time, ms": [number(row.time_ms) for row in rows],
        "of peak": ["" if row.percent_of_peak is None else f"{row.percent_of_peak:.1f} %" for row in rows],
        "speed over step below": [number(row.over_below) for row in rows] if is_ladder else [],
        "speed over reference": [number(row.over_reference) for row in rows],
        "reference": [row.reference for row in rows],
        "launch, us": ["" if row.launch_us is None else _digits(row.launch_us) for row in rows],
        "clock and power": [row.clock_and_power for row in rows],
        "remarks": [row.caveats for row in rows],
    }
    shown = {head: entries for head, entries in columns.items() if any(entries)}
    numbers = set(shown) - {"case", "contender", "reference", "clock and power", "remarks"}
    return markdown_table(list(shown), list(zip(*shown.values(), strict=True)), right=numbers)


def headline(cells: Sequence[Cell]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the heads and rows of a short table for the terminal: what each rung of the ladder reached."""
    heads = ("problem", "rung", "rate", *HEADLINE_NUMBERS)
    rows: list[Sequence[str]] = [(row.where, *_estimates(row)) for row in summary_rows(_of_experiment(HEADLINE, cells))]
    return heads, rows


def short_table(experiment: Experiment, cells: Iterable[Cell]) -> str:
    """Return the first case of `experiment` in Markdown, without intervals: a line that names it, a row a contender."""
    rows = summary_rows(_of_experiment(experiment.name, cells))
    case = [row for row in rows if row.where == rows[0].where]
    reference = next((row.reference for row in case), "reference")
    numbers = "rate", "of peak", "speed over step below", f"over {reference}"
    threads = {row.device or rates.plural(row.threads, "thread") for row in case}
    caption = ", ".join([*{row.where: None for row in case}, *sorted(threads)])
    return f"{caption}:\n\n" + markdown_table(("contender", *numbers), map(_estimates, case), right=numbers)


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[str] = ()) -> str:
    """Return a table in Markdown; the columns named in `right` are aligned right."""
    rule = ["---:" if head in set(right) else "---" for head in heads]
    lines = [heads, rule, *rows]
    return "\n".join("| " + " | ".join(entry.replace("|", "\\|") for entry in line) + " |" for line in lines)


def number(value: Interval | None) -> str:
    """Return an estimate with its interval and three significant digits: "1.52 [1.48, 1.60]"; of no bounds, "[?]"."""
    if value is None:
        return ""
    estimate, low, high = (_digits(bound) for bound in value)
    if not (math.isfinite(value.low) and math.isfinite(value.high)):
        return f"{estimate} [?]"
    return estimate if value.low == value.high else f"{estimate} [{low}, {high}]"


def _estimates(row: Row) -> tuple[str, ...]:
    """Return contender, rate, percent of peak, speed over the step below and over the reference, without intervals."""
    return (
        row.contender,
        f"{_digits(row.rate.estimate)} {row.unit}" if row.rate else row.status,
        "" if row.percent_of_peak is None else f"{row.percent_of_peak:.1f} %",
        _digits(row.over_below.estimate) if row.over_below else "",
        _digits(row.over_reference.estimate) if row.over_reference else "",
    )


def _digits(value: float) -> str:
    """Return a number with three significant digits."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _of_experiment(name: str, cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of one experiment, and the roofs of all."""
    return [cell for cell in cells if cell.experiment == name or rates.is_roof(cell)]


def _row(cell: Cell, below: Cell | None, around: Sequence[Cell], where: str, unit: str, said: str) -> Row:
    """Return the row of `cell`; `around` are the cells of its case, and the peaks of its kind."""
    reference = rates.reference_of(cell, around)
    time = rates.time_interval(cell) if cell.is_ok else None
    launch_ns = conditions.reading(cell, "launch_ns")
    return Row(
        experiment=cell.experiment,
        where=where,
        contender=cell.contender,
        threads=cell.threads,
        device=str(rates.axis(cell, "device")).upper() if rates.is_on_device(cell) else "",
        status=cell.status,
        reason=cell.reason,
        unit=unit,
        rate=rates.rate_of(time, cell) if time and "operations" in cell.facts else None,
        time_ms=Interval(*(bound / 1e6 for bound in time)) if time else None,
        percent_of_peak=analysis_peaks.percent_of_peak(cell, around),
        over_below=rates.speed_up(cell, below) if cell.is_ok and below else None,
        over_reference=rates.speed_up(cell, reference) if cell.is_ok and reference else None,
        reference=cell.reference,
        launch_us=None if launch_ns is None else launch_ns / 1e3,
        clock_and_power=conditions.clock_and_power(cell),
        samples=len(cell.all_samples_ns),
        processes=len(cell.samples_ns),
        caveats=said,
    )
