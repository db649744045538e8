"""Figures over one or two numeric axes: lines, and a heat map."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from harness.analysis import conditions, ragged_sizes, rates
from harness.experiment import Json
from harness.report.figures.looks import INK, Looks
from harness.report.figures.roofs import mark_peaks
from harness.report.figures.sheet import Sheet
from harness.report.figures.values import (
    FEWEST_JOINED,
    MOST_PERCENT,
    PERCENTAGES,
    POWERS,
    PlainLogFormatter,
    and_where,
    estimate,
    joined,
    log_label,
    mark_spread,
    plain_ticks,
    power_of_two,
    scale,
    scale_ticks,
    short,
    spread,
    value_label,
)
from harness.stats.statistics import Interval
from harness.store.store import Cell

LOG_SCALE = ", log scale"
RATIOS = ("time_ratio", "speed_up")  # values that are 1 for the reference
ROW_INCHES = 0.42  # of a heat map
LETTERS_BESIDE = 26  # of a line beside a panel of `lines`
LETTERS_AN_INCH, FEWEST_LETTERS = 13, 16  # in a line of the label along a colour bar
MOST_LETTERS = 36  # of names of one length that fit upright side by side below a heat map
LEAST_APART = 0.075  # of the height of a panel of `lines`, from one name at the end of a line to the next
LAUNCHES: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}  # the line of the host's time to launch a call
NO_TIME = {"declined": "\N{EN DASH}"}  # in a field of a heat map, where words of neighbours would overlap
LEAST_SPAN = math.log2(1.25)  # up to which colours reach at least: what differs by little is not to look as if by much
SMALL_RATIOS = (1.25, 1.5, 2.0, 3.0, 4.0)  # beside a colour bar; of larger ones powers of two
CLIP = 95  # percentile of the values at which colours end: one far off would make all others alike
LUMA = (0.299, 0.587, 0.114)  # perceived brightness of red, green and blue (ITU-R BT.601)


def lines(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a line per contender against a numeric axis, a panel for each value of another; ragged sizes are hollow."""
    x_name, value = options.get("x", "n"), options.get("value", "rate")
    shown = rates.contenders(cells)
    groups = rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem")))
    groups = {title: group for title, group in groups.items() if _says_something(value, group, cells)} or groups
    looks, are_launched = Looks(shown), False
    places = {title: {rates.axis(cell, x_name) for cell in group} for title, group in groups.items()}
    is_shared = bool(set.intersection(*places.values()))  # panels of other sizes would stand half empty
    panels = sheet.panels(len(groups), 1, height=0.4 + 2.9 * len(groups), sharex=is_shared)
    for panel, (title, group) in zip(panels, groups.items(), strict=True):
        named: dict[str, tuple[SeriesPoint, dict[str, Any]]] = {}
        for name, series in rates.group(group, looks.name).items():
            done = sorted((cell for cell in series if cell.is_ok), key=lambda cell: rates.axis(cell, x_name))
            points = [
                SeriesPoint(
                    rates.axis(c, x_name),
                    estimate(value, c, cells),
                    rates.axis(c, options.get("marker", "")),
                    spread(value, c, cells),
                )
                for c in done
            ]
            look = looks.of(name)
            seen = [point for point in points if np.isfinite(point.y.estimate)]
            if seen:
                named[name] = seen[-1], look
                _series(panel, points, look, is_marked="marker" in options)
            launches = [(rates.axis(c, x_name), ns / 1e6) for c in done if (ns := conditions.reading(c, "launch_ns"))]
            if options.get("launches") and launches:
                panel.plot(*zip(*launches, strict=True), color=look["color"], **LAUNCHES)
                are_launched = True
        if options.get("peak", True):
            mark_peaks(panel, group, cells, across="y", value=value)
        panel.set_title(title)
        panel.set_xscale("log", base=2)
        _value_axis(panel, value, group, options)
        _name_lines(sheet, panel, named, at_ends=options.get("ends", False))
        plain_ticks(panel, sorted(set.union(*places.values()) if is_shared else places[title]))
    panels[-1].set_xlabel(options.get("x_label", log_label(x_name)))
    if are_launched:  # last in the legend
        sheet.add_to_legend("launching a call, on the host", color=INK, **LAUNCHES)
    if "marker" in options:
        sheet.add_to_legend("size fits no tile", color=INK, marker="o", markerfacecolor="white", linestyle="")
    sheet.notes += [f"What is above {options['limits'][1]:g} is not drawn."] if "limits" in options else []


