"""Figures of any experiment: horizontal bars and dots with a table beside them, lines, and a heat map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatter, MaxNLocator, NullLocator, ScalarFormatter

from harness.analysis import conditions, rates
from harness.analysis import peaks as analysis_peaks
from harness.experiment import Json
from harness.report.figures.roofs import mark_peak
from harness.report.figures.style import GREY, INK, Looks, Sheet, table, table_width
from harness.stats.statistics import Interval
from harness.store.store import Cell

ROW_INCHES, LOW_ROW_INCHES, HEAD_INCHES = 0.36, 0.29, 0.95
MOST_TICKS, LONG_TICKS = 7, 10_000  # numbers that are as long leave room for four
MOST_LETTERS = 34  # of the names below a heat map that stand upright side by side
ROWS_WIDTH = 6.3  # inches for chart and table together, names of contenders aside
NAME_INCHES, USUAL_NAME = 0.085, 18  # of a letter of a name; letters that ROWS_WIDTH leaves room for
FEWEST_ROWS = 3  # that a chart has the height of: below it, ticks and label leave no room
LAUNCHES: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}  # the look of what the host takes to launch a call
LUMA = (0.299, 0.587, 0.114)  # how bright red, green and blue are seen (ITU-R BT.601)
NO_VALUE = Interval(math.nan, math.nan, math.nan)


def bars(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a bar per contender, from zero, and a table beside it."""
    _rows(sheet, cells, {"value": "rate", **options}, _bar)


