"""Charts with a row for each contender, place or idea, and a table beside: bars, dots, losses, stages and counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from harness.analysis import peaks, rates, rivals
from harness.analysis.findings import regret
from harness.experiment import Json
from harness.report.figures.chart import Axis, Chart, Panel, Rule, Series, Table, Words
from harness.report.figures.looks import GREY, INK, MARKERS, PALETTE, dot, role_colour
from harness.report.figures.values import (
    NS_OF_A_MS,
    ONE,
    and_where,
    estimate,
    peak_rules,
    percent,
    point,
    scale,
    short,
    unit,
    value_axis,
)
from harness.stats.statistics import Interval, exact, geometric_mean
from harness.store.store import Cell

SPREAD = 0.62  # of the height of a row, over which its dots are spread


def bars(cells: list[Cell], options: Json) -> Chart:
    """Return a row for each contender: a bar from zero of rates and times, a dot with the way from 1 of ratios.

    With ``sort`` the smallest is on top.
    """
    shown = (rates.timed if options.get("labels") == "ladder" else rates.contenders)(cells)
    options = {"value": "rate", **options}
    value, around = options["value"], cells if options.get("peak", True) else shown
    groups = rates.group(shown, lambda cell: rates.words(cell, options.get("panels", "problem")))
    groups = {title: group for title, group in groups.items() if any(_has(value, cell, shown) for cell in group)}
    is_ambiguous = len({rates.describe(group) for group in groups.values()}) < len(groups)
    chart = Chart()
    for title, group in groups.items():
        if options.get("sort"):
            group.sort(key=lambda cell: estimate(value, cell, shown).estimate if _has(value, cell, shown) else math.inf)
        heads, entries = table_of_rows(group, cells, options)
        full = ", ".join(filter(None, [title, rates.size(*group)]))
        name = title if options.get("titles") == "panels" else full if is_ambiguous else rates.describe(group)
        panel = Panel(name, value_axis(value, group, options, is_row=True), names_of(c.contender for c in group))
        panel.x.label, panel.table = and_where(panel.x.label, group), Table(heads, entries)
        is_bar = value in ("rate", "time")
        panel.rules = peak_rules(value, group, around, "x") if is_bar else [ONE]
        for y, cell in enumerate(group):
            if cell.is_ok:
                one = point(value, y, cell, shown, 0.0 if is_bar else 1.0)
                look = {"color": role_colour(cell)} if is_bar else dot(role_colour(cell))
                panel.series.append(Series([one], look, form="bars" if is_bar else "line", across="x"))
            else:
                panel.words.append(said(cell.status, y))
        rungs = rates.rungs(group, options)
        if len(rungs) < len(group) and group[: len(rungs)] == rungs:  # what stands below them, as libraries do
            panel.rules.append(Rule(len(rungs) - 0.5, "y", look={"color": GREY, "linewidth": 0.8}))
        chart.panels.append(panel)
    same = [str(word) for axis in ("semiring", "dtype") if (word := rates.common(shown, axis))]
    if is_ambiguous and same and options.get("titles") != "panels":
        chart.notes.append(f"All over {', '.join(same)}.")
    return chart


def dots(cells: list[Cell], options: Json) -> Chart:
    """Return rows of dots, by default of time ratios, the smallest on top."""
    return bars(cells, {"value": "time_ratio", "sort": True, **options})


def _has(value: str, cell: Cell, cells: list[Cell]) -> bool:
    return cell.is_ok and math.isfinite(estimate(value, cell, cells).estimate)


def names_of(names: Iterable[str]) -> Axis:
    """Return the axis of named rows."""
    return Axis(names=list(names))


def said(text: str, y: float) -> Words:
    """Return words in the place of the mark of a row."""
    return Words(text, 0.02, y, {"color": GREY, "style": "italic"}, within="x")


def table_of_rows(group: list[Cell], cells: list[Cell], options: Json) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table beside a panel: the rate, percent of peak, and ratios."""
    columns = {unit(group): [short(cell.rate * scale("rate", group)) for cell in group]}
    if all(entry == "-" for entries in columns.values() for entry in entries):
        times = scale("time", group)
        columns = {"us" if times > 1 else "ms": [short(cell.median_ns / NS_OF_A_MS * times) for cell in group]}
    around = cells if options.get("peak", True) else group
    of_peak = [peaks.percent_of_peak(cell, around) for cell in group]
    if any(part is not None for part in of_peak):
        names = {peaks.name_of_peak(peak, short=True) for cell in group if (peak := peaks.peak_of(cell, around))}
        name = names.pop() if len(names) == 1 else "own peak"
        columns[f"of {name}"] = ["-" if part is None else percent(part) for part in of_peak]
    if options.get("table") and options["value"] != "rate":
        columns = {}  # the bars' own numbers are enough
    columns |= {head: [_noted(cell, name) for cell in group] for head, name in options.get("table", {}).items()}
    if options.get("labels") == "ladder":
        rungs = rates.rungs(group, options)
        below = {id(cell): step for cell, step in zip(rungs, rates.steps_below(rungs), strict=True)}
        columns["over step below"] = [_ratio(cell, below.get(id(cell))) for cell in group]
        if options.get("over_reference", True):
            over = [_ratio(cell, rates.reference_of(cell, group)) for cell in group]
            columns[f"over {group[0].reference.removeprefix('cpu-')}"] = over
    else:
        value = options["value"] if options["value"] in ("time_ratio", "speed_up") else "speed_up"
        has_interval = all(rates.has_interval(cell) for cell in group if cell.is_ok)
        head = ("time ratio" if value == "time_ratio" else "speed ratio") + " [95 %]" * has_interval
        found = [estimate(value, cell, group) if cell.is_ok else exact(math.nan) for cell in group]
        columns[head] = [in_words(at) if has_interval else short(at.estimate) for at in found]
    if options.get("extra_bytes"):
        columns["extra MB"] = [short(cell.facts.get("extra_bytes", math.nan) / 1e6) for cell in group]
    columns = {head: entries for head, entries in columns.items() if set(entries) != {"-"}}
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _noted(cell: Cell, name: str) -> str:
    """Return a fact of the kernel of `cell`, or a note that came with the arguments of its task."""
    noted = {**cell.arguments.get("notes", {}), **cell.facts.get("kernel", {})}
    return str(noted.get(name, "" if cell.is_ok else "-"))


