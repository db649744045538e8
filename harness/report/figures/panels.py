"""Draws the panels of a chart with matplotlib."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from harness.report.figures import ticks
from harness.report.figures.chart import Axis, Chart, Fields, Look, Panel, Rule, Series, Table, Words
from harness.report.figures.looks import GREY, INK, PALE
from harness.report.figures.sheet import Sheet
from harness.report.tables import byte_size

ROW_INCHES, FIELD_INCHES, HEAD_INCHES, FEWEST_ROWS = 0.31, 0.42, 0.95, 3
LETTER_INCHES, GAP_INCHES = 0.078, 0.16  # of a column of a table
TITLE_INCHES, ABOVE_HEADS = 0.09, 20  # of a letter of a panel's title; points that lift it above the heads of its table
WHOLE_WIDTH, LEAST_WIDTH = 7.4, 2.2  # inches of names, marks and table of a row together; of marks at least
LETTERS_AN_INCH, FEWEST_LETTERS = 12, 16  # along a panel, for the label of its y axis
LEAST_APART = 0.075  # of the height of a panel, from one name at the end of a line to the next
MOST_UPRIGHT = 36  # letters of names of one length that fit side by side below fields
LUMA = (0.299, 0.587, 0.114)  # perceived brightness of red, green and blue (ITU-R BT.601)
PAPER: Look = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}  # behind words that cross a line
LINE: Look = {"color": INK, "linewidth": 1.2, "zorder": 1.9}


def write(chart: Chart, path: Path) -> Path:
    """Write the file of a chart, ``path.svg``, and return it."""
    sheet = Sheet(chart.title)
    sheet.subtitle, sheet.names, sheet.identifier = chart.subtitle, chart.names, chart.identifier
    draw(sheet, chart)
    return sheet.save(path, chart.footer)


def draw(sheet: Sheet, chart: Chart) -> None:
    """Draw `chart` on `sheet`: panels with their tables beside them, legend and sentences below."""
    sheet.notes += chart.notes
    if chart.says or not chart.panels:
        sheet.say(chart.says or "Nothing to show")
        return
    axes, beside = _axes(sheet, chart)
    for at, (panel, own) in enumerate(zip(chart.panels, axes, strict=False)):
        for which in "xy":
            spans = [other.span(which) for other in _together(chart, at, which)]
            span = min(low for low, _ in spans), max(high for _, high in spans)
            _scale(own, which, getattr(panel, which), span, is_field=panel.fields is not None)
        _draw_panel(sheet, own, panel)
        _say_once(own, chart, at)
        named = [series for series in panel.series if series.name]
        if chart.ends:
            _name_ends(own, named)
        for series in () if chart.ends else named:
            sheet.add_to_legend(series.name, **chart.legend.get(series.name, _key(series)))
        if beside:
            _draw_table(beside[at], panel.table or Table([], []), own.get_ylim())
    for unused in axes[len(chart.panels) :]:
        unused.set_axis_off()
    for name, look in chart.legend.items():
        sheet.add_to_legend(name, **look)


def _say_once(axes: Axes, chart: Chart, at: int) -> None:
    """Leave an axis that panels share without words but for the lowest panel and the leftmost."""
    if "x" in chart.share and at + chart.columns < len(chart.panels):
        axes.set_xlabel("")
        axes.tick_params(axis="x", labelbottom=False)
    if "y" in chart.share and at % chart.columns:
        axes.set_ylabel("")


def _axes(sheet: Sheet, chart: Chart) -> tuple[list[Axes], list[Axes]]:
    """Return axes for the panels of `chart`, and for their tables if they have some."""
    tables = [panel.table for panel in chart.panels if panel.table]
    heights = [max(map(_height, own)) or chart.height for own in _rows_of(chart)]
    options: Look = {"height": sum(heights) + 0.3, "height_ratios": heights}
    if not tables:
        how: Any = "row" if chart.share == "row" else True
        options |= {f"share{which}": how for which in "xy" if which in chart.share or chart.share == "row"}
        return sheet.panels(len(heights), chart.columns, **options), []
    names = max(len(name) for panel in chart.panels for name in panel.y.names) * LETTER_INCHES
    width = max(map(_table_inches, tables))
    options["width_ratios"] = [max(WHOLE_WIDTH - names - width, LEAST_WIDTH), width]
    axes = sheet.panels(len(heights), 2, **options)
    return axes[::2], axes[1::2]


def _rows_of(chart: Chart) -> list[Sequence[Panel]]:
    return [chart.panels[at : at + chart.columns] for at in range(0, len(chart.panels), chart.columns)]


def _together(chart: Chart, at: int, which: str) -> Sequence[Panel]:
    """Return the panels that have an axis in common with the one in place `at`."""
    if chart.share == "row":
        return _rows_of(chart)[at // chart.columns]
    return chart.panels if which in chart.share else [chart.panels[at]]


def _height(panel: Panel) -> float:
    inches = FIELD_INCHES if panel.fields else ROW_INCHES
    return inches * max(len(panel.y.names), FEWEST_ROWS) + HEAD_INCHES if panel.y.names else 0.0


def _key(series: Series) -> Look:
    return {"color": series.look["color"], "linewidth": 6} if series.form == "bars" else series.look


# ---- axes


def _scale(axes: Axes, which: str, axis: Axis, span: tuple[float, float], *, is_field: bool) -> None:
    """Scale an axis, limit it to what must be seen, and label its ticks."""
    line = axes.xaxis if which == "x" else axes.yaxis
    set_limits, set_scale = (getattr(axes, f"set_{which}{name}") for name in ("lim", "scale"))
    getattr(axes, f"set_{which}label")(_wrapped(axes, axis.label) if which == "y" else axis.label)
    if axis.names:
        line.set_ticks(range(len(axis.names)), axis.names, **(_slant(axis.names) if which == "x" else {}))
        line.grid(visible=False)
        line.set_tick_params(length=0)
        if not is_field:
            set_limits(len(axis.names) - 0.4, -0.6)
        return
    low, high = ticks.limits(axis.scale, span, axis.limits)
    if axis.scale != "linear":
        set_scale("log", base=10 if axis.scale == "log" else 2)
    if low < high:
        set_limits(low, high)
    line.set_major_formatter(lambda tick, _: byte_size(tick) if axis.is_bytes else f"{tick * axis.factor:.10g}")
    line.set_minor_formatter(NullFormatter())
    if axis.ticks:
        line.set_major_locator(FixedLocator(ticks.apart([tick for tick in axis.ticks if low <= tick <= high])))
        line.set_minor_locator(NullLocator())
    elif axis.scale == "linear":
        line.set_major_locator(MaxNLocator(nbins=5 if which == "x" else 6))
    elif axis.scale == "log":
        line.set_major_locator(FixedLocator(ticks.of_decades(low, high, axis.factor, 4 if which == "x" else 6)))
    elif axis.scale == "ratio":
        line.set_major_locator(FixedLocator(ticks.of_ratios(low, high, 0.17 if which == "x" else 0.1)))
        line.set_minor_locator(NullLocator())
        line.set_major_formatter(lambda tick, _: ticks.ratio(tick))


def _wrapped(axes: Axes, label: str) -> str:
    height = axes.get_window_extent().height / axes.figure.dpi
    letters = max(FEWEST_LETTERS, int(height * LETTERS_AN_INCH))
    return "\n".join(textwrap.wrap(label, letters, break_on_hyphens=False))


def _slant(names: Sequence[str]) -> Look:
    """Return the look of names below columns: slanted if, each centred below its own, two would meet."""
    widest = max((len(one) + len(other) for one, other in itertools.pairwise(names)), default=0) / 2
    is_crowded = (len(names) > 4 and max(map(len, names)) > 5) or widest > MOST_UPRIGHT / len(names)
    return {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if is_crowded else {}


# ---- marks


def _draw_panel(sheet: Sheet, axes: Axes, panel: Panel) -> None:
    is_wide = TITLE_INCHES * len(panel.title) > axes.get_window_extent().width / axes.figure.dpi
    above_heads = ABOVE_HEADS if panel.table and is_wide else None
    axes.set_title(panel.title, size=11 if len(panel.title) < 60 else 10, pad=above_heads)
    if panel.fields:
        _draw_fields(sheet, axes, panel.fields, len(panel.y.names))
    for rule in panel.rules:
        _draw_rule(axes, rule)
    for series in panel.series:
        _draw_series(axes, series)
    for words in panel.words:
        _write(axes, words)


def _draw_series(axes: Axes, series: Series) -> None:
    """Draw points, what joins them or leads to them, and their intervals or samples."""

    def place(at: Sequence[float], values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
        return (at, values) if series.across == "y" else (values, at)

    points, colour = series.points, series.look["color"]
    at, middles = [point.at for point in points], [point.value.estimate for point in points]
    begins = [(point, point.begin) for point in points if math.isfinite(point.begin)]
    if series.form == "bars":
        draw_bars = axes.bar if series.across == "y" else axes.barh
        lengths = [point.value.estimate - begin for point, begin in begins]
        edges: Look = {"bottom" if series.across == "y" else "left": [begin for _, begin in begins]}
        draw_bars([point.at for point, _ in begins], lengths, 0.66, **edges, **series.look)
    else:
        for point, begin in begins:
            axes.plot(*place([point.at] * 2, [begin, point.value.estimate]), color=colour, linewidth=1.2, alpha=0.5)
        steps: Look = {"drawstyle": "steps-post"} if series.form == "steps" else {}
        axes.plot(*place(at, middles), **{"zorder": 3, **steps, **series.look})
    if series.form == "band":
        low, high = ([point.value[end] for point in points] for end in (1, 2))
        axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
        return
    shade = INK if series.form == "bars" else colour
    samples: Look = {"linestyle": "", "marker": "o", "markersize": 3, "alpha": 0.55, "markeredgewidth": 0, "zorder": 4}
    for point in points:
        if len(point.samples):
            axes.plot(*place([point.at] * len(point.samples), point.samples), color=shade, **samples)
        elif point.value.low < point.value.high:
            ends = [[point.value.estimate - point.value.low], [point.value.high - point.value.estimate]]
            bar: Look = {f"{series.across}err": ends, "ecolor": shade, "elinewidth": 1.2, "capsize": 2.5}
            axes.errorbar(*place([point.at], [point.value.estimate]), fmt="none", **bar)


def _draw_rule(axes: Axes, rule: Rule) -> None:
    is_upright, look = rule.across == "x", {**LINE, **rule.look}
    if math.isfinite(rule.end):
        (axes.axvspan if is_upright else axes.axhspan)(rule.at, rule.end, linewidth=0, zorder=0.5, **rule.look)
    else:
        (axes.axvline if is_upright else axes.axhline)(rule.at, **look)
    if not rule.words:
        return
    if math.isfinite(rule.end):
        _write(axes, Words(rule.words, rule.at, 1, {"ha": "left", "va": "top"}, within="y"))
    elif is_upright:
        _write(axes, Words(rule.words, rule.at, 0.98, {"ha": "right", "va": "top", "rotation": 90}, within="y"))
    else:
        _write(axes, Words(rule.words, 1, rule.at, {"ha": "right", "va": "bottom"}, within="x"))


def _write(axes: Axes, words: Words) -> None:
    transforms = {"": axes.transData, "xy": axes.transAxes}
    transforms |= {"x": axes.get_yaxis_transform(), "y": axes.get_xaxis_transform()}
    written = axes.annotate(
        words.text,
        (words.x, words.y),
        xycoords=transforms[words.within],
        **{"size": 9, "va": "center", "zorder": 5, "bbox": PAPER, **words.look},
    )
    written.set_in_layout(words.within != "x")


def _name_ends(axes: Axes, lines: list[Series]) -> None:
    """Name lines at their last points; names that would meet stand apart."""
    to_axes = axes.transScale + axes.transLimits
    ends = {series.name: (series.points[-1], series.look["color"]) for series in lines}
    heights = {name: float(to_axes.transform((p.at, p.value.estimate))[1]) for name, (p, _) in ends.items()}
    rising = sorted(heights, key=heights.__getitem__)
    for name, height in zip(rising, ticks.spread_out([heights[name] for name in rising], LEAST_APART), strict=True):
        point, colour = ends[name]
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
        style: Look = {"textcoords": "axes fraction", "va": "center", "size": 9.5, "arrowprops": line}
        place = (point.at, point.value.estimate)
        axes.annotate(name, place, (1.02, height), color=colour, annotation_clip=False, **style)


# ---- tables and fields


def _table_inches(table: Table) -> float:
    return sum(_columns(table)) or 0.01


def _columns(table: Table) -> list[float]:
    texts = ([head, *(row[at] for row in table.rows)] for at, head in enumerate(table.heads))
    return [LETTER_INCHES * max(map(len, own)) + GAP_INCHES for own in texts]


def _draw_table(axes: Axes, table: Table, limits: tuple[float, float]) -> None:
    """Write columns of text, each right-aligned, row 0 at y = 0."""
    axes.set_axis_off()
    axes.set_ylim(*limits)
    axes.set_xlim(0, _table_inches(table))
    for at, right in enumerate(itertools.accumulate(_columns(table))):
        style: Look = {"ha": "right", "va": "center", "size": 9.5}
        axes.text(right, -0.95, table.heads[at], color=GREY, **style)
        for y, row in enumerate(table.rows):
            axes.text(right, y, row[at], **style)


def _draw_fields(sheet: Sheet, axes: Axes, fields: Fields, rows: int) -> None:
    """Draw numbers as coloured fields with their words on them, and a bar of the colours if it has a label."""
    low, high = fields.limits
    colours = colormaps[fields.colours] if isinstance(fields.colours, str) else ListedColormap(list(fields.colours))
    numbers = np.array(fields.numbers, dtype=float)
    image = axes.imshow(numbers, cmap=colours, vmin=low, vmax=high, aspect="auto")
    axes.grid(visible=False)
    longest = max((len(line) for own in fields.words for words in own for line in words.split("\n")), default=0)
    size = 9.5 if longest * numbers.shape[1] < 70 else 7.5 if longest * numbers.shape[1] < 110 else 6.0
    for (row, column), number in np.ndenumerate(numbers):
        is_known = bool(np.isfinite(number))
        if fields.is_hatched and not is_known:
            hatch: Look = {"facecolor": "white", "edgecolor": PALE, "hatch": "////", "linewidth": 0}
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **hatch))
        luma = float(np.dot(image.to_rgba(number)[:3], LUMA)) if is_known else 1.0
        style: Look = {"ha": "center", "va": "center", "size": size, "color": "white" if luma < 0.5 else INK}
        axes.text(column, row, fields.words[row][column], **style)
    if fields.bar:
        bar = sheet.canvas.colorbar(image, ax=axes, pad=0.02)
        letters = max(FEWEST_LETTERS, int(FIELD_INCHES * rows * 13))
        bar.set_label("\n".join(textwrap.wrap(fields.bar, letters)), size=9.5)
        if fields.is_ratio:
            bar.locator = FixedLocator([math.log2(tick) for tick in ticks.of_bar(high, rows)])
            bar.formatter = FuncFormatter(lambda power, _: ticks.ratio(2.0**power))
            bar.update_ticks()
