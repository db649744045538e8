"""Figures of loads: rungs under the roof of the memory that holds them back, predicted beside measured, and bounds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from harness.analysis import peaks, rates
from harness.analysis.traffic import bounds, model
from harness.analysis.traffic.loads import depth_in, footprint, loads
from harness.experiment import Json
from harness.report.figures.looks import GREY, INK, PALE, Looks
from harness.report.figures.rows import HEAD_INCHES, LOW_ROW_INCHES, ROWS_WIDTH
from harness.report.figures.sheet import BELOW_MARKS, PAPER, Sheet, table, table_width
from harness.report.figures.values import MANY_G, decade_ticks, mark_spread, scale, short, spread, unit
from harness.report.tables import byte_size
from harness.store.store import Cell

SMALLEST, POINTS = 64, 160  # bytes of the smallest fast memory of a curve, and points of the curve
# Ratios of two places on logarithmic axes, along x and y, up to which their labels would meet.
NEAR = (2.2, 1.4)
# The name of a memory along its line: a letter in parts of the panel's width; places to begin, in parts of the line.
LETTER, NAME_STARTS = 0.0085, (0.0, 0.4, 0.2, 0.25, 0.3, 0.35, 0.5, 0.1, 0.15, 0.6, 0.7)
LOWEST, HIGHEST = 0.85, 1.8  # what the name covers above its line, as ratios of rates
_PREDICTED = (
    "Dot: measured. Ring: the rate that its loads allow, min(peak, operations a byte x bandwidth), of the memory "
    "that allows least. Loads: elements of A and B that reach registers, for n\N{SUPERSCRIPT THREE} pairs; on a GPU a "
    "warp's load counts as 32 at least."
)
_REUSE = (
    "Computed from the loops, not measured: elements of A, B and C through a fast memory of that size, for each pair. "
    "Below the bound, 2 / \N{SQUARE ROOT}S, no order of the same pairs comes."
)
_ROOFS = (
    "Dot: measured, at the operations for each byte that the rung's loops load from the memory that holds it back; the "
    "thin line ends at that roof. Libraries state no loops: every operand once, from the memory that holds all."
)


def called(level: str) -> str:
    """Return what a figure calls a memory: rungs without shared memory load through the L1 that it is a part of."""
    return "L1/shared" if level == "shared" else level


def roofline(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw measured rates at the intensity of each rung's own loads, under a roof for every measured memory."""
    products = rates.contenders(cells)
    groups = rates.group(products, lambda cell: rates.words(cell, options.get("panels", "problem")))
    looks = Looks(products)
    panels = sheet.panels(len(groups), 1, height=4.4 * max(len(groups), 1))
    for panel, (title, group) in zip(panels, groups.items(), strict=True):
        placed = [(cell, roof) for cell in group if cell.is_ok and (roof := model.roof_of(cell, cells)) is not None]
        panel.set_xscale("log", base=10)
        panel.set_yscale("log", base=10)
        for cell, roof in placed:
            look = {**looks.of(cell.contender), "linestyle": ""}
            panel.plot([roof.intensity] * 2, [cell.rate, roof.rate], color=look["color"], linewidth=0.9, zorder=2)
            panel.plot([roof.intensity], [cell.rate], markersize=8, zorder=3, **look)
            samples = spread("rate", cell, cells)
            mark_spread(panel, roof.intensity, cell.rate, rates.rate_interval(cell), samples, look["color"])
            sheet.add_to_legend(cell.contender, **look)
        if "point" in options:
            _name_points(panel, placed, options["point"])
        _roofs(sheet, panel, group, cells, placed)
        panel.set_title(", ".join(filter(None, [rates.describe(group) or str(title), rates.runs_on(group)])))
        panel.set_ylabel(f"{unit(group)} (logarithmic)")
        panel.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
        panel.yaxis.set_major_formatter(_times(scale("rate", group)))
    panels[-1].set_xlabel("operations for each byte from the memory that holds a rung back (logarithmic)")
    sheet.notes.append(_ROOFS)


