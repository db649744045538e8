"""Stored cells as tables: the rows, and the columns that a case needs, in Markdown or for the terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from harness.analysis import answers, caveats, conditions, rates
from harness.analysis import peaks as analysis_peaks
from harness.experiment import Experiment
from harness.stats.statistics import Interval
from harness.store.store import Cell

# The experiment that the terminal shows at the end of a run, and its columns of numbers.
HEADLINE = "ladder"
HEADLINE_NUMBERS = ("of peak", "over step below", "over naive")

# The columns of what a run of some contenders has measured, and those of numbers.
TIMED_NUMBERS = ("rate", "time, ms", "of peak", "speed over reference")
TIMED = ("case", "contender", *TIMED_NUMBERS, "reference")

# Axes that other columns of a table show already, or that mean nothing to a reader.
_HIDDEN_AXES = frozenset({"m", "n", "k", "semiring", "dtype", "role", "method", "backend", "device"})


class TableRow(NamedTuple):
    """A contender in a case: its cell, and what tables show beside it."""

    cell: Cell
    where: str  # the case in words: semiring, dtype, sizes and other axes
    unit: str  # of `rate`
    rate: Interval | None  # None without a time, or for a task that counts no operations
    time_ms: Interval | None  # of a call
    percent_of_peak: float | None  # None without a measured peak for this semiring, dtype and number of threads
    over_below: Interval | None  # speed relative to the contender before it in the case: of a rung, the rung below
    over_reference: Interval | None  # speed relative to the reference of the case
    remarks: str  # caveats of the time for a reader (`harness.analysis.caveats`), or empty


def summary_rows(
    cells: Iterable[Cell], unsure: Mapping[caveats.Key, str] | None = None, beside: Collection[str] = ()
) -> list[TableRow]:
    """Return a row for each cell of a contender, in the order of the store; peaks and bandwidths are no contenders.

    There are remarks only if `unsure` says whose ratios are (`harness.analysis.caveats.doubts`). Backends that stand
    `beside` a ladder have no rung below. Ratios of a ladder are those of its rates: steps multiply to the whole.
    """
    everything = list(cells)
    peaks = analysis_peaks.peaks_by_kind(everything)
    rows = []
    for case in rates.group(everything, lambda cell: (cell.experiment, cell.run, cell.case)).values():
        if rates.is_roof(case[0]):
            continue
        where, unit, contenders = place(case), rates.unit(case), rates.contenders(case)
        rungs = rates.rungs(contenders, {"beside": beside})
        below = {id(cell): step for cell, step in zip(rungs, rates.steps_below(rungs), strict=True)}
        for cell in contenders:
            around = [*case, *peaks.get(analysis_peaks.kind(cell), ())]
            remarks = "" if unsure is None else caveats.of_cell(cell, unsure)
            ratio = rates.step if beside else rates.speed_up
            rows.append(_row(cell, below.get(id(cell)), around, where, unit, remarks, ratio))
    return rows


def place(cells: Sequence[Cell]) -> str:
    """Return the point of a case on the axes in words: "plus_times, float64, n=512, kind prime"."""
    axes = [f"{name} {value}" for name, value in cells[0].axes.items() if name not in _HIDDEN_AXES]
    return ", ".join([word for word in [rates.describe(cells)] if word] + axes)


def table(experiment: Experiment, rows: Sequence[TableRow]) -> str:
    """Return some of the rows of `experiment` as a table in Markdown, with the columns that its cases need."""
    columns = table_columns(experiment, rows)
    shown = {head: entries for head, entries in columns.items() if any(entries)}
    numbers = set(shown) - {"case", "contender", "reference", "clock and power", "remarks"}
    return markdown_table(list(shown), list(zip(*shown.values(), strict=True)), right=numbers)


def rows_of(
    experiment: Experiment, cells: Iterable[Cell], unsure: Mapping[caveats.Key, str] | None = None
) -> list[TableRow]:
    """Return the rows of `experiment`. With `unsure`, whose ratios are unsure, each has the caveats of its time."""
    beside = {name for figure in experiment.figures for name in figure.options.get("beside", ())}
    return summary_rows(_of_experiment(experiment.name, cells), unsure, beside)


def table_columns(experiment: Experiment, rows: Sequence[TableRow]) -> dict[str, list[str]]:
    """Return the columns of a table by their heads, in words; some may be empty."""
    is_ladder = any(figure.options.get("labels") == "ladder" for figure in experiment.figures)
    return {
        "case": [row.where for row in rows],
        "contender": [row.cell.contender for row in rows],
        "threads": [_device(row.cell) or str(row.cell.threads) for row in rows],
        "rate": [
            f"{number(row.rate)} {row.unit}" if row.rate else row.cell.status if not row.time_ms else "" for row in rows
        ],
        "time, ms": [number(row.time_ms) for row in rows],
        "of peak": [_percent(row) for row in rows],
        "speed over step below": [number(row.over_below) for row in rows] if is_ladder else [],
        "speed over reference": [number(row.over_reference) for row in rows],
        "reference": [row.cell.reference for row in rows],
        "launch, us": [_launch_us(row.cell) for row in rows],
        "clock and power": [conditions.clock_and_power(row.cell) for row in rows],
        "remarks": [row.remarks for row in rows],
    }


def timed(experiment: Experiment, cells: Iterable[Cell]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the heads and rows of a table of `cells` for the terminal, without columns that are empty."""
    columns = table_columns(experiment, rows_of(experiment, cells))
    shown = {head: columns[head] for head in TIMED if any(columns[head])}
    return list(shown), list(zip(*shown.values(), strict=True))


