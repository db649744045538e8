"""Figures with a row for each contender: horizontal bars and dots, with a table beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.analysis import peaks as analysis_peaks
from harness.analysis import rates
from harness.experiment import Json
from harness.report.figures.looks import GREY, INK, role_colour
from harness.report.figures.roofs import mark_peaks
from harness.report.figures.sheet import Sheet, table, table_width
from harness.report.figures.values import (
    and_where,
    estimate,
    log_ticks,
    mark_spread,
    percent,
    scale,
    scale_ticks,
    short,
    spread,
    unit,
    value_label,
)
from harness.stats.statistics import Interval
from harness.store.store import Cell

ROW_INCHES, LOW_ROW_INCHES, HEAD_INCHES = 0.36, 0.29, 0.95
ROWS_WIDTH = 6.3  # inches for chart and table together, names of contenders aside
NAME_INCHES, USUAL_NAME = 0.085, 18  # of a letter of a name; letters for which ROWS_WIDTH has room
FEWEST_ROWS = 3  # least height of a chart, in rows: below it, ticks and label have no room


def bars(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a bar per contender, from zero, and a table beside it."""
    _rows(sheet, cells, {"value": "rate", **options}, _bar)


def dots(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a dot with its interval per contender, the smallest on top, over a logarithmic axis; a table beside it."""
    _rows(sheet, cells, {"value": "time_ratio", "sort": True, **options}, _dot)


def rows_with_table(sheet: Sheet, names: list[str], heads: list[str], rows: list[list[str]]) -> tuple[Axes, Axes]:
    """Return a panel with a named row of marks each, and one for the table beside them; row 0 is on top in both."""
    width = table_width(heads, rows)
    left = ROWS_WIDTH + NAME_INCHES * (USUAL_NAME - max(map(len, names), default=0)) - width
    height = LOW_ROW_INCHES * max(len(rows), FEWEST_ROWS) + HEAD_INCHES
    chart, beside = sheet.panels(1, 2, height=height, width_ratios=[max(left, width / 3), width])
    for panel in (chart, beside):
        panel.set_ylim(len(rows) - 0.4, -0.6)
    chart.set_yticks(range(len(names)), names)
    chart.grid(visible=False, axis="y")
    chart.tick_params(axis="y", length=0)
    return chart, beside


def _rows(sheet: Sheet, cells: list[Cell], options: Json, draw: Callable[..., None]) -> None:
    """Draw a row per contender in a panel for each value of an axis, one below the other."""
    shown = [cell for cell in rates.contenders(cells) if cell.is_ok or options.get("labels") != "ladder"]
    value = options["value"]
    groups = rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem")))
    groups = {title: group for title, group in groups.items() if _has_value(value, group, shown)}
    if options.get("sort"):
        groups = {title: sorted(group, key=lambda cell: _rank(value, cell, shown)) for title, group in groups.items()}
    tables = [table_of_rows(group, cells, options) for group in groups.values()]
    width = max(table_width(heads, rows) for heads, rows in tables)
    counts = [len(group) + HEAD_INCHES / ROW_INCHES for group in groups.values()]
    ratios = {"width_ratios": [ROWS_WIDTH - width, width], "height_ratios": counts}
    panels = sheet.panels(len(groups), 2, height=ROW_INCHES * sum(counts) + 0.3, **ratios)
    is_ambiguous = len({rates.describe(group) for group in groups.values()}) < len(groups)
    for (name, group), (heads, rows), chart, beside in zip(
        groups.items(), tables, panels[::2], panels[1::2], strict=True
    ):
        for y, cell in enumerate(group):
            if cell.is_ok:
                at = estimate(value, cell, shown)
                draw(chart, y, at, role_colour(cell))
                mark_spread(chart, at.estimate, y, at, spread(value, cell, shown), INK, across="x")
            else:
                label_style: dict[str, Any] = {"xycoords": chart.get_yaxis_transform(), "textcoords": "offset points"}
                chart.annotate(cell.status, (0, y), (6, 0), va="center", color=GREY, style="italic", **label_style)
        chart.set_yticks(range(len(group)), [cell.contender for cell in group])
        for panel in (chart, beside):
            panel.set_ylim(len(group) - 0.4, -0.6)
            _part_rungs(panel, rates.rungs(group, options), group)
        _finish_rows(chart, value, group, cells if options.get("peak", True) else group)
        if options.get("titles") == "panels":
            chart.set_title(name)
        elif is_ambiguous:
            chart.set_title(", ".join(filter(None, [name, rates.size(*group)])))
        table(beside, heads, rows)
    if is_ambiguous and options.get("titles") != "panels":
        same = [str(word) for axis in ("semiring", "dtype") if (word := rates.common(shown, axis))]
        sheet.notes += [f"All over {', '.join(same)}."] if same else []


def _part_rungs(panel: Axes, rungs: list[Cell], group: list[Cell]) -> None:
    """Draw a line between the rungs of a ladder and what stands below them, as libraries do."""
    if len(rungs) < len(group) and group[: len(rungs)] == rungs:
        panel.axhline(len(rungs) - 0.5, color=GREY, linewidth=0.8)


def _has_value(value: str, group: list[Cell], cells: list[Cell]) -> bool:
    """Return whether a panel shows anything: without a time of its reference it has no ratio."""
    return any(cell.is_ok and np.isfinite(estimate(value, cell, cells).estimate) for cell in group)


def _rank(value: str, cell: Cell, cells: list[Cell]) -> float:
    """Return the sort key of a row; a cell without a value comes last."""
    at = estimate(value, cell, cells).estimate if cell.is_ok else np.inf
    return at if np.isfinite(at) else np.inf


def _finish_rows(chart: Axes, value: str, group: list[Cell], cells: list[Cell]) -> None:
    """Set axes and titles of one panel of rows, with the measured peak if rates are shown."""
    chart.set_title(rates.describe(group))
    chart.set_xlabel(and_where(value_label(value, group), group))
    chart.grid(visible=False, axis="y")
    chart.tick_params(axis="y", length=0)
    if value in ("rate", "time"):
        mark_peaks(chart, group, cells, across="x", value=value)
        chart.set_xlim(left=0)
        scale_ticks(chart.xaxis, value, group)
        chart.xaxis.set_major_locator(MaxNLocator(nbins=4))
    elif any(cell.is_ok for cell in group):
        chart.axvline(1, color=INK, linewidth=1.2)
        log_ticks(chart)


def _bar(chart: Axes, y: int, at: Interval, hue: str) -> None:
    chart.barh(y, at.estimate, height=0.66, color=hue)


def _dot(chart: Axes, y: int, at: Interval, hue: str) -> None:
    chart.plot([1, at.estimate], [y, y], color=hue, linewidth=1.2, alpha=0.45)
    chart.plot([at.estimate], [y], "o", color=hue)


def table_of_rows(group: list[Cell], cells: list[Cell], options: Json) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table beside a panel: the rate, percent of peak, and ratios."""
    with_steps = options.get("labels") == "ladder"
    columns = {unit(group): [short(cell.rate * scale("rate", group)) for cell in group]}
    if all(entry == "-" for entries in columns.values() for entry in entries):
        times = scale("time", group)
        columns = {"us" if times > 1 else "ms": [short(cell.median_ns / 1e6 * times) for cell in group]}
    percents = [analysis_peaks.percent_of_peak(cell, cells if options.get("peak", True) else group) for cell in group]
    if any(part is not None for part in percents):
        peaks = {
            analysis_peaks.name_of_peak(peak, short=True)
            for cell in group
            if (peak := analysis_peaks.peak_of(cell, cells))
        }
        shares = ["-" if part is None else percent(part) for part in percents]
        columns[f"of {peaks.pop() if len(peaks) == 1 else 'own peak'}"] = shares
    if options.get("table") and options["value"] != "rate":
        columns = {}  # the bars' own numbers are enough
    columns |= {head: [_noted(cell, name) for cell in group] for head, name in options.get("table", {}).items()}
    if with_steps:
        rungs = rates.rungs(group, options)
        below = {id(cell): step for cell, step in zip(rungs, rates.steps_below(rungs), strict=True)}
        columns["over step below"] = [_ratio(cell, below.get(id(cell))) for cell in group]
        if options.get("over_reference", True):
            columns[f"over {group[0].reference.removeprefix('cpu-')}"] = [
                _ratio(cell, rates.reference_of(cell, group)) for cell in group
            ]
    else:
        value = options["value"] if options["value"] in ("time_ratio", "speed_up") else "speed_up"
        has_interval = all(rates.has_interval(cell) for cell in group if cell.is_ok)
        head = ("time ratio" if value == "time_ratio" else "speed ratio") + " [95 %]" * has_interval
        shown = _with_interval if has_interval else _median
        columns[head] = [shown(estimate(value, cell, group)) if cell.is_ok else "-" for cell in group]
    if options.get("extra_bytes"):
        columns["extra MB"] = [
            short(cell.facts["extra_bytes"] / 1e6) if "extra_bytes" in cell.facts else "-" for cell in group
        ]
    columns = {head: entries for head, entries in columns.items() if set(entries) != {"-"}}
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _noted(cell: Cell, name: str) -> str:
    """Return a fact of the kernel of `cell`, or a note that came with the arguments of its task."""
    noted = {**cell.arguments.get("notes", {}), **cell.facts.get("kernel", {})}
    return str(noted.get(name, "" if cell.is_ok else "-"))


def _ratio(cell: Cell, reference: Cell | None) -> str:
    if reference is None or not cell.is_ok:
        return "" if cell.is_ok else "-"
    return "1" if cell is reference else short(rates.step(cell, reference).estimate)


def _median(at: Interval) -> str:
    return short(at.estimate) if np.isfinite(at.estimate) else "-"


def _with_interval(at: Interval) -> str:
    if at.low == at.high or not np.isfinite(at.estimate):
        return _median(at)
    return f"{short(at.estimate)} [{short(at.low)}, {short(at.high)}]"