def _name_lines(
    sheet: Sheet, panel: Axes, ends: dict[str, tuple[SeriesPoint, dict[str, Any]]], *, at_ends: bool
) -> None:
    """Name lines in the legend, or each at its last point; names that would meet stand apart."""
    if not at_ends:
        for name, (_, look) in ends.items():
            sheet.add_to_legend(name, **look)
        return
    notes = [f"{name}: {sheet.names[name]}." for name in ends if name in sheet.names]
    sheet.notes += [note for note in notes if note not in sheet.notes]
    to_axes = panel.transScale + panel.transLimits
    heights = {name: float(to_axes.transform((point.x, point.y.estimate))[1]) for name, (point, _) in ends.items()}
    rising = sorted(heights, key=lambda name: heights[name])
    for name, place in zip(rising, apart([heights[name] for name in rising]), strict=True):
        point, colour = ends[name][0], ends[name][1]["color"]
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
        style: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "size": 9.5, "arrowprops": line}
        panel.annotate(name, (point.x, point.y.estimate), (1.02, place), color=colour, annotation_clip=False, **style)


def apart(heights: Sequence[float]) -> list[float]:
    """Return rising `heights` moved so that they are `LEAST_APART` and below 1: up where they meet, down from the top.

    Heights are parts of a panel.
    """
    placed: list[float] = []
    for height in heights:
        placed.append(max([height, *(below + LEAST_APART for below in placed[-1:])]))
    top = 1.0
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], top)
        top = placed[index] - LEAST_APART
    return placed


def _value_axis(panel: Axes, value: str, group: list[Cell], options: Json) -> None:
    """Scale and name the axis of values of a panel of `lines`; ``limits`` are those of a linear one."""
    is_log = options.get("y_scale", "linear") == "log"
    label = rates.unit(group) if value == "rate" and is_log else value_label(value, group)
    label = label if is_log else label.removesuffix(LOG_SCALE)
    panel.set_ylabel("\n".join(textwrap.wrap(label, LETTERS_BESIDE, break_on_hyphens=False)))
    if "limits" in options:
        low, high = options["limits"]
        panel.set_ylim(min(low, panel.dataLim.y0), high)
        return
    if value in PERCENTAGES:
        panel.set_ylim(0, max(MOST_PERCENT, panel.get_ylim()[1]))
        return
    if not is_log:
        panel.set_ylim(bottom=0)
        scale_ticks(panel.yaxis, value, group)
        return
    panel.set_yscale("log")
    for set_formatter in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
        set_formatter(PlainLogFormatter(scale(value, group) if value == "time" else 1.0))


def _says_something(value: str, group: Sequence[Cell], cells: list[Cell]) -> bool:
    """Return whether a panel has a value of anything but the reference, to which its ratios are."""
    done = (cell for cell in group if cell.is_ok and (value not in RATIOS or cell.contender != cell.reference))
    return any(np.isfinite(estimate(value, cell, cells).estimate) for cell in done)


