"""Figures of distributed products against the number of ranks: speed-up beside its model, the model's error, and on."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes

from harness.analysis import ranks, rates
from harness.analysis.ranks import RankPoint, projection
from harness.analysis.ranks import model as rank_model
from harness.experiment import Json
from harness.report.figures import values
from harness.report.figures.looks import GREY, INK, Looks
from harness.report.figures.sheet import Sheet
from harness.report.figures.values import mark_spread, plain_ticks, short
from harness.stats.statistics import Interval
from harness.store.store import Cell

FEWEST_JOINED = 3  # points of a line: two are dots
MOST_COLUMNS = 3  # of panels
APART = 0.03  # of methods at one number of ranks, in parts of it
MOST_EFFICIENCY = 105.0  # percent that no noise explains
DASH: dict[str, Any] = {"linestyle": "", "marker": "_", "markersize": 15}  # what stands for a line of so few points
MODEL: dict[str, Any] = {"linestyle": "--", "linewidth": 1.1}
IDEAL: dict[str, Any] = {"color": INK, "linestyle": ":", "linewidth": 1.4}
LIMIT: dict[str, Any] = {"color": GREY, "linestyle": "-.", "linewidth": 1.4}
FORMS: dict[str, dict[str, Any]] = {
    projection.ONE: {"color": "#D55E00", "linestyle": "-."},
    projection.TWO: {"color": "#0072B2", "linestyle": "--"},
    projection.THREE: {"color": "#009E73", "linestyle": "-"},
    projection.ROOT: {"color": GREY, "linestyle": ":"},
}


def scaling(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw efficiency against ranks, a panel for each product; dashed: the model, dash-dotted: the limit by rank 0."""
    found = {title: ranks.curves(own) for title, own in ranks.products(cells).items()}
    found = {title: curves for title, curves in found.items() if curves}
    if not found:
        sheet.say("No method has a time on one rank to compare with")
        return
    is_on_gpus = all(map(rates.is_on_device, rates.contenders(cells)))
    looks, columns = Looks(rates.contenders(cells), by="method"), min(len(found), MOST_COLUMNS)
    rows = -(-len(found) // columns)
    panels = sheet.panels(rows, columns, height=0.4 + 3.0 * rows, sharey=True)
    for index, (panel, (title, curves)) in enumerate(zip(panels, found.items(), strict=False)):
        most = max(point.ranks for points in curves.values() for point in points)
        panel.axhline(100, **IDEAL)
        for place, (method, points) in enumerate(curves.items()):
            look = looks.of(method)
            sheet.add_to_legend(method, **look)
            _curve(panel, points, look, 1 + APART * (place - (len(curves) - 1) / 2))
        panel.set_title("\n".join([title, *([_best(curves)] if most > 1 else [])]), size=10)
        panel.set_xscale("log", base=2)
        panel.set_xlim(0.9, most * 1.11)
        plain_ticks(panel, sorted({point.ranks for points in curves.values() for point in points}))
        panel.set_xlabel("GPUs" if is_on_gpus else "ranks, or threads of cpu-simd")
        if index % columns == 0:
            panel.set_ylabel("speed, % of as many\ntimes that of one")
    for panel in panels[len(found) :]:
        panel.set_axis_off()
    panels[0].set_ylim(0, max(110.0, panels[0].get_ylim()[1]))
    every = [point for curves in found.values() for points in curves.values() for point in points]
    if any(_efficiency(point) > MOST_EFFICIENCY for point in every):
        sheet.notes.append(
            "Above 100 %: one alone computes the whole product at a lower rate than several their parts."
        )
    _name_lines(sheet, every)


def _efficiency(point: RankPoint) -> float:
    return 100 * point.measured.estimate / point.ranks


def _curve(panel: Axes, points: list[RankPoint], look: dict[str, Any], shift: float) -> None:
    """Draw the efficiency that was measured, that of the model, and the limit by rank 0 [percent]."""
    intervals = [Interval(*(100 * bound / point.ranks for bound in point.measured)) for point in points]
    at = [point.ranks * shift for point in points]
    joined = look if len(points) >= FEWEST_JOINED else {**look, "linestyle": ""}
    panel.plot(at, [value.estimate for value in intervals], **joined)
    for x, value, point in zip(at, intervals, points, strict=True):
        samples = [100 * speed / point.ranks for speed in rates.sample_speeds(point.cell, point.alone)]
        mark_spread(panel, x, value.estimate, value, samples if point.ranks > 1 else [], look["color"])
    for heights, line in (
        ([point.modelled for point in points], {**MODEL, "color": look["color"]}),
        ([point.root_limit for point in points], LIMIT),
    ):
        known = [(x.ranks, 100 * y / x.ranks) for x, y in zip(points, heights, strict=True) if math.isfinite(y)]
        if len(known) > 1 or (known and line is LIMIT):
            dashes = line if len(known) >= FEWEST_JOINED else {**line, **DASH}
            panel.plot(*zip(*known, strict=True), zorder=1.5, **dashes)


def _best(curves: dict[str, list[RankPoint]]) -> str:
    """Return the method that gains most by the most ranks: "dist-2d 3.8x on 4 ranks"."""
    last = {method: points[-1] for method, points in curves.items() if rank_model.decomposition(points[-1].cell)}
    if not last:
        return "no strategy has a time"
    method, point = max(last.items(), key=lambda entry: entry[1].measured.estimate)
    noun = "GPU" if rates.is_on_device(point.cell) else "rank"
    return f"{method} {short(point.measured.estimate)}x on {rates.plural(point.ranks, noun)}"


def _name_lines(sheet: Sheet, points: list[RankPoint]) -> None:
    """Name the lines that are drawn beside what was measured, and say what they rest on."""
    sheet.add_to_legend("ideal", **IDEAL)
    if any(point.ranks > 1 and math.isfinite(point.modelled) for point in points):
        sheet.add_to_legend("model", color=INK, **MODEL)
        sheet.notes.append(
            "Model, dashed: products at the rate of one rank, less what ranks lose that all compute; a start for each "
            "panel, words received over the bandwidth of an all-gather on as many ranks, messages times its latency, "
            "and the command to the ranks. Data on rank 0: the line through what two smaller products took for them."
        )
    if any(math.isfinite(point.root_limit) for point in points):
        sheet.add_to_legend("limit by rank 0", **LIMIT)
        sheet.notes.append("Limit by rank 0: what dist-root could reach if its ranks took no time to compute.")


def model_error(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw by how much the time of the model differs from the measured one, against ranks, a panel for each mode."""
    errors = ranks.model_errors(cells)
    if not errors:
        sheet.say("dist_scaling has no times on several ranks, or no link")
        return
    looks = Looks((cell for cell, _ in errors), by="method")
    by_mode = rates.group(errors, lambda entry: str(entry[0].axes.get("mode")))
    panels = sheet.panels(1, len(by_mode), height=3.1, sharey=True)
    for panel, (mode, own) in zip(panels, by_mode.items(), strict=True):
        panel.axhspan(-ranks.TOLERANCE, ranks.TOLERANCE, color=GREY, alpha=0.12, linewidth=0)
        panel.axhline(0, color=INK, linewidth=1.2)
        for method, series in rates.group(own, lambda entry: looks.name(entry[0])).items():
            look = {**looks.of(method), "linestyle": ""}
            panel.plot([rank_model.ranks_of(cell) for cell, _ in series], [error for _, error in series], **look)
            sheet.add_to_legend(method, **look)
        within = sum(abs(error) <= ranks.TOLERANCE for _, error in own)
        panel.set_title(f"{_scaling(mode)}: {within} of {len(own)} within {ranks.TOLERANCE:.0f} %")
        panel.set_xscale("log", base=2)
        plain_ticks(panel, sorted({rank_model.ranks_of(cell) for cell, _ in own}))
        panel.set_xlabel("ranks")
    panels[0].set_ylabel("model over measured, %")
    sheet.notes.append(
        "Time by the model over the measured time, minus 1: above 0 the model is slower. Each dot is a product of "
        "dist_scaling."
    )


def _scaling(mode: str) -> str:
    """Return the mode of scaling in words: "strong scaling", "strong scaling, on GPUs"."""
    kind, comma, place = mode.partition(",")
    return f"{kind} scaling{comma}{place}"


def projected(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw the efficiency that the model expects on thousands of ranks, a panel for each measured local rate."""
    local = [cell for cell in rates.contenders(cells) if cell.is_ok]
    panels = sheet.panels(len(local), 1, height=0.4 + 2.7 * len(local), sharex=True)
    for panel, cell in zip(panels, local, strict=True):
        name, n, *constants = options["links"]["gpu" if rates.is_on_device(cell) else "cpu"]
        for form, look in FORMS.items():
            points = projection.efficiencies(cell, form, n, *constants)
            panel.plot(*zip(*points, strict=True), **look)
            sheet.add_to_legend(form, **look)
        rate = f"{short(cell.rate * values.scale('rate', [cell]))} {values.unit([cell])}"
        panel.set_title(
            f"{rates.axis(cell, 'problem')}, n={n}; a rank: {cell.contender}, {rate}; "
            f"{name}: {constants[0] / 1e9:.0f} GB/s"
        )
        panel.set_ylim(0, 105)
        panel.set_ylabel("efficiency, %")
        panel.set_xscale("log", base=2)
        plain_ticks(panel, projection.COUNTS)
    panels[-1].set_xlabel("ranks (logarithmic), the same product")
    sheet.notes.append(
        "A model, not a measurement: the local rate was measured on one rank, bandwidth and latency of the link are "
        "stated constants, nothing overlaps, and each form has its best grid. From rank 0: if A, B and D lie there."
    )
