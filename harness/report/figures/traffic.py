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
from harness.report.figures.looks import GREY, INK, MARKERS, PALE, Looks
from harness.report.figures.rows import HEAD_INCHES, LOW_ROW_INCHES, ROWS_WIDTH
from harness.report.figures.sheet import Sheet, table, table_width
from harness.report.figures.values import MANY_G, decade_ticks, mark_spread, scale, short, spread, unit
from harness.report.tables import byte_size
from harness.store.store import Cell

SMALLEST, POINTS = 64, 160  # bytes of the smallest fast memory of a curve, and points of the curve
ROOM_BEYOND = 4.0  # times the largest memory of any curve: in one that holds all nothing is left to see
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
    "A panel is a memory and its roof. A product stands at the operations for each byte its loops load from there: "
    "full where that memory holds it back, with a line up to the roof; else hollow. Libraries state no loops: they "
    "load every operand once, from the memory that holds all. Axes are logarithmic."
)


def called(level: str) -> str:
    """Return what a figure calls a memory: rungs without shared memory load through the L1 that it is a part of."""
    return "L1/shared" if level == "shared" else level


def roofline(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw measured rates under one roof a panel: a row of panels for each problem, a column for each memory.

    In the panel of a memory a product stands at the operations for each byte that it loads from there. Its dot is full
    under the lowest of its roofs, and hollow under the others. With the option ``point`` markers are by that axis.
    """
    products = [cell for cell in rates.contenders(cells) if cell.is_ok]
    groups = rates.group(products, lambda cell: rates.words(cell, options.get("panels", "problem")))
    roofs = {title: by_memory for title, group in groups.items() if (by_memory := _by_memory(group, cells))}
    if not roofs:
        sheet.say("No memory was measured")
        return
    looks, columns = Looks(products), max(map(len, roofs.values()))
    shapes = list(dict.fromkeys(rates.axis(cell, options["point"]) for cell in products)) if "point" in options else []
    panels = sheet.panels(len(roofs), columns, height=3.2 * len(roofs), sharex="row", sharey="row")
    for row, (title, by_memory) in enumerate(roofs.items()):
        group, own = groups[title], panels[row * columns : (row + 1) * columns]
        for panel in own[len(by_memory) :]:
            panel.set_axis_off()
        for panel, (memory, placed) in zip(own, by_memory.items(), strict=False):
            for cell, bound, is_lowest in placed:
                look = {**looks.of(cell.contender), "linestyle": ""}
                look |= {"markerfacecolor": look["color"]}
                sheet.add_to_legend(cell.contender, **{**look, "marker": "s" if shapes else look["marker"]})
                look |= {"marker": MARKERS[shapes.index(rates.axis(cell, options["point"]))]} if shapes else {}
                _under_roof(panel, cell, bound, cells, look, is_full=is_lowest)
            panel.set_title(f"\n{called(memory.name)}: {_bandwidth(memory.bandwidth)}", size=10)
            panel.set_xscale("log", base=10)
            panel.set_yscale("log", base=10)
            panel.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
            panel.yaxis.set_major_formatter(_times(scale("rate", group)))
            panel.set_xlabel("operations/byte")
        words = ", ".join(filter(None, [rates.describe(group) or str(title), rates.runs_on(group)]))
        own[0].set_title(words + own[0].get_title("left"), size=10)
        own[0].set_ylabel(unit(group))
        _roofs(own, list(by_memory), peaks.peak_of(group[0], cells), group)
    for index, shape in enumerate(shapes):
        sheet.add_to_legend(str(shape), color=GREY, marker=MARKERS[index], linestyle="")
    sheet.notes.append(_ROOFS)


def _under_roof(
    panel: Axes, cell: Cell, bound: model.RateBound, cells: list[Cell], look: dict[str, Any], *, is_full: bool
) -> None:
    """Draw a product at the intensity of its loads from one memory; full with its samples and the way to its roof."""
    face = {} if is_full else {"markerfacecolor": "white"}
    panel.plot([bound.intensity], [cell.rate], zorder=3, **{**look, **face})
    if is_full:
        panel.plot([bound.intensity] * 2, [cell.rate, bound.rate], color=look["color"], linewidth=0.9)
        samples = spread("rate", cell, cells)
        mark_spread(panel, bound.intensity, cell.rate, rates.rate_interval(cell), samples, look["color"])


def _by_memory(group: list[Cell], cells: list[Cell]) -> dict[model.Level, list[tuple[Cell, model.RateBound, bool]]]:
    """Return by memory the products that load from it, what that allows each, and whether it is its lowest roof."""
    found: dict[model.Level, list[tuple[Cell, model.RateBound, bool]]] = defaultdict(list)
    for cell in group:
        lowest = model.roof_of(cell, cells)
        for memory, bound in model.roofs_of(cell, cells).items():
            found[memory].append((cell, bound, bound == lowest))
    return {memory: found[memory] for memory in model.levels(group[0], cells) if memory in found}


def _roofs(panels: list[Axes], memories: list[model.Level], peak: Cell | None, group: list[Cell]) -> None:
    """Draw in the panel of each memory what its bandwidth allows, up to the peak."""
    (left, right), (low, high) = panels[0].get_xlim(), panels[0].get_ylim()
    top = peaks.roof_rate(peak) if peak else high
    knees = [top / memory.bandwidth for memory in memories]
    left, right = min(left, *(knee / 3 for knee in knees)), max(right, *(3 * knee for knee in knees))
    for panel, knee in zip(panels, knees, strict=False):
        panel.plot([left, knee, right], [top * left / knee, top, top], color=INK, zorder=1)
    panels[0].set_xlim(left, right)
    panels[0].set_ylim(low / 1.5, 4 * top)
    if peak:
        name = f"{peaks.name_of_peak(peak)}: {short(top * scale('rate', group))} {unit(group)}"
        place: dict[str, Any] = {"xycoords": panels[0].get_yaxis_transform(), "textcoords": "offset points"}
        panels[0].annotate(name, (0, top), (3, 4), size=8.5, **place).set_in_layout(False)


def _times(factor: float) -> Callable[[float, float], str]:
    """Return a formatter of ticks in a unit that is so many of theirs."""
    return lambda tick, _: f"{tick * factor:g}"


def _bandwidth(gigabytes: float) -> str:
    """Return a bandwidth [GB/s] in words: "117 GB/s", "33.4 TB/s"."""
    return f"{short(gigabytes)} GB/s" if gigabytes < MANY_G else f"{short(gigabytes / 1e3)} TB/s"


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
        begins, seen = defaultdict[tuple[float, float], list[str]](list), list[tuple[float, float]]()
        for cell in group:
            moved = [(size, at) for size in map(float, capacities) if math.isfinite(at := _a_pair(cell, size))]
            panel.plot(*zip(*moved, strict=True), **{**looks.of(cell.contender), "marker": ""})
            begins[moved[0]].append(cell.contender)
            seen += moved
        for place, names in begins.items():
            style: dict[str, Any] = {"textcoords": "offset points", "size": 9, "va": "bottom"}
            panel.annotate(", ".join(names), place, (2, 2), color=looks.of(names[-1])["color"], **style)
        panel.set_xlim(SMALLEST / 2, ROOM_BEYOND * max(x for x, _ in seen))
        size, sizes = model.itemsize(group[0]), model.sizes_of(group[0])
        least = [
            bounds.least_loads(sizes["i"], sizes["j"], sizes["p"], bytes_ / size) / math.prod(sizes.values())
            for bytes_ in capacities
        ]
        panel.plot(capacities, least, color=INK, linewidth=2.2)
        panel.fill_between(capacities, 1e-9, np.maximum(least, 1e-9), color=PALE, zorder=0)
        for memory in memories:
            if memory.capacity < panel.get_xlim()[1]:
                panel.axvline(memory.capacity, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
                at_top: dict[str, Any] = {"xycoords": panel.get_xaxis_transform(), "textcoords": "offset points"}
                panel.annotate(memory.name, (memory.capacity, 1), (3, -2), va="top", size=9, color=GREY, **at_top)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log", base=10)
        panel.set_ylim(min(y for _, y in seen) / 4, 10)
        panel.set_title(rates.describe(group))
        panel.set_ylabel("elements moved for each pair")
        panel.xaxis.set_major_formatter(lambda tick, _: byte_size(tick))
        panel.yaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
        panel.text(0.02, 0.05, "no order of loops moves less", size=9, transform=panel.transAxes)
    panels[-1].set_xlabel("bytes of the fast memory (logarithmic)")
    sheet.notes.append(_REUSE)


def _a_pair(cell: Cell, capacity: float) -> float:
    """Return the elements that pass into a memory of `capacity` bytes for each pair; NaN once all fits."""
    nest, sizes, size = model.nest_of(cell), model.sizes_of(cell), model.itemsize(cell)
    assert nest is not None
    depth = depth_in(nest, sizes, size, capacity, size)
    holds = footprint(nest, depth, sizes, size, size) <= capacity
    return loads(nest, sizes, 1, depth).total / math.prod(sizes.values()) if depth and holds else math.nan
