"""Charts of what an analysis has found, a row each with a table: losses, factors, predictions, stages, counts."""

from __future__ import annotations

import math

from harness.analysis import ragged_sizes, ranks, rates
from harness.analysis.findings import switches
from harness.analysis.ragged_sizes import swept
from harness.analysis.traffic import model
from harness.experiment import Json
from harness.report.figures.chart import Axis, Chart, Look, Panel, Point, Rule, Series, Table
from harness.report.figures.looks import GREY, INK, MARKERS, PALE, PALETTE, STAGES, Looks, dot, role_colour
from harness.report.figures.rows import in_words, names_of, said
from harness.report.figures.values import MANY_G, ONE, percent, point, scale, short, unit
from harness.stats.statistics import Interval, exact, median
from harness.store.store import Cell

CALLS = {"a warm call": ranks.warm_stages, "the first call": ranks.first_stages}


def ragged(cells: list[Cell], options: Json) -> Chart:
    """Return for each contender the loss of rate at each ragged size and the median loss; the least loss on top."""
    found = ragged_sizes.losses(cells, options)
    losses = dict(sorted(found.items(), key=lambda entry: median([loss for _, loss in entry[1]])))
    if not losses:
        return Chart(says="No ragged size has a time beside a regular one")
    looks, firm = Looks(rates.contenders(cells)), ragged_sizes.firm_sizes(cells, options)
    sweeps = swept.sweeps(cells, options) if options.get("sweeps") else {}
    names = [" ".join(filter(None, n)) + (f", over {sweeps[n].beside}" if n in sweeps else "") for n in losses]
    panel, entries = Panel(y=names_of(names), rules=[ONE._replace(at=0)]), []
    panel.x = Axis("rate lost against whole tiles nearby, % (below 0: gained)")
    for y, (name, points) in enumerate(losses.items()):
        hue, middle = looks.of(name[0])["color"], median([loss for _, loss in points])
        own, sweep = {n for who, n in firm if who == name[0]}, sweeps.get(name)
        if sweep and sweep.is_noise_known:
            noise = Point(y, exact(sweep.noise), begin=-sweep.noise)
            panel.series.append(Series([noise], {"color": PALE, "zorder": 0.6}, form="bars", across="x"))
        for is_firm, face in ((True, hue), (False, "white")):
            some = [Point(y, exact(loss)) for n, loss in points if (n in own) == is_firm]
            panel.series.append(Series(some, {**dot(hue), "alpha": 0.6, "markerfacecolor": face}, across="x"))
        middle_look = {**dot(hue, "|"), "markersize": 22, "markeredgewidth": 3}
        panel.series.append(Series([Point(y, exact(middle))], middle_look, across="x"))
        n, most = ragged_sizes.worst(points, own)
        is_beyond = sweep is None or sweep.is_beyond_noise(most)
        entries.append([f"{middle:.1f} %", f"{most:.0f} % at {n}" if is_beyond else "within noise"])
    panel.series = [series for series in panel.series if series.points]
    panel.table = Table(["median", f"worst {options.get('x', 'n')}"], entries)
    chart = Chart([panel])
    if any((name[0], n) not in firm for name, points in losses.items() for n, _ in points):
        chart.notes.append("Hollow: few samples, or a core was taken away; such a size is never named as the worst.")
    chart.notes.append(_IN_WINDOW if options.get("sweeps") else _BY_KIND.format(tile=options.get("tile", 48)))
    return chart


def factors(cells: list[Cell], options: Json) -> Chart:
    """Return a row for each idea, in the order of the rungs that add them; below a line their product and the whole."""
    found = switches.ablated(cells, options)
    if found is None:
        return Chart(says="Not every idea has a time with it and without it")
    _, known, whole = found
    product = Interval(*(math.prod(bounds) for bounds in zip(*(factor for _, _, factor in known), strict=True)))
    last = f"{' over '.join(options['whole'][:0:-1])}, measured"
    rows = [*known, ("all of these, multiplied", "", product), (last, "", whole)]
    panel = Panel(y=names_of(name for name, _, _ in rows), rules=[ONE, Rule(len(known) - 0.5, look={"color": GREY})])
    panel.x = Axis(f"speed with / without it, log scale, {rates.size(*rates.contenders(cells))}, 1 thread", "ratio")
    for y, (_, rung, factor) in enumerate(rows):
        hue = role_colour(next(c for c in cells if not rates.is_roof(c))) if rung else INK
        panel.series.append(Series([Point(y, factor, begin=1.0)], dot(hue), across="x"))
    entries = [[rung.removeprefix("cpu-"), in_words(factor)] for _, rung, factor in rows]
    panel.table = Table(["in the rung", "times the speed"], entries)
    return Chart([panel])