def _ratio(cell: Cell, reference: Cell | None) -> str:
    if reference is None or not cell.is_ok:
        return "" if cell.is_ok else "-"
    return "1" if cell is reference else short(rates.step(cell, reference).estimate)


def in_words(at: Interval) -> str:
    """Return a value with its interval: "1.23 [1.20, 1.26]"."""
    bounds = f" [{short(at.low)}, {short(at.high)}]" if at.low < at.high else ""
    return short(at.estimate) + bounds


# ---- rows of many dots


def strip(cells: list[Cell], options: Json) -> Chart:
    """Return a row of dots for each place on ``rows``, for one value of the subject.

    ``colours`` and ``markers`` are axes that tell dots apart. With ``spread`` False medians stand alone.
    """
    value = options["value"]
    shown = [cell for cell in rates.contenders(cells) if rates.axis(cell, "backend") == options["subject"]]
    groups = rates.group(shown, lambda cell: rates.words(cell, options["rows"]))
    colours, markers = (_distinct(shown, options.get(name)) for name in ("colours", "markers"))
    panel = Panel(x=value_axis(value, shown, options, is_row=True), y=names_of(groups))
    panel.table = Table(*_summary(list(groups.values()), cells, value))
    panel.rules = [Rule(100, "x", look={"linestyle": "--"}) if value == "of_peak" else ONE]
    for y, group in enumerate(groups.values()):
        for cell in group:
            colour, marker = (
                values.index(rates.axis(cell, options[name])) if values else 0
                for name, values in (("colours", colours), ("markers", markers))
            )
            one = point(value, y + SPREAD * ((marker + 0.5) / max(len(markers), 1) - 0.5), cell, cells)
            one = one if options.get("spread", True) else one._replace(value=exact(one.value.estimate), samples=())
            if math.isfinite(one.value.estimate):
                look = dot(PALETTE[colour % len(PALETTE)], MARKERS[marker % len(MARKERS)])
                panel.series.append(Series([one], {**look, "markersize": 5.5}, across="x"))
        if not any(_has(value, cell, cells) for cell in group):
            panel.words.append(said(_why_bare(group, value), y))
    chart = Chart([panel])
    for at, name in enumerate(colours if len(colours) > 1 else []):
        chart.legend[str(name)] = dot(PALETTE[at % len(PALETTE)], "s")
    for at, name in enumerate(markers if len(markers) > 1 else []):
        chart.legend[f"{options['markers']}={name}"] = dot(INK, MARKERS[at % len(MARKERS)])
    return chart


