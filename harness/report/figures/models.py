"""Figures that compare measurements with a model: ragged loss, padding, caches, ideal scaling, the roofline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter

from harness.analysis import ragged_sizes
from harness.analysis import rates as analysis_rates
from harness.analysis.ragged_sizes import swept as swept_sizes
from harness.analysis.traffic.model import balance_of, is_model
from harness.experiment import Json
from harness.machine import Machine
from harness.report.figures.looks import GREY, INK, PALE, PALETTE, Looks
from harness.report.figures.sheet import PAPER, Sheet
from harness.report.figures.values import log_label, mark_spread, plain_ticks, short, spread
from harness.report.tables import byte_size
from harness.stats.statistics import Interval, median
from harness.store.store import Cell

LEAST_WORK = 1.0  # percent: less is not drawn
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 1.0, "zorder": 2.1}
_BY_KIND = (
    "Whole tiles: powers of two and multiples of {tile}; the rates of the nearest two are interpolated by log n. Dots: "
    "the other sizes."
)
_IN_WINDOW = (
    "A dot is a size: its speed over that of a contender timed in turns with it, against the median at whole tiles "
    f"within {swept_sizes.WINDOW} of it: the drift of the machine cancels. Grey: how far one whole tile is from others."
)

STAR: dict[str, Any] = {"marker": "*", "color": "#D55E00", "markersize": 13, "markeredgecolor": "white"}
LABEL_APART = 1.7  # ratio of working sets nearer than which a label goes below its point
SHADES = ("#EAF1F7", "#F6F0E4", "#EFEAF4")  # of what fits L1, L2, L3


def ragged(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw, for each contender, the loss of rate at each ragged size and the median loss; the least loss on top."""
    found = ragged_sizes.losses(cells, options)
    losses = dict(sorted(found.items(), key=lambda entry: median([loss for _, loss in entry[1]])))
    if not losses:
        sheet.say("No ragged size has a time beside a regular one")
        return
    looks, firm = Looks(analysis_rates.contenders(cells)), ragged_sizes.firm_sizes(cells, options)
    swept = swept_sizes.sweeps(cells, options) if options.get("sweeps") else {}
    (panel,) = sheet.panels(height=0.9 + 0.72 * len(losses))
    for y, (name, points) in enumerate(losses.items()):
        hue = looks.of(name[0])["color"]
        middle, own = median([loss for _, loss in points]), {n for who, n in firm if who == name[0]}
        for is_firm, look in ((True, {"alpha": 0.55, "markeredgewidth": 0}), (False, HOLLOW)):
            some = [loss for n, loss in points if (n in own) == is_firm]
            panel.plot(some, [y] * len(some), "o", color=hue, **look)
        panel.plot([middle, middle], [y - 0.3, y + 0.3], color=hue, linewidth=3)
        n, most = ragged_sizes.worst(points, own)
        panel.annotate(f"median {middle:.1f} %", (middle, y - 0.34), ha="center", va="bottom", size=9.5, bbox=PAPER)
        label_style: dict[str, Any] = {
            "textcoords": "offset points",
            "ha": "center",
            "va": "top",
            "size": 8.5,
            "color": GREY,
        }
        if name in swept and swept[name].is_noise_known:
            reach = swept[name].noise
            panel.barh(y, 2 * reach, 0.6, left=-reach, color=PALE, zorder=0.5)
        if name not in swept or swept[name].is_beyond_noise(most):
            panel.annotate(f"worst: {options.get('x', 'n')}={n}", (most, y + 0.3), (0, -1), **label_style)
    panel.axvline(0, color=INK, linewidth=1.2)
    panel.set_yticks(range(len(losses)), [_row(name, swept) for name in losses])
    panel.set_ylim(len(losses) - 0.45, -0.75)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.12)
    panel.set_xlabel("rate lost against whole tiles nearby, % (below 0: gained)")
    if any((name[0], n) not in firm for name, points in losses.items() for n, _ in points):
        sheet.notes.append("Hollow: few samples, or a core was taken away; such a size is never named as the worst.")
    sheet.notes.append(_IN_WINDOW if options.get("sweeps") else _BY_KIND.format(tile=options.get("tile", 48)))


