"""Figures of one subject: its speed over the fastest peer by size, and rows of dots of ratios or percentages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from harness.analysis import rates, rivals
from harness.analysis.findings import regret
from harness.experiment import Json
from harness.report.figures.looks import GREY, INK, MARKERS, PALETTE, Looks
from harness.report.figures.rows import rows_with_table
from harness.report.figures.sheet import PAPER, Sheet, table
from harness.report.figures.values import (
    FEWEST_JOINED,
    MOST_PERCENT,
    POWERS,
    RATIO_TICKS,
    WIDEST,
    estimate,
    joined,
    log_label,
    log_ticks,
    mark_spread,
    plain_ticks,
    short,
    spread,
    value_label,
)
from harness.stats.statistics import Interval, geometric_mean
from harness.store.store import Cell

SPREAD = 0.62  # of the height of a row, over which its dots are spread

ROOM = 1.25  # that points keep on an axis of ratios

DOT: dict[str, Any] = {"markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.4}
REASON: dict[str, Any] = {"color": GREY, "style": "italic", "size": 9.5}


def versus(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw the subject's rate over that of the fastest peer against a numeric axis, in that peer's colour."""
    x_name, looks = options.get("x", "n"), Looks(rates.contenders(cells))
    groups = rates.group(_of_subject(cells, options), lambda cell: rates.words(cell, options["panels"]))
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    panels = sheet.panels(rows, columns, height=0.3 + 2.9 * rows, sharey=True)
    shown: list[float] = []
    for index, (panel, (title, group)) in enumerate(zip(panels, groups.items(), strict=False)):
        group.sort(key=lambda cell: rates.axis(cell, x_name))
        points = [(cell, ratio) for cell in group if (ratio := rivals.over_fastest(cell, cells))]
        shown += [ratio.estimate for _, ratio in points]
        _curve(sheet, panel, points, cells, looks, x_name)
        panel.axhline(1, color=INK, linewidth=1.2)
        panel.set_title(f"{title}\n{_in_short(points, x_name)}", size=9.5)
        if index % columns == 0:
            panel.set_ylabel("rate / rate of fastest library")
        panel.set_xlabel(log_label(x_name))
        panel.set_xscale("log", base=2)
        plain_ticks(panel, sorted({rates.axis(cell, x_name) for cell in group}))
    for panel in panels[len(groups) :]:
        panel.set_axis_off()
    if shown:
        _scale_ratios(panels[0], shown)
    sheet.notes.append(
        "Above 1 the subject is faster. The fastest library is found at each size by the same samples, so luck counts "
        "for it. Samples beyond the axis are left out."
    )