def _summary(groups: list[list[Cell]], cells: list[Cell], value: str) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table beside a `strip`: geometric mean of the dots, and rivals or the lowest dot.

    Of rows of one dot it is the number of the dot.
    """
    unit_of, is_share = (" %", True) if value == "of_peak" else ("", False)
    shown = [[estimate(value, cell, cells).estimate for cell in group if _has(value, cell, cells)] for group in groups]
    are_single = all(len(values) <= 1 for values in shown)

    def number(of: Callable[[list[float]], float], values: list[float]) -> str:
        return short(of(values)) + unit_of if values else "-"

    head = ("of peak" if is_share else "times") if are_single else "geom. mean"
    columns = {head: [number(geometric_mean, values) for values in shown]}
    last, fill = LAST_COLUMNS.get(value, ("lowest", None))
    if fill:
        columns[last] = [fill(group, cells) for group in groups]
    elif not are_single:
        columns[last] = [number(min, values) for values in shown]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _rival_names(group: list[Cell], cells: list[Cell], rival: Callable[[Cell, list[Cell]], Cell | None]) -> str:
    found = [other for cell in group if cell.is_ok and (other := rival(cell, cells))]
    names = [f"{o.contender.removeprefix('cpu-')}{' expression' * rivals.is_expression(o)}" for o in found]
    return ", ".join(dict.fromkeys(names)) or "-"


def _worst_choice(group: list[Cell], cells: list[Cell]) -> str:
    """Return the largest regret of a product whose best backend was not taken; where it was, nothing is lost."""
    missed = [at.estimate for at, _ in regret.missed(group, cells)]
    return f"{max(missed):.2f}" if missed else "-"


# By value: the head of the last column beside a `strip`, and the function of a group and all cells that fills it.
LAST_COLUMNS: dict[str, tuple[str, Callable[[list[Cell], list[Cell]], str]]] = {
    "over_fastest": ("fastest library", lambda group, cells: _rival_names(group, cells, rivals.fastest_peer)),
    "over_other": ("fastest other", lambda group, cells: _rival_names(group, cells, rivals.fastest_other)),
    "regret": ("worst miss", _worst_choice),
}


def _distinct(cells: list[Cell], name: str | None) -> list[Any]:
    """Return the values of cells on an axis, each once: numbers by size, others as they come; [] without axis."""
    values = list(dict.fromkeys(rates.axis(cell, name) for cell in cells)) if name else []
    return sorted(values) if all(isinstance(value, int) for value in values) else values


def _why_bare(group: list[Cell], value: str) -> str:
    """Return why a row has no dot."""
    why = {"of_peak": "no peak was measured", "over_fastest": "no library has a time"}.get(value, "no other has a time")
    return next((cell.status for cell in group if not cell.is_ok), why)