def _row(name: tuple[str, str], swept: Mapping[tuple[str, str], swept_sizes.Sweep]) -> str:
    """Return the name of a row, with the contender in whose units it is: "cpu-simd, over cpu-numpy"."""
    words = " ".join(filter(None, name))
    return f"{words}\nover {swept[name].beside}" if name in swept else words


def extra_work(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw the most work beyond the result that padding to whole tiles makes from a size on, a line for each tile."""
    sizes = sorted({analysis_rates.axis(cell, "n") for cell in cells if analysis_rates.axis(cell, "n")})
    every = range(sizes[0], sizes[-1] + 1)
    beyond = range(sizes[0], sizes[-1] + max(options["tiles"]) + 1)  # the worst size from the last one on is there
    (panel,) = sheet.panels(height=3.2)
    for index, tile in enumerate(sorted(options["tiles"])):
        work = [ragged_sizes.extra_work(n, n, tile, tile) for n in beyond]
        most = list(itertools.accumulate(reversed(work), max))[::-1][: len(every)]
        panel.plot(every, most, color=PALETTE[index % len(PALETTE)], linewidth=2, drawstyle="steps-post")
        sheet.add_to_legend(f"{tile} x {tile} tiles", color=PALETTE[index % len(PALETTE)], linewidth=2)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_ylim(LEAST_WORK, panel.get_ylim()[1])
    panel.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_ylabel("extra work, % of n³ pairs")
    panel.set_xlabel(log_label("n"))
    plain_ticks(panel, sizes)
    sheet.notes.append("Computed, not measured: of all sizes from n on, the one that is padded most.")


def working_set(sheet: Sheet, cells: list[Cell], options: Json, machine: Machine) -> None:
    """Draw rates against the bytes that a choice of blocks keeps in use, a panel for each sweep, caches shaded.

    The blocks that the backend chooses by itself are a star, and those that machine balance asks for a dotted line.
    """
    contenders = analysis_rates.contenders(cells)
    groups = analysis_rates.group(contenders, lambda cell: analysis_rates.axis(cell, options["panels"]))
    panels = sheet.panels(len(groups), 1, height=0.5 + 2.05 * len(groups), sharex=True)
    looks = Looks(contenders, by="backend")
    ends = [float("inf"), 0.0]
    for panel, (sweep, group) in zip(panels, groups.items(), strict=True):
        terms = options["working_sets"][sweep]
        done = sorted((cell for cell in group if cell.is_ok), key=lambda cell: _bytes_of(cell, terms))
        if done:
            x, look = {id(cell): _bytes_of(cell, terms) for cell in done}, looks.of(looks.name(group[0]))
            _draw_sweep(panel, done, x, look)
            marked = _mark_balance(panel, done[0], cells, sweep, options)
            ends = [min(ends[0], *marked, *x.values()), max(ends[1], *marked, *x.values())]
        panel.set_title(options.get("titles", {}).get(sweep, str(sweep)) + f", {analysis_rates.size(*group)}")
        panel.set_ylabel(analysis_rates.unit(group))
        panel.set_xscale("log", base=2)
    for panel in panels:
        _shade_caches(panel, machine, ends, is_named=panel is panels[0])
    sheet.add_to_legend("blocks chosen by the sizes of the caches", **STAR, linestyle="")
    sheet.add_to_legend("machine balance", color=INK, linestyle=":", linewidth=1.5)
    panels[-1].set_xlabel("working set, bytes (logarithmic); at each point: the block size in elements")
    panels[-1].xaxis.set_major_formatter(lambda tick, _: byte_size(tick))
    sheet.notes.append(
        "Machine balance: the side at which what passes the block takes as long as the arithmetic, "
        "side = elements a pair x bytes x peak / (2 x bandwidth of the memory that it comes from)."
    )


def _draw_sweep(panel: Axes, done: list[Cell], x: dict[int, int], look: dict[str, Any]) -> None:
    """Draw the rates of a sweep with their block sizes, and the model's own choice as a star."""
    swept = [cell for cell in done if not is_model(cell)]
    intervals = [analysis_rates.rate_interval(cell) for cell in swept]
    panel.plot([x[id(cell)] for cell in swept], [interval.estimate for interval in intervals], **look)
    label_style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "size": 9, "bbox": PAPER}
    chosen = [x[id(cell)] for cell in filter(is_model, done)]
    above = 0.0  # where the last label above its point stands
    for cell, interval in zip(swept, intervals, strict=True):
        at = x[id(cell)]
        mark_spread(panel, at, interval.estimate, interval, spread("rate", cell, swept), look["color"])
        name = cell.contender.rpartition("=")[2]
        is_crowded = any(at / LABEL_APART < other < at * LABEL_APART for other in (above, *chosen))
        above = above if is_crowded else at
        place = (interval.low, -15) if is_crowded else (interval.high, 5)
        panel.annotate(name, (at, place[0]), (0, place[1]), zorder=4, **label_style)
    for cell in filter(is_model, done):
        panel.plot([x[id(cell)]], [cell.rate], **STAR, linestyle="", zorder=5)
    panel.set_ylim(0, 1.32 * max(analysis_rates.rate_interval(cell).high for cell in done))