def strip(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a row of dots with intervals for each place on `rows`, for one value of the subject; a table beside."""
    value = options["value"]
    shown = _of_subject(cells, options)
    groups = rates.group(shown, lambda cell: rates.words(cell, options["rows"]))
    colours, markers = (_distinct(shown, options.get(name)) for name in ("colours", "markers"))
    heads, entries = _summary(list(groups.values()), cells, value)
    chart, beside = rows_with_table(sheet, list(groups), heads, entries)
    for y, group in enumerate(groups.values()):
        is_bare = True
        for cell in group:
            at = estimate(value, cell, cells)
            if np.isfinite(at.estimate):
                is_bare = False
                colour, marker = (
                    _index(cell, colours, options.get("colours")),
                    _index(cell, markers, options.get("markers")),
                )
                shift = SPREAD * ((marker + 0.5) / max(len(markers), 1) - 0.5)
                look: dict[str, Any] = {
                    "color": PALETTE[colour % len(PALETTE)],
                    "marker": MARKERS[marker % len(MARKERS)],
                }
                chart.plot([at.estimate], [y + shift], linestyle="", **DOT, **look)
                if options.get("spread", True):
                    samples = spread(value, cell, cells)
                    mark_spread(chart, at.estimate, y + shift, at, samples, look["color"], across="x")
        if is_bare:
            label_style: dict[str, Any] = {"xycoords": chart.get_yaxis_transform(), "textcoords": "offset points"}
            chart.annotate(_why_bare(group, value), (0, y), (6, 0), va="center", bbox=PAPER, **REASON, **label_style)
    for index, name in enumerate(colours if len(colours) > 1 else []):
        sheet.add_to_legend(name, color=PALETTE[index % len(PALETTE)], marker="s", linestyle="")
    for index, name in enumerate(markers if len(markers) > 1 else []):
        sheet.add_to_legend(
            f"{options['markers']}={name}", color=INK, marker=MARKERS[index % len(MARKERS)], linestyle=""
        )
    _scale(chart, value)
    chart.set_xlabel(value_label(value, shown))
    table(beside, heads, entries)


def _of_subject(cells: list[Cell], options: Json) -> list[Cell]:
    return [cell for cell in rates.contenders(cells) if rates.axis(cell, "backend") == options["subject"]]


def _curve(
    sheet: Sheet, panel: Axes, points: list[tuple[Cell, Interval]], cells: list[Cell], looks: Looks, x_name: str
) -> None:
    """Draw the points of one panel of `versus`, and name their peers in the legend."""
    sizes, ratios = [rates.axis(cell, x_name) for cell, _ in points], [ratio.estimate for _, ratio in points]
    if len(set(sizes)) >= FEWEST_JOINED:
        regular = [
            point
            for point, is_regular in zip(zip(sizes, ratios, strict=True), joined(sizes), strict=True)
            if is_regular
        ]
        panel.plot(*zip(*regular, strict=True), color=GREY, lw=0.9)
    for cell, ratio in points:
        peer = rivals.fastest_peer(cell, cells)
        assert peer is not None
        look = {**looks.of(looks.name(peer)), "linestyle": ""}
        x = rates.axis(cell, x_name)
        panel.plot([x], [ratio.estimate], zorder=3, **look)
        mark_spread(panel, x, ratio.estimate, ratio, spread("over_fastest", cell, cells), look["color"])
        sheet.add_to_legend(f"fastest library: {peer.contender}", **look)


def _scale_ratios(panel: Axes, ratios: list[float]) -> None:
    """Make the axis of ratios that all panels share logarithmic, around the medians of all points and 1."""
    low, high = min(*ratios, 1.0) / ROOM, max(*ratios, 1.0) * ROOM
    panel.set_yscale("log", base=2)
    panel.set_ylim(low, high)
    ticks = [tick for tick in RATIO_TICKS if low <= tick <= high]
    panel.yaxis.set_major_locator(FixedLocator(ticks if high < WIDEST * low else [t for t in ticks if t in POWERS]))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(lambda tick, _: f"{tick:g}")


def _in_short(points: list[tuple[Cell, Interval]], x_name: str) -> str:
    """Return the geometric mean of the ratios, and the lowest with its place."""
    if not points:
        return "no library has a time"
    worst, lowest = min(points, key=lambda point: point[1].estimate)
    mean = geometric_mean([ratio.estimate for _, ratio in points])
    where = rates.axis(worst, x_name)
    return f"geom. mean {short(mean)}, lowest {short(lowest.estimate)} at {x_name}={where}"


def _summary(groups: list[list[Cell]], cells: list[Cell], value: str) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table beside a `strip`: geometric mean of the dots, and rivals or the lowest dot.

    Of rows of one dot it is the number of the dot.
    """
    unit = " %" if value == "of_peak" else ""
    shown = [
        [at.estimate for cell in group if np.isfinite((at := estimate(value, cell, cells)).estimate)]
        for group in groups
    ]
    are_single = all(len(values) <= 1 for values in shown)
    columns = {
        ONE_DOT.get(value, "of peak") if are_single else "geom. mean": [
            _number(geometric_mean, values, unit) for values in shown
        ]
    }
    head, fill = LAST_COLUMNS.get(value, ("lowest", None))
    if fill:
        columns[head] = [fill(group, cells) for group in groups]
    elif not are_single:
        columns[head] = [_number(min, values, unit) for values in shown]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _number(of: Callable[[list[float]], float], values: list[float], unit: str) -> str:
    return short(of(values)) + unit if values else "-"


def _names(group: list[Cell], cells: list[Cell], rival: Callable[[Cell, list[Cell]], Cell | None]) -> str:
    found = [other for cell in group if cell.is_ok and (other := rival(cell, cells))]
    names = [f"{o.contender.removeprefix('cpu-')}{' expression' * rivals.is_expression(o)}" for o in found]
    return ", ".join(dict.fromkeys(names)) or "-"


def _worst_choice(group: list[Cell], cells: list[Cell]) -> str:
    """Return the largest regret of a product whose best backend was not taken; where it was, nothing is lost."""
    missed = [at.estimate for at, _ in regret.missed(group, cells)]
    return f"{max(missed):.2f}" if missed else "-"


# By value, the head of the column of numbers where each row has one dot.
ONE_DOT = {"over_fastest": "times", "over_other": "times", "speed_up": "times", "regret": "times"}
# By value: the head of the last column beside a `strip`, and the function of a group and all cells that fills it.
LAST_COLUMNS: dict[str, tuple[str, Callable[[list[Cell], list[Cell]], str]]] = {
    "over_fastest": ("fastest library", lambda group, cells: _names(group, cells, rivals.fastest_peer)),
    "over_other": ("fastest other", lambda group, cells: _names(group, cells, rivals.fastest_other)),
    "regret": ("worst miss", _worst_choice),
}


def _distinct(cells: list[Cell], name: str | None) -> list[Any]:
    """Return the values of cells on an axis, each once: numbers by size, others as they come; [] without axis."""
    values = list(dict.fromkeys(rates.axis(cell, name) for cell in cells)) if name else []
    return sorted(values) if all(isinstance(value, int) for value in values) else values


def _index(cell: Cell, values: list[Any], name: str | None) -> int:
    return values.index(rates.axis(cell, name)) if name else 0


def _why_bare(group: list[Cell], value: str) -> str:
    """Return why a row has no dot."""
    failed = next((cell.status for cell in group if not cell.is_ok), None)
    return failed or (
        {"over_fastest": "no library has a time"}.get(value, "no other has a time")
        if "over" in value
        else "no peak was measured"
    )


def _scale(chart: Axes, value: str) -> None:
    """Set the axis of a `strip`, with the line that its values are compared with."""
    if value == "of_peak":
        chart.axvline(100, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        chart.set_xlim(0, max(MOST_PERCENT, chart.get_xlim()[1]))
    else:
        chart.axvline(1, color=INK, linewidth=1.2)
        log_ticks(chart)