def predicted(cells: list[Cell], options: Json) -> Chart:
    """Return the rate that its loads allow each rung beside the measured one, with what the prediction rests on."""
    shown, chart = rates.timed(cells), Chart(notes=[_PREDICTED])
    looks = Looks(shown)
    for group in rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem"))).values():
        factor, entries = scale("rate", group), []
        panel = Panel(f"{rates.describe(group)}, {rates.runs_on(group)}", y=names_of(c.contender for c in group))
        panel.x = Axis(f"{unit(group)} (log scale)", "log", factor=factor)
        for y, cell in enumerate(group):
            hue, allowed, nest = looks.of(cell.contender)["color"], model.predict(cell, cells), model.nest_of(cell)
            measured, words = short(cell.rate * factor), ["-"] * 3
            if allowed is not None and nest is not None:
                ring = {**dot(hue), "markerfacecolor": "white", "markersize": 8}
                panel.series.append(Series([Point(y, exact(allowed.rate), begin=cell.rate)], ring, across="x"))
                into = model.loads_from(0, model.levels(cell, cells), nest, cell)
                each = (into.a + into.b) / model.itemsize(cell) / math.prod(model.sizes_of(cell).values())
                held = f"{called(allowed.level.name)}, {short(allowed.intensity, 2)} op/B"
                words = [short(each), "peak" if allowed.bound == "peak" else held, short(allowed.rate * factor)]
            panel.series.append(Series([point("rate", y, cell, shown)], dot(hue), across="x"))
            entries.append([*words, measured, short(allowed.rate / cell.rate) if allowed else "-"])
        heads = ["loads/n\N{SUPERSCRIPT THREE}", "held back by", "allowed", "measured", "ratio"]
        panel.table = Table(heads, entries)
        chart.panels.append(panel)
    return chart


def called(level: str) -> str:
    """Return what a figure calls a memory: rungs without shared memory load through the L1 that it is a part of."""
    return "L1/shared" if level == "shared" else level


def bandwidth(gigabytes: float) -> str:
    """Return a bandwidth [GB/s] in words: "117 GB/s", "33.4 TB/s"."""
    return f"{short(gigabytes)} GB/s" if gigabytes < MANY_G else f"{short(gigabytes / 1e3)} TB/s"


# ---- bars of parts


def stages(cells: list[Cell], options: Json) -> Chart:
    """Return a bar of stages for each contender, a panel for each product, warm and first, and the part computed."""
    chart = Chart(notes=[] if "note" in options else [_OF_RANKS])  # a figure's own is added for every kind
    used: set[str] = set()
    for title, own in rates.group(rates.contenders(cells), lambda cell: rates.describe([cell])).items():
        for call, read in CALLS.items():
            parts = [read(cell) for cell in own]
            if not any(parts):
                continue
            panel = Panel(f"{title}, {call}", y=names_of(cell.contender for cell in own))
            panel.x = Axis(options.get("x_label", "ms a call, mean over the ranks"), limits=(0, None))
            entries = []
            for y, (cell, by_stage) in enumerate(zip(own, parts, strict=True)):
                end = 0.0
                for stage in (stage for stage in STAGES if by_stage.get(stage)):
                    end += by_stage[stage]
                    part = Point(y, exact(end), begin=end - by_stage[stage])
                    panel.series.append(Series([part], {"color": STAGES[stage]}, form="bars", across="x"))
                    used.add(stage)
                computed = percent(100 * by_stage.get("compute", 0.0) / end) if end else "-"
                entries.append([short(end) if end else "-", computed])
                if not by_stage:
                    panel.words.append(said("no stages: one process" if cell.is_ok else cell.status, y))
            panel.table = Table(["ms", "computing"], entries)
            chart.panels.append(panel)
    chart.legend = {stage: dot(colour, "s") for stage, colour in STAGES.items() if stage in used}
    chart.says = "" if chart.panels else "No contender has told its stages"
    return chart