def headline(ladder: Experiment, cells: Sequence[Cell]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the heads and rows of a short table for the terminal: the results of each rung of the ladder."""
    heads = ("problem", "rung", "rate", *HEADLINE_NUMBERS)
    return heads, [(row.where, *_estimates(row)) for row in _leading_rows(ladder, cells)]


def _leading_rows(experiment: Experiment, cells: Iterable[Cell]) -> list[TableRow]:
    """Return the rows of what the first figure of `experiment` shows."""
    figure = experiment.figures[0]
    of = answers.shown(figure, experiment.name, cells)
    return summary_rows([*of.cells, *of.peaks], beside=figure.options.get("beside", ()))


def short_table(experiment: Experiment, cells: Iterable[Cell]) -> str:
    """Return the first case of `experiment` in Markdown, without intervals: a line that names it, a row a contender."""
    rows = _leading_rows(experiment, cells)
    case = [row for row in rows if row.where == rows[0].where]
    reference = next((row.cell.reference for row in case), "reference")
    numbers = "rate", "of peak", "speed over step below", f"over {reference}"
    threads = {_device(row.cell) or rates.plural(row.cell.threads, "thread") for row in case}
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


def byte_size(count: float) -> str:
    """Return a number of bytes for people: "48 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} GiB"


def _estimates(row: TableRow) -> tuple[str, ...]:
    """Return contender, rate, percent of peak, speed over the step below and over the reference, without intervals."""
    return (
        row.cell.contender,
        f"{_digits(row.rate.estimate)} {row.unit}" if row.rate else row.cell.status,
        _percent(row),
        _digits(row.over_below.estimate) if row.over_below else "",
        _digits(row.over_reference.estimate) if row.over_reference else "",
    )


def _percent(row: TableRow) -> str:
    return "" if row.percent_of_peak is None else f"{row.percent_of_peak:.1f} %"


def _device(cell: Cell) -> str:
    """Return the device of `cell`, "GPU", or nothing for the host."""
    return str(rates.axis(cell, "device")).upper() if rates.is_on_device(cell) else ""


def _launch_us(cell: Cell) -> str:
    """Return the time that the host takes to launch a call [us], or nothing where nothing is launched."""
    launch_ns = conditions.reading(cell, "launch_ns")
    return "" if launch_ns is None else _digits(launch_ns / 1e3)


def _digits(value: float) -> str:
    """Return a number with three significant digits."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _of_experiment(name: str, cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of one experiment, and the roofs of all."""
    return [cell for cell in cells if cell.experiment == name or rates.is_roof(cell)]


def _row(
    cell: Cell,
    below: Cell | None,
    around: Sequence[Cell],
    where: str,
    unit: str,
    remarks: str,
    ratio: Callable[[Cell, Cell], Interval],
) -> TableRow:
    """Return the row of `cell`; `around` are the cells of its case, and the peaks of its kind."""
    reference = rates.reference_of(cell, around)
    time = rates.time_interval(cell) if cell.is_ok else None
    return TableRow(
        cell=cell,
        where=where,
        unit=unit,
        rate=rates.rate_of(time, cell) if time and "operations" in cell.facts else None,
        time_ms=Interval(*(bound / 1e6 for bound in time)) if time else None,
        percent_of_peak=analysis_peaks.percent_of_peak(cell, around),
        over_below=ratio(cell, below) if cell.is_ok and below else None,
        over_reference=ratio(cell, reference) if cell.is_ok and reference else None,
        remarks=remarks,
    )