def _roofs(
    sheet: Sheet, panel: Axes, group: list[Cell], cells: list[Cell], placed: list[tuple[Cell, model.RateBound]]
) -> None:
    """Draw the bandwidth of each memory up to the peak, named along its line, and the peak."""
    done = next((cell for cell in group if cell.is_ok), None)
    memories = model.levels(done, cells) if done else []
    peak = peaks.peak_of(done, cells) if done else None
    xs = [roof.intensity for _, roof in placed] or [0.1, 100.0]
    top = peaks.roof_rate(peak) if peak else max([cell.rate for cell, _ in placed], default=1.0)
    left = min([*xs, *(top / memory.bandwidth for memory in memories)]) / 2.5
    right = max([*xs, *(top / memory.bandwidth for memory in memories)]) * 3
    low = min([cell.rate for cell, _ in placed] + [left * memory.bandwidth for memory in memories], default=top / 100)
    low = max(low, min([cell.rate for cell, _ in placed], default=top) / 4)
    marks = [(roof.intensity, cell.rate) for cell, roof in placed]
    for memory in memories:
        begin, end = max(left, low / memory.bandwidth), top / memory.bandwidth
        panel.plot([begin, end], [memory.bandwidth * begin, top], color=INK, linewidth=1.3, zorder=1)
        name = f"{called(memory.name)}: {_bandwidth(memory.bandwidth)}"
        span = (right / left) ** (LETTER * len(name))
        start = _clear_start((begin, end), memory.bandwidth, span, marks)
        marks += [(start * span**part, memory.bandwidth * start * span**part) for part in (0.0, 0.5, 1.0)]
        line = ((start, memory.bandwidth * start), (end, top))
        sheet.write_along(panel, name, line)
    if peak:
        starts = [top / memory.bandwidth for memory in memories] or [left]
        panel.plot([min(starts), right], [top, top], color=INK, linewidth=2, zorder=1)
        name = f"{peaks.name_of_peak(peak)}: {short(top * scale('rate', group))} {unit(group)}"
        panel.text(right, 1.15 * top, name, ha="right", size=9.5)
    panel.set_ylim(low / 1.8, 3 * top)
    panel.set_xlim(left, right)


def _clear_start(line: tuple[float, float], bandwidth: float, span: float, marks: list[tuple[float, float]]) -> float:
    """Return where on the `line` of a memory its name, `span` long, begins: where it meets the fewest of `marks`."""
    begin, end = line
    starts: list[float] = [begin * (end / begin) ** part for part in NAME_STARTS]

    def met(start: float) -> int:
        return sum(start / 1.2 < x < 1.2 * start * span and LOWEST < y / (bandwidth * x) < HIGHEST for x, y in marks)

    return min([start for start in starts if 1.3 * start * span <= end] or starts[:1], key=met)


def _times(factor: float) -> Callable[[float, float], str]:
    """Return a formatter of ticks in a unit that is so many of theirs."""
    return lambda tick, _: f"{tick * factor:g}"


def _bandwidth(gigabytes: float) -> str:
    """Return a bandwidth [GB/s] in words: "117 GB/s", "33.4 TB/s"."""
    return f"{short(gigabytes)} GB/s" if gigabytes < MANY_G else f"{short(gigabytes / 1e3)} TB/s"


def _name_points(panel: Axes, placed: list[tuple[Cell, model.RateBound]], name: str) -> None:
    """Name the shape of each point beside it; of points of one shape that nearly meet, the first."""
    named = defaultdict[str, list[tuple[float, float]]](list)
    for cell, roof in placed:
        shape = str(rates.axis(cell, name))
        here = roof.intensity, cell.rate
        if any(all(1 / near < a / b < near for a, b, near in zip(here, it, NEAR, strict=True)) for it in named[shape]):
            continue
        named[shape].append(here)
        style: dict[str, Any] = {"textcoords": "offset points", "ha": "left", "va": "top", "size": 8.5, "bbox": PAPER}
        style["zorder"] = BELOW_MARKS
        panel.annotate(shape, here, (7, -4), color=GREY, **style)