def dots(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a dot with its interval per contender, the smallest on top, over a logarithmic axis; a table beside it."""
    _rows(sheet, cells, {"value": "time_ratio", "sort": True, **options}, _dot)


def lines(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a line per contender against a numeric axis, a panel for each value of another; ragged sizes are hollow."""
    x_name, value = options.get("x", "n"), options.get("value", "rate")
    shown = rates.contenders(cells)
    groups = rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem")))
    looks, are_launched = Looks(shown), False
    panels = sheet.panels(len(groups), 1, height=0.4 + 2.9 * len(groups), sharex=True)
    for panel, (title, own) in zip(panels, groups.items(), strict=True):
        for name, series in rates.group(own, looks.name).items():
            done = sorted((cell for cell in series if cell.is_ok), key=lambda cell: rates.axis(cell, x_name))
            points = [
                Point(rates.axis(c, x_name), estimate(value, c, cells), rates.axis(c, options.get("marker", "")))
                for c in done
            ]
            look = looks.of(name)
            if points:
                sheet.add_to_legend(name, **look)
                _series(panel, points, look, is_marked="marker" in options)
            launches = [(rates.axis(c, x_name), ns / 1e6) for c in done if (ns := conditions.reading(c, "launch_ns"))]
            if options.get("launches") and launches:
                panel.plot(*zip(*launches, strict=True), color=look["color"], **LAUNCHES)
                are_launched = True
        if value == "rate":
            mark_peak(panel, own, cells, across="y")
        panel.set_title(title)
        panel.set_ylabel(value_label(value, own))
        panel.set_xscale("log", base=2)
        panel.set_yscale(options.get("y_scale", "linear"))
        if options.get("y_scale", "linear") == "linear":
            panel.set_ylim(bottom=0)
        else:
            for axis_format in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
                axis_format(PlainLogFormatter())
        plain_ticks(panel, sorted({rates.axis(cell, x_name) for cell in shown}))  # they share their x axis
    panels[-1].set_xlabel(_and_where(options.get("x_label", f"{x_name}, elements (logarithmic)"), shown))
    if are_launched:  # last in the legend
        sheet.add_to_legend("launching a call, on the host", color=INK, **LAUNCHES)
    if "marker" in options:
        sheet.add_to_legend("size fits no tile", color=INK, marker="o", markerfacecolor="white", linestyle="")


def heatmap(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a table of coloured fields, rows by columns of two axes: a rate, or a ratio to the reference."""
    value = options.get("value", "speed_up")
    shown = rates.contenders(cells)
    of_row, of_column = (_labeller(options.get(name, name)) for name in ("rows", "columns"))
    rows, columns = list(dict.fromkeys(map(of_row, shown))), list(dict.fromkeys(map(of_column, shown)))
    numbers, words = np.full((len(rows), len(columns)), np.nan), np.full((len(rows), len(columns)), "", dtype=object)
    for cell in shown:
        place = rows.index(of_row(cell)), columns.index(of_column(cell))
        numbers[place] = estimate(value, cell, cells).estimate if cell.is_ok else np.nan
        words[place] = short(numbers[place]) if np.isfinite(numbers[place]) else cell.status
    (panel,) = sheet.panels(height=1.3 + 0.42 * len(rows))
    is_ratio = value not in ("rate", "of_peak")
    shades = np.log2(numbers) if is_ratio else numbers
    most = max(float(np.nanmax(np.abs(shades))), 1e-9) if np.isfinite(shades).any() else 1.0
    image = panel.imshow(
        shades, cmap="PuOr_r" if is_ratio else "cividis", vmin=-most if is_ratio else 0, vmax=most, aspect="auto"
    )
    for (row, column), word in np.ndenumerate(words):
        luma = np.dot(image.to_rgba(shades[row, column])[:3], LUMA) if np.isfinite(shades[row, column]) else 1.0
        panel.text(column, row, word, ha="center", va="center", size=9.5, color="white" if luma < 0.5 else INK)
    is_crowded = len(columns) > 4 or sum(len(str(column)) for column in columns) > MOST_LETTERS
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if is_crowded else {}
    panel.set_xticks(range(len(columns)), [str(column) for column in columns], **slant)
    panel.set_yticks(range(len(rows)), [str(row) for row in rows])
    panel.set_xlabel(_and_where(options.get("x_label", str(options.get("columns", "columns"))), shown))
    panel.grid(visible=False)
    bar = sheet.canvas.colorbar(image, ax=panel, pad=0.02)
    bar.set_label(value_label(value, shown) + (", log scale" if is_ratio else ""), size=9.5)
    if is_ratio:
        bar.locator = MaxNLocator(integer=True, nbins=6)
        bar.formatter = FuncFormatter(lambda power, _: f"{2.0**power:.{6 if power > 0 else 3}g}")
        bar.update_ticks()


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
    panel.xaxis.set_major_formatter(ScalarFormatter())


class PlainLogFormatter(LogFormatter):
    """Labels the ticks of a logarithmic axis that matplotlib would label, but in plain numbers."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of the tick at `x`; empty for most of those between powers of ten."""
        return f"{x:.6g}" if super().__call__(x, pos) else ""


class Point(NamedTuple):
    """A point of a series: where, how much, and of which kind."""

    x: float
    y: Interval
    kind: Any


def _series(panel: Axes, points: list[Point], look: dict[str, Any], *, is_marked: bool) -> None:
    """Draw a line with intervals; where sizes have kinds, the line and filled markers are those that fit tiles."""
    regular = [point for point in points if not is_marked or point.kind in rates.REGULAR_KINDS]
    ragged = [point for point in points if point not in regular]
    error = error_bars([point.y for point in points])
    heights = [point.y.estimate for point in points]
    panel.errorbar([point.x for point in points], heights, yerr=error, fmt="none", ecolor=look["color"], elinewidth=1.2)
    for some, changed in ((regular, {}), (ragged, {"linestyle": "", "markerfacecolor": "white"})):
        marker = {**look, "markersize": 5.5, "zorder": 3, **changed}
        panel.plot([point.x for point in some], [point.y.estimate for point in some], **marker)


def _rows(sheet: Sheet, cells: list[Cell], options: Json, draw: Callable[..., None]) -> None:
    """Draw a row per contender in a panel for each value of an axis, one below the other."""
    shown = rates.contenders(cells)
    value, looks = options["value"], Looks(shown)
    groups = rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem")))
    if options.get("sort"):
        groups = {title: sorted(own, key=lambda cell: _rank(value, cell, shown)) for title, own in groups.items()}
    tables = [table_of_rows(own, cells, options) for own in groups.values()]
    width = max(table_width(heads, rows) for heads, rows in tables)
    counts = [len(own) + HEAD_INCHES / ROW_INCHES for own in groups.values()]
    ratios = {"width_ratios": [ROWS_WIDTH - width, width], "height_ratios": counts}
    panels = sheet.panels(len(groups), 2, height=ROW_INCHES * sum(counts) + 0.3, **ratios)
    is_ambiguous = len({rates.describe(own) for own in groups.values()}) < len(groups)
    for (name, own), (heads, rows), chart, beside in zip(
        groups.items(), tables, panels[::2], panels[1::2], strict=True
    ):
        for y, cell in enumerate(own):
            if cell.is_ok:
                draw(chart, y, estimate(value, cell, shown), looks.of(cell.contender)["color"])
            else:
                place: dict[str, Any] = {"xycoords": chart.get_yaxis_transform(), "textcoords": "offset points"}
                chart.annotate(cell.status, (0, y), (6, 0), va="center", color=GREY, style="italic", **place)
        chart.set_yticks(range(len(own)), [cell.contender for cell in own])
        for panel in (chart, beside):
            panel.set_ylim(len(own) - 0.4, -0.6)
        _finish_rows(chart, value, own, cells if options.get("peak", True) else own)
        if is_ambiguous:
            chart.set_title(f"{name}: {rates.describe(own)}")
        table(beside, heads, rows)


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


def _rank(value: str, cell: Cell, cells: list[Cell]) -> float:
    """Return by what a row is sorted; a cell without a value comes last."""
    at = estimate(value, cell, cells).estimate if cell.is_ok else np.inf
    return at if np.isfinite(at) else np.inf


def _finish_rows(chart: Axes, value: str, own: list[Cell], cells: list[Cell]) -> None:
    """Set axes and titles of one panel of rows, with the measured peak if rates are shown."""
    chart.set_title(rates.describe(own))
    chart.set_xlabel(_and_where(value_label(value, own), own))
    chart.grid(visible=False, axis="y")
    chart.tick_params(axis="y", length=0)
    if value in ("rate", "time"):
        if value == "rate":
            mark_peak(chart, own, cells, across="x")
        chart.set_xlim(left=0)
        if chart.get_xlim()[1] >= LONG_TICKS:
            chart.xaxis.set_major_locator(MaxNLocator(nbins=4))
    elif any(cell.is_ok for cell in own):
        chart.axvline(1, color=INK, linewidth=1.2)
        log_ticks(chart)


def log_ticks(chart: Axes) -> None:
    """Make the x axis of ratios logarithmic, from below 1 to above 2, with powers of two as ticks."""
    chart.set_xscale("log", base=2)
    low, high = chart.get_xlim()
    chart.set_xlim(min(low, 0.8), max(high, 2.5))
    powers = range(math.ceil(math.log2(chart.get_xlim()[0])), math.floor(math.log2(chart.get_xlim()[1])) + 1)
    step = -(-len(powers) // MOST_TICKS)
    chart.xaxis.set_major_locator(FixedLocator([2.0**power for power in powers if power % step == 0]))
    chart.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")


def _bar(chart: Axes, y: int, at: Interval, hue: str) -> None:
    chart.barh(y, at.estimate, height=0.66, color=hue)
    chart.errorbar(at.estimate, y, xerr=error_bars([at]), fmt="none", ecolor=INK, elinewidth=1.2, capsize=2.5)


def _dot(chart: Axes, y: int, at: Interval, hue: str) -> None:
    chart.plot([1, at.estimate], [y, y], color=hue, linewidth=1.2, alpha=0.45)
    chart.errorbar(at.estimate, y, xerr=error_bars([at]), fmt="o", color=hue, ecolor=INK, elinewidth=1.2, capsize=2.5)


def table_of_rows(own: list[Cell], cells: list[Cell], options: Json) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table beside a panel: the rate, percent of peak, and ratios."""
    with_steps = options.get("labels") == "ladder"
    columns = {rates.unit(own): [short(cell.rate) for cell in own]}
    if all(entry == "-" for entries in columns.values() for entry in entries):
        columns = {"ms": [short(cell.median_ns / 1e6) for cell in own]}
    percents = [analysis_peaks.percent_of_peak(cell, cells if options.get("peak", True) else own) for cell in own]
    if any(percent is not None for percent in percents):
        peaks = {
            analysis_peaks.name_of_peak(peak, short=True)
            for cell in own
            if (peak := analysis_peaks.peak_of(cell, cells))
        }
        shares = ["-" if percent is None else f"{short(percent, 2)} %" for percent in percents]
        columns[f"of {peaks.pop() if len(peaks) == 1 else 'own peak'}"] = shares
    if with_steps:
        columns["over step below"] = [
            _ratio(cell, step) for cell, step in zip(own, rates.steps_below(own), strict=True)
        ]
        if options.get("over_reference", True):
            columns[f"over {own[0].reference.removeprefix('cpu-')}"] = [
                _ratio(cell, rates.reference_of(cell, own)) for cell in own
            ]
    else:
        value = options["value"] if options["value"] in ("time_ratio", "speed_up") else "speed_up"
        head = "time ratio [95 %]" if value == "time_ratio" else "speed ratio [95 %]"
        columns[head] = [_with_interval(estimate(value, cell, own)) if cell.is_ok else "-" for cell in own]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _ratio(cell: Cell, reference: Cell | None) -> str:
    if reference is None or not cell.is_ok:
        return "" if cell.is_ok else "-"
    return "1" if cell is reference else short(rates.speed_up(cell, reference).estimate)


def _with_interval(at: Interval) -> str:
    if at.low == at.high:
        return short(at.estimate) if np.isfinite(at.estimate) else "-"
    return f"{short(at.estimate)} [{short(at.low)}, {short(at.high)}]"


def estimate(value: str, cell: Cell, cells: list[Cell]) -> Interval:
    """Return one of the values that a figure can show, with its interval."""
    if value == "rate":
        return rates.rate_interval(cell)
    if value == "time":
        return Interval(*(bound / 1e6 for bound in rates.time_interval(cell)))
    if value in ("of_peak", "over_fastest"):
        found = (analysis_peaks.interval_of_peak if value == "of_peak" else rates.over_fastest)(cell, cells)
        return found or NO_VALUE
    reference = rates.reference_of(cell, cells)
    if reference is None:
        return NO_VALUE
    return (rates.time_ratio if value == "time_ratio" else rates.speed_up)(cell, reference)


def value_label(value: str, cells: list[Cell]) -> str:
    """Return the words at an axis that shows `value`, with its unit."""
    reference = next((cell.reference for cell in cells), "the reference")
    return {
        "rate": rates.unit(cells) + (" (2 operations a pair)" if rates.unit(cells) == "Gop/s" else ""),
        "time": "ms a call",
        "time_ratio": f"time relative to {reference}, log scale",
        "speed_up": f"speed relative to {reference}",
        "of_peak": "% of measured SIMT peak" if all(map(rates.is_on_device, cells)) else "% of measured peak",
        "over_fastest": "rate / rate of the fastest peer, log scale",
    }[value]


def _and_where(label: str, cells: list[Cell]) -> str:
    """Return the label of an axis, and what `cells` ran on if that can be said in a few words."""
    return ", ".join(filter(None, [label, rates.runs_on(cells)]))


def _labeller(name: str | Sequence[str]) -> Callable[[Cell], Any]:
    if isinstance(name, str):
        return lambda cell: cell.contender if name == "contender" else rates.axis(cell, name)
    return lambda cell: rates.words(cell, name)


def error_bars(intervals: list[Interval]) -> list[list[float]]:
    """Return how far the ends of each interval are below and above its estimate, as matplotlib's error bars want it."""
    return [[i.estimate - i.low for i in intervals], [i.high - i.estimate for i in intervals]]