def grids(cells: list[Cell], options: Json) -> Chart:
    """Return a row for each grid of ranks, the least on top: what was counted over its bound, beside the formula."""
    what = options["counts"]
    label, bound_name, column = _COUNTS[what]
    bounded = [
        cell
        for cell in rates.contenders(cells)
        if cell.is_ok and any(count[f"bound_{what}"] for count in cell.facts.get("grids") or ())
    ]
    names = dict.fromkeys(_variant(count) for cell in bounded for count in cell.facts["grids"])
    looks = {name: dot(PALETTE[at], MARKERS[at % len(MARKERS)]) for at, name in enumerate(names)}
    ring: Look = {**dot(INK), "markerfacecolor": "none", "markersize": 10}
    chart = Chart(legend={**looks, "formula": ring}, says="" if bounded else "Nothing has been counted")
    for cell in bounded:
        by_grid = rates.group(cell.facts["grids"], lambda count: str(count["grid"]))
        own = dict(sorted(by_grid.items(), key=lambda entry: entry[1][0][what]))
        shares = [count[what] / count[f"formula_{what}"] for row in own.values() for count in row]
        all_equal, span = f"all {len(shares)} counts equal", f"{short(min(shares), 2)} to {short(max(shares), 2)} of"
        count_of = rates.plural(int(rates.axis(cell, "ranks")), "rank")
        place = f"{count_of} {rates.words(cell, 'device')}" if rates.is_on_device(cell) else count_of
        told = f"{all_equal if set(shares) == {1.0} else span} the formula"
        panel = Panel(f"{place}, {rates.size(cell)}: {told}", Axis(label, "ratio"), names_of(own), rules=[ONE])
        for y, row in enumerate(own.values()):
            for count in (count for count in row if count[f"bound_{what}"]):
                bound, look = count[f"bound_{what}"], looks[_variant(count)]
                for value, mark in ((count[f"formula_{what}"], {**ring, "color": look["color"]}), (count[what], look)):
                    panel.series.append(Series([Point(y, exact(value / bound))], mark, across="x"))
        first = [row[0] for row in own.values()]
        over = [short(c[what] / c[f"bound_{what}"]) if c[f"bound_{what}"] else "-" for c in first]
        entries = [f"{c[what] / (1024 if what == 'bytes' else 1):,.0f}" for c in first]
        panel.table = Table([column, "/ bound"], [list(row) for row in zip(entries, over, strict=True)])
        chart.panels.append(panel)
    chart.notes.append(f"Line: {bound_name}. Counted by the ranks, of float64. Table: of the first in the legend. ")
    chart.notes[-1] += "Grids are pm x pn x pk."
    return chart


def _variant(count: Json) -> str:
    """Return what counted: the strategy, its panels, and between GPUs the engine."""
    engine = {"copy": "copy engines", "nccl": "NCCL", "staged": "by host"}.get(count.get("transport", ""), "")
    panels = f"panels of {count['panel']}" if count["panel"] else ""
    return ", ".join(filter(None, (str(count["backend"]), engine, panels)))


_COUNTS = {
    "words": ("words a rank receives / lower bound, log scale", "the lower bound", "words"),
    "bytes": ("memory of the fullest rank / its part of one copy, log scale", "one copy, spread", "KiB"),
}
_BY_KIND = (
    "Whole tiles: powers of two and multiples of {tile}; the rates of the nearest two are interpolated by log n. Dots: "
    "the other sizes."
)
_IN_WINDOW = (
    "A dot is a size: its speed over that of a contender timed in turns with it, against the median at whole tiles "
    f"within {swept.WINDOW} of it: the drift of the machine cancels. Grey: how far one whole tile is from others."
)
_PREDICTED = (
    "Dot: measured. Ring: the rate that its loads allow, min(peak, operations a byte x bandwidth), of the memory "
    "that allows least. Loads: elements of A and B that reach registers, for n\N{SUPERSCRIPT THREE} pairs; on a GPU a "
    "warp's load counts as 32 at least."
)
_OF_RANKS = (
    "A warm call begins when ranks hold the operands, and ends when they hold the result; that of dist-root begins "
    "and ends on rank 0. Handing operands and result over between caller and ranks is not counted. Redistribute: "
    "scattering from rank 0; collect: gathering there. Rest: commands to the ranks, and waiting for the slowest. Of "
    "panels that are gathered ahead only what is waited for counts. Load: libraries and the operands; prepare: "
    "kernels, which may be in the cache of compiled ones. Older results count that as computing, of the first call."
)