def heatmap(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a table of coloured fields, rows by columns of two axes: a rate, or a ratio to the reference."""
    value = options.get("value", "speed_up")
    shown = rates.contenders(cells)
    of_row, of_column = (_labeller(options.get(name, name)) for name in ("rows", "columns"))
    done = [cell for cell in shown if cell.is_ok]  # who has no time anywhere is named below the figure
    others = [cell for cell in done if cell.contender != cell.reference or value not in RATIOS] or done
    by_contender = {name: others if options.get(name) == "contender" else done for name in ("rows", "columns")}
    rows = _in_order(map(of_row, by_contender["rows"]))  # without the reference, which is 1 everywhere
    columns = list(dict.fromkeys(map(of_column, by_contender["columns"])))
    shown = [cell for cell in shown if of_row(cell) in rows and of_column(cell) in columns]
    factor = scale(value, shown)
    numbers, words = np.full((len(rows), len(columns)), np.nan), np.full((len(rows), len(columns)), "", dtype=object)
    for cell in shown:
        field = rows.index(of_row(cell)), columns.index(of_column(cell))
        numbers[field] = estimate(value, cell, cells).estimate * factor if cell.is_ok else np.nan
        words[field] = short(numbers[field]) if np.isfinite(numbers[field]) else NO_TIME.get(cell.status, cell.status)
    sheet.notes += [f"{mark}: {status}." for status, mark in NO_TIME.items() if mark in words]
    (panel,) = sheet.panels(height=1.3 + ROW_INCHES * len(rows))
    is_ratio = value not in ("rate", "of_peak", "of_read")
    shades = np.log2(numbers) if is_ratio else numbers
    known = np.abs(shades[np.isfinite(shades)])
    least = LEAST_SPAN if is_ratio else 1e-9
    most = max(float(np.percentile(known, CLIP)), least) if known.size else 1.0
    image = panel.imshow(
        shades, cmap="PuOr_r" if is_ratio else "cividis", vmin=-most if is_ratio else 0, vmax=most, aspect="auto"
    )
    for (row, column), word in np.ndenumerate(words):
        luma = np.dot(image.to_rgba(shades[row, column])[:3], LUMA) if np.isfinite(shades[row, column]) else 1.0
        panel.text(column, row, word, ha="center", va="center", size=9.5, color="white" if luma < 0.5 else INK)
    names = [str(column) for column in columns]
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if _is_crowded(names) else {}
    panel.set_xticks(range(len(columns)), names, **slant)
    panel.set_yticks(range(len(rows)), [str(row) for row in rows])
    panel.set_xlabel(and_where(options.get("x_label", str(options.get("columns", "columns"))), shown))
    panel.grid(visible=False)
    bar = sheet.canvas.colorbar(image, ax=panel, pad=0.02)
    label = value_label(value, shown).removesuffix(LOG_SCALE) + (LOG_SCALE if is_ratio else "")
    letters = max(FEWEST_LETTERS, int(ROW_INCHES * len(rows) * LETTERS_AN_INCH))
    bar.set_label("\n".join(textwrap.wrap(label, letters)), size=9.5)
    if is_ratio:
        bar.locator = FixedLocator([math.log2(ratio) for ratio in bar_ticks(most, len(rows))])
        bar.formatter = FuncFormatter(lambda power, _: power_of_two(power))
        bar.update_ticks()


def _is_crowded(names: list[str]) -> bool:
    """Return whether names below the columns of a heat map, each centred below its own, would meet a neighbour."""
    widest = max((len(one) + len(other) for one, other in itertools.pairwise(names)), default=0) / 2
    return len(names) > 4 or widest > MOST_LETTERS / len(names)


def bar_ticks(most: float, rows: int) -> list[float]:
    """Return the ratios that stand beside a colour bar from ``2 ** -most`` to ``2 ** most``, as high as `rows`."""
    above = [ratio for ratio in (SMALL_RATIOS if most <= math.log2(SMALL_RATIOS[-1]) else POWERS) if ratio > 1]
    seen = [ratio for ratio in above if math.log2(ratio) <= most + 1e-9]
    step = -(-2 * len(seen) // max(rows - 1, 2)) or 1  # as many above 1 as below it
    kept = seen[::-1][::step]
    return [*(1 / ratio for ratio in kept), 1.0, *reversed(kept)]


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Return the names of rows, each once: numbers by size, others as they come."""
    known = list(dict.fromkeys(names))
    return sorted(known) if all(isinstance(name, int | float) for name in known) else known


class SeriesPoint(NamedTuple):
    """A point of a series: position, value, and kind of size."""

    x: float
    y: Interval
    kind: Any
    samples: list[float]  # shown where they are too few for an interval


def _series(panel: Axes, points: list[SeriesPoint], look: dict[str, Any], *, is_marked: bool) -> None:
    """Draw a line with intervals; where sizes have kinds, the line and filled markers are those that fit tiles.

    Where they have none, the line passes by what lies beside a whole tile.
    """
    fits = [p.kind in ragged_sizes.REGULAR_KINDS for p in points] if is_marked else joined([p.x for p in points])
    regular = [point for point, is_regular in zip(points, fits, strict=True) if is_regular]
    ragged = [point for point, is_regular in zip(points, fits, strict=True) if not is_regular]
    for point in points:
        mark_spread(panel, point.x, point.y.estimate, point.y, point.samples, look["color"])
    line = {} if len(regular) >= FEWEST_JOINED else {"linestyle": ""}
    beside = {"linestyle": "", "markerfacecolor": "white"} if is_marked else {"linestyle": ""}
    for some, changed in ((regular, line), (ragged, beside)):
        marker = {**look, "markersize": 5.5, "zorder": 3, **changed}
        panel.plot([point.x for point in some], [point.y.estimate for point in some], **marker)


def _labeller(name: str | Sequence[str]) -> Callable[[Cell], Any]:
    if isinstance(name, str):
        return lambda cell: cell.contender if name == "contender" else rates.axis(cell, name)
    return lambda cell: rates.words(cell, name)
