"""Charts against a numeric axis: sizes, threads, ranks, and what a model says beside the points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from harness.analysis import conditions, ragged_sizes, ranks, rates, rivals
from harness.analysis.ragged_sizes import swept
from harness.analysis.ranks import RankPoint, projection
from harness.analysis.ranks import model as rank_model
from harness.experiment import Json
from harness.report.figures.chart import Axis, Chart, Look, Panel, Point, Rule, Series, Table, Words
from harness.report.figures.looks import GREY, INK, PALETTE, Looks, dot
from harness.report.figures.values import (
    FEWEST_JOINED,
    ONE,
    RATIOS,
    estimate,
    line,
    peak_rules,
    point,
    scale,
    short,
    size_axis,
    unit,
    value_axis,
)
from harness.stats.statistics import Interval, exact, geometric_mean
from harness.store.store import Cell

LAUNCHES: Look = {"linestyle": ":", "linewidth": 1.4}  # the line of the host's time to launch a call
MODEL: Look = {"linestyle": "--", "linewidth": 1.1}
IDEAL: Look = {"color": INK, "linestyle": ":", "linewidth": 1.4}
LIMIT: Look = {"color": GREY, "linestyle": "-.", "linewidth": 1.4}
DASH: Look = {"linestyle": "", "marker": "_", "markersize": 15}  # what stands for a line of so few points
FORMS: dict[str, Look] = {
    projection.ONE: {"color": "#D55E00", "linestyle": "-."},
    projection.TWO: {"color": "#0072B2", "linestyle": "--"},
    projection.THREE: {"color": "#009E73", "linestyle": "-"},
    projection.ROOT: {"color": GREY, "linestyle": ":"},
}
MOST_COLUMNS = 3  # of panels
APART = 0.03  # of methods at one number of ranks, in parts of it
MOST_EFFICIENCY = 105.0  # percent that no noise explains
LEAST_LOSS = 0.5  # percent: less is no loss in words
FEWEST_COUNTS = 4  # numbers of threads that make a curve; of fewer the largest is shown


def lines(cells: list[Cell], options: Json) -> Chart:
    """Return a line for each contender against a numeric axis, a panel for each value of another.

    With ``marker``, an axis of kinds of size, ragged ones are hollow. With ``sweeps`` every size was measured: lines
    join neighbours alone, since what lies between others was not, and the largest loss is said. Of the value
    ``"over_fastest"`` dots have the look of the library that is the fastest there.
    """
    x, value, is_swept = options.get("x", "n"), options.get("value", "rate"), options.get("every", False)
    is_over = value == "over_fastest"
    shown = [c for c in rates.contenders(cells) if not is_over or rates.axis(c, "backend") == options["subject"]]
    groups = rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem")))
    groups = {title: own for title, own in groups.items() if is_over or _tells(value, own, cells)} or groups
    groups = dict(sorted(groups.items(), key=lambda e: min(rates.axis(c, x) for c in e[1]))) if is_swept else groups
    places = {title: {rates.axis(cell, x) for cell in own} for title, own in groups.items()}
    is_shared = bool(groups) and bool(set.intersection(*places.values()))  # others would stand half empty
    looks = Looks(rates.contenders(cells))
    columns = min(2, len(groups)) if is_swept or is_over else 1
    is_alike = is_over or (is_swept and len({unit(own) for own in groups.values()}) == 1)
    chart = Chart(columns=columns, ends=options.get("ends", False), share="x" * (is_shared and columns == 1))
    chart.share += "y" * is_alike
    for title, own in groups.items():
        sizes = set.union(*places.values()) if is_shared else places[title]
        panel = Panel(str(title), size_axis(x, sizes, options.get("x_label", "")), value_axis(value, own, options))
        panel.x = Axis(f"{x}, elements") if is_swept else panel.x
        panel.rules = peak_rules(value, own, cells, "y") if options.get("peak", not is_swept) else []
        if is_over:
            _over_libraries(panel, own, cells, looks, x)
        else:
            around = rates.select(cells, {options["panels"]: title}) if is_swept else cells
            _contenders(chart, panel, own, around, looks, options)
        chart.panels.append(panel)
    if "marker" in options:
        chart.legend["size fits no tile"] = {**dot(INK), "markerfacecolor": "white"}
    if "limits" in options:
        chart.notes.append(f"What is above {options['limits'][1]:g} is not drawn.")
    if any(panel.words for panel in chart.panels):
        chart.notes.append(_HOW_WORST)
    if is_swept:
        is_sure = all(rates.has_interval(cell) for cell in shown if cell.is_ok)
        chart.notes.append("Bands: 95 % intervals of the medians" + ("." if is_sure else _OF_FEW))
    chart.notes += [_LUCK] if is_over else []
    return chart


def _contenders(chart: Chart, panel: Panel, own: list[Cell], cells: list[Cell], looks: Looks, options: Json) -> None:
    """Fill a panel of `lines` with the line of each contender."""
    x, value = options.get("x", "n"), options.get("value", "rate")
    for name, series in rates.group(own, looks.name).items():
        done = sorted((cell for cell in series if cell.is_ok), key=lambda cell: rates.axis(cell, x))
        points, look = [point(value, rates.axis(cell, x), cell, cells) for cell in done], looks.of(name)
        if options.get("every"):
            panel.series += _neighbours(points, {**look, "markersize": 3, "linewidth": 1.1}, name)
            panel.words += _worst(name, cells, options, look)
        else:
            kinds = [rates.axis(cell, options["marker"]) for cell in done] if "marker" in options else []
            panel.series += line(points, look, name, [kind in ragged_sizes.REGULAR_KINDS for kind in kinds])
        launches = [(rates.axis(cell, x), conditions.reading(cell, "launch_ns")) for cell in done]
        host = [Point(at, exact(ns / 1e6)) for at, ns in launches if ns and options.get("launches")]
        if host:
            panel.series.append(Series(host, {"color": look["color"], **LAUNCHES}))
            chart.legend["launching a call, on the host"] = {"color": INK, **LAUNCHES}
    for at, words in enumerate(reversed(panel.words)):  # one above the other
        panel.words[-1 - at] = words._replace(y=0.06 + 0.08 * at)


def _tells(value: str, group: Sequence[Cell], cells: list[Cell]) -> bool:
    """Return whether a panel has a value of anything but the reference, to which its ratios are."""
    done = (cell for cell in group if cell.is_ok and (value not in RATIOS or cell.contender != cell.reference))
    return any(math.isfinite(estimate(value, cell, cells).estimate) for cell in done)


def _over_libraries(panel: Panel, own: list[Cell], cells: list[Cell], looks: Looks, x: str) -> None:
    """Fill a panel with ratios to the fastest library of each size, in its look; mean and lowest are in the title."""
    beside = [(cell, rivals.fastest_peer(cell, cells)) for cell in sorted(own, key=lambda cell: rates.axis(cell, x))]
    found = [(point("over_fastest", rates.axis(c, x), c, cells), peer) for c, peer in beside if c.is_ok and peer]
    panel.y = Axis("rate / rate of fastest library", "ratio")
    panel.rules = [ONE._replace(across="y")]
    joined = line([one._replace(value=exact(one.value.estimate), samples=()) for one, _ in found], {"color": GREY})
    panel.series = [Series(s.points, {"color": GREY, "linewidth": 0.9}) for s in joined[:1] if len(s.points) > 2]
    for name, points in rates.group(found, lambda entry: looks.name(entry[1])).items():
        look = {**looks.of(name), "linestyle": ""}
        panel.series.append(Series([one for one, _ in points], look, f"fastest library: {name}"))
    if not found:
        panel.title += "\nno library has a time"
        return
    worst = min((one for one, _ in found), key=lambda one: one.value.estimate)
    mean = short(geometric_mean([one.value.estimate for one, _ in found]))
    panel.title += f"\ngeom. mean {mean}, lowest {short(worst.value.estimate)} at {x}={worst.at}"


def _neighbours(points: Sequence[Point], look: Look, name: str) -> list[Series]:
    """Return bands of points in one piece where sizes are one apart."""
    ends = [at for at in range(1, len(points)) if points[at].at > points[at - 1].at + 1]
    pieces = itertools.pairwise([0, *ends, len(points)])
    return [Series(points[begin:end], look, name, "band") for begin, end in pieces if begin < end]


def _worst(name: str, cells: list[Cell], options: Json, look: Look) -> list[Words]:
    """Return what the size of a sweep loses that loses most, and in whose units: ", over cpu-numpy -7 % at 513"."""
    own = [sweep for (who, _), sweep in swept.sweeps(cells, options).items() if who == name]
    n, loss = max(own[0].points, key=lambda entry: entry[1]) if own else (0, 0.0)
    words = f"{name}, over {own[0].beside} -{loss:.0f} % at {n}" if loss >= LEAST_LOSS else ""
    return [Words(words, 0.02, 0.06, {"color": look["color"], "size": 8}, within="xy")] if words else []


# ---- threads and ranks


def scaling(cells: list[Cell], options: Json) -> Chart:
    """Return efficiency against threads, a panel for each size and kind of work.

    Of few numbers of threads the speed-up with the most of them, a row for each method.
    """
    cells = rates.contenders(cells)
    found = {
        title: {
            method: [
                RankPoint(cell, alone, cell.threads, rates.speed_up(cell, alone), math.nan, math.inf)
                for cell, alone in pairs
            ]
            for method, pairs in rates.beside_one_thread(own).items()
        }
        for title, own in rates.group(cells, lambda cell: f"n={cell.axes['n']}, {cell.axes['work']}").items()
    }
    counts = sorted({cell.threads for cell in cells if cell.is_ok})
    looks = Looks(cells, by="method")
    if not any(found.values()):
        return Chart(says="No method has a time on one thread to compare with")
    if len(counts) < FEWEST_COUNTS:
        return _speed_ups(found, counts[-1], looks)
    return _efficiencies(found, looks, "threads", "efficiency, % of one thread")


def _speed_ups(found: dict[str, dict[str, list[RankPoint]]], most: int, looks: Looks) -> Chart:
    """Return a row for each method: the rate with `most` threads over that of one."""
    chart = Chart(share="x", notes=[f"Dotted: {most} times, the ideal."])
    for title, curves in found.items():
        last = {method: points[-1] for method, points in curves.items() if points[-1].ranks == most}
        panel = Panel(title, y=Axis(names=list(last)), rules=[Rule(most, "x", look=IDEAL)])
        panel.x = Axis(f"rate of {most} threads / rate of one", limits=(1, None))
        for y, (method, one) in enumerate(last.items()):
            samples = [] if rates.has_interval(one.cell) else rates.sample_speeds(one.cell, one.alone)
            gain = Point(y, one.measured, samples, 1.0)
            panel.series.append(Series([gain], dot(looks.of(method)["color"]), across="x"))
        panel.table = Table(["times"], [[f"{one.measured.estimate:.2f}"] for one in last.values()])
        chart.panels.append(panel)
    return chart


def rank_scaling(cells: list[Cell], options: Json) -> Chart:
    """Return efficiency against ranks, a panel for each product, beside the model and the limit by rank 0."""
    curves = {title: ranks.curves(own) for title, own in ranks.products(cells).items()}
    found = {f"{title}\n{_best(own)}": own for title, own in curves.items() if own}
    if not found:
        return Chart(says="No method has a time on one rank to compare with")
    is_on_gpus = all(map(rates.is_on_device, rates.contenders(cells)))
    looks, x = Looks(rates.contenders(cells), by="method"), "GPUs" if is_on_gpus else "ranks, or threads of cpu-simd"
    chart = _efficiencies(found, looks, x, "speed, % of as many times that of one")
    every = [one for own in found.values() for points in own.values() for one in points]
    if any(100 * one.measured.estimate / one.ranks > MOST_EFFICIENCY for one in every):
        chart.notes.append(
            "Above 100 %: one alone computes the whole product at a lower rate than several their parts."
        )
    if any(one.ranks > 1 and math.isfinite(one.modelled) for one in every):
        chart.legend["model"] = {"color": INK, **MODEL}
        chart.notes.append(
            "Model, dashed: products at the rate of one rank, less what ranks lose that all compute; a start for each "
            "panel, words received over the bandwidth of an all-gather on as many ranks, messages times its latency, "
            "and the command to the ranks. Data on rank 0: the line through what two smaller products took for them."
        )
    if any(math.isfinite(one.root_limit) for one in every):
        chart.legend["limit by rank 0"] = LIMIT
        chart.notes.append("Limit by rank 0: what dist-root could reach if its ranks took no time to compute.")
    return chart


def _efficiencies(found: dict[str, dict[str, list[RankPoint]]], looks: Looks, x: str, y: str) -> Chart:
    """Return curves of the speed of several over as many times that of one [percent], and the model of each."""
    chart = Chart(columns=min(len(found), MOST_COLUMNS), height=3.0, share="y", legend={"ideal": IDEAL})
    for title, curves in found.items():
        counts = {one.ranks for points in curves.values() for one in points}
        panel = Panel(title, size_axis(x, counts, x), Axis(y, limits=(0, None)), rules=[Rule(100, look=IDEAL)])
        for place, (method, points) in enumerate(curves.items()):
            look, shift = looks.of(method), 1 + APART * (place - (len(curves) - 1) / 2)  # so that bars stand apart
            measured = []
            for one in points:
                speeds = rates.sample_speeds(one.cell, one.alone) if one.ranks > 1 else []
                samples = [] if rates.has_interval(one.cell) else [100 * speed / one.ranks for speed in speeds]
                share = Interval(*(100 * bound / one.ranks for bound in one.measured))
                measured.append(Point(one.ranks * shift, share, samples))
            look = look if len(measured) >= FEWEST_JOINED else {**look, "linestyle": ""}
            panel.series.append(Series(measured, look, method))
            for heights, style in (
                ([one.modelled for one in points], {**MODEL, "color": look["color"]}),
                ([one.root_limit for one in points], LIMIT),
            ):
                pairs = zip(points, heights, strict=True)
                known = [Point(one.ranks, exact(100 * h / one.ranks)) for one, h in pairs if math.isfinite(h)]
                if len(known) > 1 or (known and style is LIMIT):
                    dashes = style if len(known) >= FEWEST_JOINED else {**style, **DASH}
                    panel.series.append(Series(known, {"zorder": 1.9, **dashes}))
        chart.panels.append(panel)
    return chart


def _best(curves: dict[str, list[RankPoint]]) -> str:
    """Return the method that gains most by the most ranks: "dist-2d 3.8x on 4 ranks"."""
    last = {method: points[-1] for method, points in curves.items() if rank_model.decomposition(points[-1].cell)}
    if not last:
        return "no strategy has a time"
    method, one = max(last.items(), key=lambda entry: entry[1].measured.estimate)
    noun = "GPU" if rates.is_on_device(one.cell) else "rank"
    return f"{method} {short(one.measured.estimate)}x on {rates.plural(one.ranks, noun)}"


# ---- models


def model_error(cells: list[Cell], options: Json) -> Chart:
    """Return by how much the time of the model differs from the measured one, against ranks, a panel for each mode."""
    errors = ranks.model_errors(cells)
    if not errors:
        return Chart(says="dist_scaling has no times on several ranks, or no link")
    looks, within = Looks((cell for cell, _ in errors), by="method"), ranks.TOLERANCE
    chart = Chart(share="y", notes=[_OF_MODEL])
    for mode, own in rates.group(errors, lambda entry: str(entry[0].axes.get("mode"))).items():
        kind, comma, place = mode.partition(",")
        count = sum(abs(error) <= within for _, error in own)
        panel = Panel(f"{kind} scaling{comma}{place}: {count} of {len(own)} within {within:.0f} %")
        panel.x = size_axis("ranks", {rank_model.ranks_of(cell) for cell, _ in own}, "ranks")
        panel.y = Axis("model over measured, %")
        panel.rules = [Rule(0), Rule(-within, look={"color": GREY, "alpha": 0.12}, end=within)]
        for method, series in rates.group(own, lambda entry: looks.name(entry[0])).items():
            points = [Point(rank_model.ranks_of(cell), exact(error)) for cell, error in series]
            panel.series.append(Series(points, {**looks.of(method), "linestyle": ""}, method))
        chart.panels.append(panel)
    chart.columns = len(chart.panels)
    return chart


def projected(cells: list[Cell], options: Json) -> Chart:
    """Return the efficiency that the model expects on thousands of ranks, a panel for each measured local rate."""
    chart = Chart(share="x", notes=[_PROJECTED])
    for cell in rates.timed(cells):
        name, n, *constants = options["links"]["gpu" if rates.is_on_device(cell) else "cpu"]
        rate = f"{short(cell.rate * scale('rate', [cell]))} {unit([cell])}"
        where = f"{rates.axis(cell, 'problem')}, n={n}; a rank: {cell.contender}, {rate}"
        panel = Panel(f"{where}; {name}: {constants[0] / 1e9:.0f} GB/s", y=Axis("efficiency, %", limits=(0, 105)))
        panel.x = size_axis("ranks", projection.COUNTS, "ranks (log scale), the same product")
        for form, look in FORMS.items():
            points = [Point(at, exact(share)) for at, share in projection.efficiencies(cell, form, n, *constants)]
            panel.series.append(Series(points, look, form))
        chart.panels.append(panel)
    return chart


def extra_work(cells: list[Cell], options: Json) -> Chart:
    """Return the most work beyond the result that padding to whole tiles makes from a size on, a line for each tile."""
    sizes = sorted({n for cell in cells if (n := rates.axis(cell, "n"))})
    every = range(sizes[0], sizes[-1] + max(options["tiles"]) + 1)  # the worst size from the last one on is there
    panel = Panel(x=size_axis("n", sizes), y=Axis("extra work, % of n³ pairs", "log", limits=(1.0, None)))
    for at, tile in enumerate(sorted(options["tiles"])):
        work = [ragged_sizes.extra_work(n, n, tile, tile) for n in every]
        most = list(itertools.accumulate(reversed(work), max))[::-1]
        points = [Point(n, exact(share)) for n, share in zip(every, most, strict=True) if n <= sizes[-1]]
        panel.series.append(Series(points, {"color": PALETTE[at]}, f"{tile} x {tile} tiles", "steps"))
    notes = ["Computed, not measured: of all sizes from n on, the one that is padded most."]
    return Chart([panel], height=3.2, notes=notes, is_computed=True)


_HOW_WORST = (
    "In words: the ragged size that loses most of its speed over a contender timed in turns with it, against the "
    f"median at whole tiles within {swept.WINDOW} of it; sizes are not timed in turns."
)
_OF_FEW = " within the processes that measured; others may lie outside."
_LUCK = (
    "Above 1 the subject is faster. The fastest library is found at each size by the same samples: luck counts for it."
)
_OF_MODEL = (
    "Time by the model over the measured time, minus 1: above 0 the model is slower. Each dot is a product of "
    "dist_scaling."
)
_PROJECTED = (
    "A model, not a measurement: the local rate was measured on one rank, bandwidth and latency of the link are "
    "stated constants, nothing overlaps, and each form has its best grid. From rank 0: if A, B and D lie there."
)
