"""Charts of memories: products under roofs, loads above their bound, and blocks against the bytes that they use."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from harness.analysis import peaks, rates
from harness.analysis.traffic import bounds, model
from harness.analysis.traffic.loads import depth_in, footprint, loads
from harness.experiment import Json
from harness.report.figures.chart import Axis, Chart, Look, Panel, Point, Rule, Series, Words
from harness.report.figures.found import bandwidth, called
from harness.report.figures.looks import GREY, INK, MARKERS, Looks, dot
from harness.report.figures.values import DASHED, point, scale, short, unit
from harness.report.tables import byte_size
from harness.stats.statistics import exact
from harness.store.store import Cell

SMALLEST, POINTS = 64, 160  # bytes of the smallest fast memory of a curve, and points of the curve
SHADES = ("#EAF1F7", "#F6F0E4", "#EFEAF4")  # of what fits L1, L2, L3
STAR: Look = {"marker": "*", "color": "#D55E00", "markersize": 13, "markeredgecolor": "white", "linestyle": ""}
BALANCE: Look = {"color": INK, "linestyle": ":", "linewidth": 1.5}
LABEL_APART = 1.7  # ratio of working sets nearer than which a label goes below its point


def roofline(cells: list[Cell], options: Json) -> Chart:
    """Return measured rates under one roof a panel: a row of panels for each problem, a column for each memory.

    In the panel of a memory a product stands at the operations for each byte that it loads from there. Its dot is full
    under the lowest of its roofs, and hollow under the others. With the option ``point`` markers are by that axis.
    """
    products = rates.timed(cells)
    groups = rates.group(products, lambda cell: rates.words(cell, options.get("panels", "problem")))
    roofs = {title: by_memory for title, group in groups.items() if (by_memory := _by_memory(group, cells))}
    if not roofs:
        return Chart(says="No memory was measured")
    looks, columns = Looks(products), max(map(len, roofs.values()))
    shapes = list(dict.fromkeys(rates.axis(cell, options["point"]) for cell in products)) if "point" in options else []
    chart = Chart(columns=columns, height=3.2, share="row", notes=[_ROOFS])
    for title, by_memory in roofs.items():
        group = groups[title]
        factor, peak = scale("rate", group), peaks.peak_of(group[0], cells)
        top = peaks.roof_rate(peak) if peak else max(cell.rate for cell in group)
        placed = [bound.intensity for entries in by_memory.values() for _, bound, _ in entries]
        knees = [top / memory.bandwidth for memory in by_memory]
        left, right = min(min(placed) / 1.5, *(k / 3 for k in knees)), max(max(placed) * 1.5, *(3 * k for k in knees))
        low = min(cell.rate for cell in group) / 2
        for (memory, entries), knee in zip(by_memory.items(), knees, strict=True):
            head = f"\n{called(memory.name)}: {bandwidth(memory.bandwidth)}"
            is_first = memory == next(iter(by_memory))
            words = ", ".join(filter(None, [rates.describe(group) or str(title), rates.runs_on(group)]))
            panel = Panel(words * is_first + head, Axis("operations/byte", "log", (left, right)))
            panel.y = Axis(unit(group) * is_first, "log", (low, 4 * top), factor=factor)
            roof = [Point(left, exact(top * left / knee)), Point(knee, exact(top)), Point(right, exact(top))]
            panel.series.append(Series(roof, {"color": INK, "zorder": 1}))
            if peak and is_first:
                name = f"{peaks.name_of_peak(peak)}: {short(top * factor)} {unit(group)}"
                panel.words.append(Words(name, 0.02, 1.35 * top, {"size": 8.5, "va": "bottom"}, within="x"))
            for cell, bound, is_lowest in entries:
                look = looks.of(cell.contender) | {"linestyle": ""}
                key = {**look, "markerfacecolor": look["color"]} | ({"marker": "s"} if shapes else {})
                chart.legend.setdefault(cell.contender, key)
                look |= {"marker": MARKERS[shapes.index(rates.axis(cell, options["point"]))]} if shapes else {}
                look |= {"markerfacecolor": look["color"] if is_lowest else "white"}
                one = point("rate", bound.intensity, cell, cells, bound.rate)
                one = one if is_lowest else Point(bound.intensity, exact(cell.rate))
                panel.series.append(Series([one], look, cell.contender))
            chart.panels.append(panel)
        chart.panels += [Panel() for _ in range(columns - len(by_memory))]
    chart.legend |= {str(shape): dot(GREY, MARKERS[at]) for at, shape in enumerate(shapes)}
    return chart


def _by_memory(group: list[Cell], cells: list[Cell]) -> dict[model.Level, list[tuple[Cell, model.RateBound, bool]]]:
    """Return by memory the products that load from it, what that allows each, and whether it is its lowest roof."""
    found: dict[model.Level, list[tuple[Cell, model.RateBound, bool]]] = defaultdict(list)
    for cell in group:
        lowest = model.roof_of(cell, cells)
        for memory, bound in model.roofs_of(cell, cells).items():
            found[memory].append((cell, bound, bound == lowest))
    return {memory: found[memory] for memory in model.levels(group[0], cells) if memory in found}


def reuse(cells: list[Cell], options: Json) -> Chart:
    """Return the loads of each rung through a fast memory of any size, above the bound that no order of loops beats."""
    stated = [cell for cell in rates.timed(cells) if model.nest_of(cell) is not None]
    looks, chart = Looks(stated), Chart(height=3.6, notes=[_REUSE], is_computed=True)
    for group in rates.group(stated, lambda cell: rates.words(cell, options.get("panels", "problem"))).values():
        memories, size, sizes = model.levels(group[0], cells), model.itemsize(group[0]), model.sizes_of(group[0])
        known = [memory.capacity for memory in memories if math.isfinite(memory.capacity)]
        capacities = [float(bytes_) for bytes_ in np.geomspace(SMALLEST, 2 * max(known, default=1 << 22), POINTS)]
        panel = Panel(rates.describe(group), Axis("bytes of the fast memory (log scale)", "log2", is_bytes=True))
        panel.y = Axis("elements moved for each pair", "log", (None, 10))
        begins: dict[Point, list[str]] = defaultdict(list)
        for cell in group:
            moved = [(bytes_, _a_pair(cell, bytes_)) for bytes_ in capacities]
            points = [Point(bytes_, exact(share)) for bytes_, share in moved if math.isfinite(share)]
            panel.series.append(Series(points, {**looks.of(cell.contender), "marker": ""}))
            begins[points[0]].append(cell.contender)
        for at, names in begins.items():
            look = {"color": looks.of(names[-1])["color"], "va": "bottom", "ha": "left"}
            panel.words.append(Words(", ".join(names), at.at, at.value.estimate * 1.05, look))
        pairs, most = math.prod(sizes.values()), max(p.at for series in panel.series for p in series.points)
        least = [bounds.least_loads(sizes["i"], sizes["j"], sizes["p"], b / size) / pairs for b in capacities]
        bound = [Point(b, exact(share)) for b, share in zip(capacities, least, strict=True) if share > 0 and b <= most]
        panel.series.append(Series(bound, {"color": INK, "linewidth": 2.2}))
        panel.rules = [Rule(m.capacity, "x", m.name, {"color": GREY, **DASHED}) for m in memories if m.capacity < most]
        panel.words.append(Words("no order of loops moves less", 0.02, 0.05, within="xy"))
        chart.panels.append(panel)
    return chart


def _a_pair(cell: Cell, capacity: float) -> float:
    """Return the elements that pass into a memory of `capacity` bytes for each pair; NaN once all fits."""
    nest, sizes, size = model.nest_of(cell), model.sizes_of(cell), model.itemsize(cell)
    assert nest is not None
    depth = depth_in(nest, sizes, size, capacity, size)
    holds = footprint(nest, depth, sizes, size, size) <= capacity
    return loads(nest, sizes, 1, depth).total / math.prod(sizes.values()) if depth and holds else math.nan


def working_set(cells: list[Cell], options: Json) -> Chart:
    """Return rates against the bytes that a choice of blocks keeps in use, a panel for each sweep, caches shaded.

    The blocks that the backend chooses by itself are a star, and those that machine balance asks for a dotted line.
    """
    shown = rates.contenders(cells)
    looks, sweeps = Looks(shown, by="backend"), rates.group(shown, lambda cell: rates.axis(cell, options["panels"]))
    chart = Chart(share="x", legend={"blocks chosen by the sizes of the caches": STAR, "machine balance": BALANCE})
    chart.height, chart.notes = 2.1, [_BALANCE]
    for sweep, group in sweeps.items():
        terms = options["working_sets"][sweep]
        placed = sorted(((_bytes(c.facts["plan"], c, terms), c) for c in group if c.is_ok), key=lambda entry: entry[0])
        name = options.get("titles", {}).get(sweep, str(sweep))
        panel = Panel(f"{name}, {rates.size(*group)}", y=Axis(rates.unit(group), limits=(0, None)))
        panel.x = Axis(_AT_POINTS, "log2", is_bytes=True)
        chosen = [(at, cell) for at, cell in placed if model.is_model(cell)]
        by_size = [(at, cell) for at, cell in placed if not model.is_model(cell)]
        look = looks.of(looks.name(group[0]))
        panel.series.append(Series([point("rate", at, cell, group) for at, cell in by_size], look))
        panel.series += [Series([Point(at, exact(cell.rate))], {**STAR, "zorder": 5}) for at, cell in chosen]
        above = 0.0  # where the last label above its point stands
        for at, cell in by_size:
            near = any(at / LABEL_APART < other < at * LABEL_APART for other in (above, *(a for a, _ in chosen)))
            above = above if near else at
            label = cell.contender.rpartition("=")[2]
            panel.words.append(Words(label, at, cell.rate * (0.88 if near else 1.12), {"ha": "center"}))
        if placed:
            panel.y.limits = (0, 1.32 * max(rates.rate_interval(cell).high for _, cell in placed))
            panel.rules += _balance(placed[0][1], cells, str(sweep), options)
            panel.words += [Words(rule.words, rule.at, 0.07, {"ha": "left"}, within="y") for rule in panel.rules]
            panel.rules = [rule._replace(words="") for rule in panel.rules]
        chart.panels.append(panel)
    ends = [panel.span("x") for panel in chart.panels]
    left, right = min(low for low, _ in ends) / 2, max(high for _, high in ends) * 2
    for panel in chart.panels if left < right else ():
        panel.x.limits = (left, right)
        begin = left
        for (name, size), shade in zip(options["caches"], SHADES, strict=False):
            if begin < size:
                words = f"{name} {byte_size(size)}" * (panel is chart.panels[0])
                panel.rules.append(Rule(begin, "x", words, {"color": shade}, min(size, right)))
                begin = min(size, right)
            if begin == right:
                break
    return chart


def _balance(cell: Cell, cells: list[Cell], sweep: str, options: Json) -> list[Rule]:
    """Return a line at the working set of the blocks that machine balance asks for in a sweep."""
    found = model.balance_of(cell, cells, *options.get("passing", {}).get(sweep, ("", 0)))
    if found is None:
        return []
    side, level = found
    blocks = ("mc", "nc", "kc") if sweep == "tile" else (sweep,)
    at = _bytes({**cell.facts["plan"], **dict.fromkeys(blocks, side)}, cell, options["working_sets"][sweep])
    return [Rule(at, "x", f"{short(side, 2)}, from {level}", BALANCE)]


def _bytes(plan: Mapping[str, float], cell: Cell, terms: Sequence[Sequence[str]]) -> float:
    """Return the bytes of a sum of products of block sizes, each block cut at the size of the matrix."""
    problem = cell.facts["problem"]
    extent = {"mc": problem["m"], "nc": problem["n"], "kc": problem["k"]}
    sides = {name: min(plan[name], extent.get(name, plan[name])) for term in terms for name in term}
    return float(sum(math.prod(sides[name] for name in term) for term in terms) * model.itemsize(cell))


_AT_POINTS = "working set, bytes (log scale); at each point: the block size in elements"
_BALANCE = (
    "Machine balance: the side at which what passes the block takes as long as the arithmetic, "
    "side = elements a pair x bytes x peak / (2 x bandwidth of the memory that it comes from)."
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