def predicted(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw the predicted and the measured rate of each rung in a row, with what the prediction rests on beside it."""
    shown = [cell for cell in rates.contenders(cells) if cell.is_ok]
    groups = rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem")))
    looks = Looks(shown)
    tables = [_predictions(group, cells) for group in groups.values()]
    width = max(table_width(heads, rows) for heads, rows in tables)
    counts = [len(group) + HEAD_INCHES / LOW_ROW_INCHES for group in groups.values()]
    ratios = {"width_ratios": [max(ROWS_WIDTH - width, 2.0), width], "height_ratios": counts}
    panels = sheet.panels(len(groups), 2, height=LOW_ROW_INCHES * sum(counts) + 0.3, **ratios)
    for group, (heads, rows), chart, beside in zip(groups.values(), tables, panels[::2], panels[1::2], strict=True):
        for y, cell in enumerate(group):
            hue, allowed = looks.of(cell.contender)["color"], model.predict(cell, cells)
            if allowed is not None:
                chart.plot([cell.rate, allowed.rate], [y, y], color=hue, linewidth=1.4, alpha=0.6)
                chart.plot([allowed.rate], [y], "o", color=hue, markerfacecolor="white", markersize=8)
            chart.plot([cell.rate], [y], "o", color=hue)
            mark_spread(chart, cell.rate, y, rates.rate_interval(cell), spread("rate", cell, shown), INK, across="x")
        chart.set_yticks(range(len(group)), [cell.contender for cell in group])
        chart.set_xscale("log", base=10)
        decade_ticks(chart, group)
        chart.set_title(f"{rates.describe(group)}, {rates.runs_on(group)}", x=-0.75)
        chart.set_xlabel(f"{unit(group)} (logarithmic)")
        chart.grid(visible=False, axis="y")
        for panel in (chart, beside):
            panel.set_ylim(len(group) - 0.4, -0.6)
        table(beside, heads, rows)
    sheet.notes.append(_PREDICTED)


def _predictions(group: list[Cell], cells: list[Cell]) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table beside a panel of predictions."""
    rows, factor = [], scale("rate", group)
    for cell in group:
        allowed, nest = model.predict(cell, cells), model.nest_of(cell)
        if allowed is None or nest is None:
            rows.append([*["-"] * 3, short(cell.rate * factor), "-"])
            continue
        into = model.loads_from(0, model.levels(cell, cells), nest, cell)
        each = (into.a + into.b) / model.itemsize(cell) / math.prod(model.sizes_of(cell).values())
        held = (
            f"{called(allowed.level.name)}, {short(allowed.intensity, 2)} op/B" if allowed.bound != "peak" else "peak"
        )
        values = (allowed.rate * factor, cell.rate * factor, allowed.rate / cell.rate)
        rows.append([short(each), held, *map(short, values)])
    heads = ["loads/n\N{SUPERSCRIPT THREE}", "held back by", "allowed", "measured", "ratio"]
    return heads, rows


def reuse(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw the loads of each rung through a fast memory of any size, above the bound that no order of loops beats."""
    stated = [cell for cell in rates.contenders(cells) if cell.is_ok and model.nest_of(cell) is not None]
    groups = rates.group(stated, lambda cell: rates.words(cell, options.get("panels", "problem")))
    looks = Looks(stated)
    panels = sheet.panels(len(groups), 1, height=3.6 * max(len(groups), 1))
    for panel, group in zip(panels, groups.values(), strict=True):
        memories = model.levels(group[0], cells)
        known = [memory.capacity for memory in memories if math.isfinite(memory.capacity)]
        capacities = np.geomspace(SMALLEST, 2 * max(known, default=1 << 22), POINTS)
        for cell in group:
            look = {**looks.of(cell.contender), "marker": ""}
            panel.plot(capacities, [_a_pair(cell, float(size)) for size in capacities], **look)
            sheet.add_to_legend(cell.contender, **look)
        size, sizes = model.itemsize(group[0]), model.sizes_of(group[0])
        least = [
            bounds.least_loads(sizes["i"], sizes["j"], sizes["p"], bytes_ / size) / math.prod(sizes.values())
            for bytes_ in capacities
        ]
        panel.plot(capacities, least, color=INK, linewidth=2.2)
        panel.fill_between(capacities, 1e-9, np.maximum(least, 1e-9), color=PALE, zorder=0)
        for memory in memories:
            if math.isfinite(memory.capacity):
                panel.axvline(memory.capacity, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
                style: dict[str, Any] = {"xycoords": panel.get_xaxis_transform(), "textcoords": "offset points"}
                panel.annotate(memory.name, (memory.capacity, 1), (3, -2), va="top", size=9, color=GREY, **style)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log", base=10)
        panel.set_ylim(max(min(filter(None, least), default=1e-3), 1e-4) / 2, 5)
        panel.set_title(rates.describe(group))
        panel.set_ylabel("elements moved for each pair")
        panel.xaxis.set_major_formatter(lambda tick, _: byte_size(tick))
    sheet.add_to_legend("no order of loops moves less", color=INK, linewidth=2.2)
    panels[-1].set_xlabel("bytes of the fast memory (logarithmic)")
    sheet.notes.append(_REUSE)


def _a_pair(cell: Cell, capacity: float) -> float:
    """Return the elements that pass into a memory of `capacity` bytes for each pair; NaN once all fits."""
    nest, sizes, size = model.nest_of(cell), model.sizes_of(cell), model.itemsize(cell)
    assert nest is not None
    depth = depth_in(nest, sizes, size, capacity, size)
    holds = footprint(nest, depth, sizes, size, size) <= capacity
    return loads(nest, sizes, 1, depth).total / math.prod(sizes.values()) if depth and holds else math.nan