def _mark_balance(panel: Axes, cell: Cell, cells: list[Cell], sweep: str, options: Json) -> list[float]:
    """Draw a line at the working set of the blocks that machine balance asks for in a sweep, and return where."""
    found = balance_of(cell, cells, *options.get("passing", {}).get(sweep, ("", 0)))
    if found is None:
        return []
    side, level = found
    plan = {**cell.facts["plan"], **dict.fromkeys(_swept(sweep), side)}
    at = _product_of_sizes(plan, cell.facts["problem"], options["working_sets"][sweep])
    panel.axvline(at, color=INK, linewidth=1.5, linestyle=":")
    style: dict[str, Any] = {"xycoords": panel.get_xaxis_transform(), "textcoords": "offset points", "bbox": PAPER}
    panel.annotate(f"{short(side, 2)}, from {level}", (at, 0), (4, 5), size=9, **style)
    return [at]


def _swept(sweep: str) -> tuple[str, ...]:
    return ("mc", "nc", "kc") if sweep == "tile" else (sweep,)


FEWEST_FOR_A_CURVE = 4  # numbers of threads; of fewer the largest is shown


def scaling(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw the efficiency of each thread against threads, a panel for each size and kind of work.

    Of few numbers of threads the speed-up with the most of them, a row for each method.
    """
    cells = analysis_rates.contenders(cells)
    if not analysis_rates.scaling(cells):
        sheet.say("No method has a time on one thread to compare with")
        return
    shown = analysis_rates.group(cells, lambda cell: f"n={cell.axes['n']}, {cell.axes['work']}")
    counts = sorted({cell.threads for cell in cells if cell.is_ok})
    looks = Looks(cells, by="method")
    if len(counts) < FEWEST_FOR_A_CURVE:
        _speed_ups(sheet, shown, counts[-1], looks)
        return
    panels = sheet.panels(1, len(shown), sharex=True, sharey=True)
    for panel, (title, own) in zip(panels, shown.items(), strict=True):
        _efficiency(sheet, panel, analysis_rates.beside_one_thread(own), looks)
        panel.set_title(title)
        panel.set_xscale("log", base=2)
        panel.set_xlim(0.9, counts[-1] * 1.11)
        plain_ticks(panel, counts)
        panel.set_xlabel("threads")
        panel.set_ylim(0, max(110.0, panel.get_ylim()[1]))
    panels[0].set_ylabel("efficiency, % of one thread")
    sheet.add_to_legend("ideal", color=INK, linestyle=":")


def _speed_ups(sheet: Sheet, shown: dict[str, list[Cell]], most: int, looks: Looks) -> None:
    """Draw a row for each method: the rate with `most` threads over that of one, in a panel for each kind of work."""
    found = {
        title: {
            method: points[-1]
            for method, points in analysis_rates.beside_one_thread(own).items()
            if points[-1][0].threads == most
        }
        for title, own in shown.items()
    }
    methods = list(dict.fromkeys(method for own in found.values() for method in own))
    panels = sheet.panels(1, len(found), height=0.9 + 0.3 * len(methods), sharex=True, sharey=True)
    for panel, (title, own) in zip(panels, found.items(), strict=True):
        panel.axvline(most, color=INK, linestyle=":", linewidth=1.5)
        for method, (cell, alone) in own.items():
            y, hue, gain = methods.index(method), looks.of(method)["color"], analysis_rates.speed_up(cell, alone)
            panel.plot([1, gain.estimate], [y, y], color=hue, linewidth=1.2, alpha=0.45)
            panel.plot([gain.estimate], [y], "o", color=hue)
            speeds = [] if analysis_rates.has_interval(cell) else analysis_rates.sample_speeds(cell, alone)
            mark_spread(panel, gain.estimate, y, gain, speeds, hue, across="x")
            style: dict[str, Any] = {"xycoords": panel.get_yaxis_transform(), "textcoords": "offset points"}
            panel.annotate(f"{gain.estimate:.2f}", (1, y), (6, 0), va="center", size=9.5, color=GREY, **style)
        panel.set_title(title)
        panel.set_xlabel(f"rate of {most} threads / rate of one")
        panel.xaxis.set_major_locator(MaxNLocator(nbins=3))
        panel.grid(visible=False, axis="y")
        panel.tick_params(axis="y", length=0)
    low, high = panels[0].get_xlim()
    panels[0].set_xlim(min(1, low), max(1 + 1.15 * (most - 1), high))
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].set_ylim(len(methods) - 0.4, -0.6)
    sheet.notes.append(f"Dotted: {most} times, the ideal.")


def _efficiency(sheet: Sheet, panel: Axes, curves: dict[str, list[tuple[Cell, Cell]]], looks: Looks) -> None:
    """Draw the speed-up of each method over the number of threads [percent]."""
    panel.axhline(100, color=INK, linestyle=":", linewidth=1.5)
    for index, (method, points) in enumerate(curves.items()):
        look = looks.of(method)
        sheet.add_to_legend(method, **look)
        shift = 1 + 0.012 * (index - (len(curves) - 1) / 2)  # so that intervals at the same number stand side by side
        values = [
            Interval(*(100 * bound / cell.threads for bound in analysis_rates.speed_up(cell, alone)))
            for cell, alone in points
        ]
        x = [cell.threads * shift for cell, _ in points]
        panel.plot(x, [value.estimate for value in values], **look)
        for at, value, (cell, alone) in zip(x, values, points, strict=True):
            speeds = analysis_rates.sample_speeds(cell, alone) if cell is not alone else []
            mark_spread(panel, at, value.estimate, value, [100 * s / cell.threads for s in speeds], look["color"])


def _shade_caches(panel: Axes, machine: Machine, ends: list[float], *, is_named: bool) -> None:
    """Shade what each cache holds, from the smallest working set to a little beyond the largest."""
    left, right = ends[0] / 2, ends[1] * 2
    begin = left
    for (name, size), shade in zip((("L1d", machine.l1d), ("L2", machine.l2), ("L3", machine.l3)), SHADES, strict=True):
        end = min(size, right)
        if end <= begin:
            continue
        panel.axvspan(begin, end, color=shade, zorder=0, linewidth=0)
        if is_named:
            style: dict[str, Any] = {
                "xycoords": panel.get_xaxis_transform(),
                "textcoords": "offset points",
                "va": "top",
                "bbox": {**PAPER, "facecolor": shade},
            }
            panel.annotate(f"{name} {byte_size(size)}", (begin, 1), (4, -2), size=9, **style)
        begin = end
    if right > left:
        panel.set_xlim(left, right)


def _bytes_of(cell: Cell, terms: tuple[tuple[str, ...], ...]) -> int:
    """Return the bytes of a sum of products of block sizes, each block cut at the size of the matrix."""
    return int(_product_of_sizes(cell.facts["plan"], cell.facts["problem"], terms))


def _product_of_sizes(plan: Json, problem: Json, terms: tuple[tuple[str, ...], ...]) -> float:
    extent = {"mc": problem["m"], "nc": problem["n"], "kc": problem["k"]}
    sizes: dict[str, float] = {name: min(plan[name], extent.get(name, plan[name])) for term in terms for name in term}
    return sum(math.prod(sizes[name] for name in term) for term in terms) * _itemsize(problem["dtype"])


def _itemsize(dtype: str) -> int:
    return 1 if dtype == "bool" else int("".join(filter(str.isdigit, dtype))) // 8
