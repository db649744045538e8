"""Charts of coloured fields: rows by columns of two axes, and maps of a subject against the fastest library."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from harness.analysis import rates, read_rates, rivals
from harness.experiment import Json
from harness.report.figures.chart import Axis, Chart, Fields, Panel
from harness.report.figures.looks import Looks, dot
from harness.report.figures.values import LOG_SCALE, RATIOS, and_where, estimate, scale, short, value_label
from harness.store.store import Cell

NO_TIME = {"declined": "\N{EN DASH}"}  # in a field, where words of neighbours would overlap
LEAST_SPAN = math.log2(1.25)  # up to which colours reach at least: what differs by little is not to look as if by much
CLIP = 95  # percentile of the values at which colours end: one far off would make all others alike
FROM_1 = (1.0, 4.0)  # powers of two that the colours of a map reach from 1, at least and at most
FEWEST_RIVALS = 3  # contenders: of two the ratio says who is faster
IN_CACHE, NO_MEMORY = "in cache", "out of\nmemory"

Chosen = Callable[[list[Cell]], Cell | None]  # one of the cells of a field
Find = Callable[[list[Cell]], float | str]  # its number, or why it has none


def heatmap(cells: list[Cell], options: Json) -> Chart:
    """Return coloured fields, rows by columns of two axes or contenders: a rate, or a ratio to the reference."""
    value = options.get("value", "speed_up")
    shown = rates.contenders(cells)
    of_row, of_column = (_labeller(options.get(name, name)) for name in ("rows", "columns"))
    done = [cell for cell in shown if cell.is_ok]  # who has no time anywhere is named below the figure
    others = [cell for cell in done if cell.contender != cell.reference or value not in RATIOS] or done
    kept = {name: others if options.get(name) == "contender" else done for name in ("rows", "columns")}
    rows = _in_order(map(of_row, kept["rows"]))  # without the reference, which is 1 everywhere
    columns = list(dict.fromkeys(map(of_column, kept["columns"])))
    shown = [cell for cell in shown if of_row(cell) in rows and of_column(cell) in columns]
    is_ratio, factor = value not in ("rate", "of_peak", "of_read"), scale(value, shown)
    numbers = [[math.nan] * len(columns) for _ in rows]
    words = [[""] * len(columns) for _ in rows]
    for cell in shown:
        row, column = rows.index(of_row(cell)), columns.index(of_column(cell))
        number = estimate(value, cell, cells).estimate * factor if cell.is_ok else math.nan
        numbers[row][column] = math.log2(number) if is_ratio and number > 0 else number
        words[row][column] = short(number) if math.isfinite(number) else NO_TIME.get(cell.status, cell.status)
    known = np.abs([number for own in numbers for number in own if math.isfinite(number)])
    least = LEAST_SPAN if is_ratio else 1e-9
    most = max(float(np.percentile(known, CLIP)), least) if known.size else 1.0
    bar = value_label(value, shown).removesuffix(LOG_SCALE) + LOG_SCALE * is_ratio
    look = ("PuOr_r", (-most, most), bar, True) if is_ratio else ("cividis", (0.0, most), bar)
    label = and_where(options.get("x_label", str(options.get("columns", "columns"))), shown)
    x, y = Axis(label, names=list(map(str, columns))), Axis(names=list(map(str, rows)))
    told = [mark for own in words for mark in own]
    notes = [f"{mark}: {status}." for status, mark in NO_TIME.items() if mark in told]
    return Chart([Panel(x=x, y=y, fields=Fields(numbers, words, *look))], notes=notes)


def _labeller(name: str | Sequence[str]) -> Callable[[Cell], Any]:
    if isinstance(name, str):
        return lambda cell: cell.contender if name == "contender" else rates.axis(cell, name)
    return lambda cell: rates.words(cell, name)


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Return the names of rows, each once: numbers by size, others as they come."""
    known = list(dict.fromkeys(names))
    return sorted(known) if all(isinstance(name, int | float) for name in known) else known


def matrix_map(cells: list[Cell], options: Json) -> Chart:
    """Return maps over rows and columns of a matrix: the fastest library, ours, their ratio, and who is fastest.

    Percent of the rate of reading is drawn where the matrix comes from memory; elsewhere a field is hatched. Where none
    comes from memory, these two maps are left out, and with two contenders that of who is fastest.
    """
    subject, shown = options["subject"], rates.contenders(cells)
    looks, library = Looks(shown), rivals.name_of_fastest(shown)
    by_field = rates.group(shown, lambda cell: (cell.axes["rows"], cell.axes["columns"]))
    heights, widths = (sorted({field[side] for field in by_field}) for side in (0, 1))

    ours, peer = functools.partial(_contender, name=subject), _fastest_library

    def share(of: Chosen) -> Find:
        return lambda own: _percent(of(own), cells)

    def ratio(own: list[Cell]) -> float | str:
        one, other = ours(own), peer(own)
        if one is None or other is None or not (one.is_ok and other.is_ok):
            return _absence(other if one is not None and one.is_ok else one)
        return math.log2(rates.speed_up(one, other).estimate)

    names = list(dict.fromkeys(looks.name(cell) for cell in shown if cell.is_ok))

    def winner(own: list[Cell]) -> float | str:
        done = [cell for cell in own if cell.is_ok]
        fastest = min(done, key=lambda cell: cell.median_ns, default=None)
        return float(names.index(looks.name(fastest))) if fastest else _absence(own[0])

    def panel(title: str, find: Find, colours: Any, span: tuple[float, float]) -> Panel:
        found = [[find(by_field[r, c]) if (r, c) in by_field else "" for c in widths] for r in reversed(heights)]
        numbers = [[math.nan if isinstance(value, str) else value for value in own] for own in found]
        words = [[_field_words(value, span) for value in own] for own in found]
        x, y = (Axis(name, names=list(map(_power, s))) for name, s in (("columns", widths), ("rows", heights[::-1])))
        return Panel(title, x, y, fields=Fields(numbers, words, colours, span, is_hatched=True))

    by = ((library, peer), (subject, ours))
    shares = [panel(f"{name}, % of the rate of reading", share(of), "cividis", (0, 100)) for name, of in by]
    chart = Chart(columns=2)
    if any(math.isfinite(number) for one in shares if one.fields for own in one.fields.numbers for number in own):
        chart.panels = shares
    else:
        is_cached = all(cell.axes.get("level") != read_rates.MEMORY for cell in shown)
        why = "no matrix comes from memory" if is_cached else "it was not measured in turns with these products"
        chart.notes.append(f"No percentage of the rate of reading: {why}.")
    over = [value for own in by_field.values() if not isinstance(value := ratio(own), str)]
    span = min(max([*map(abs, over), FROM_1[0]]), FROM_1[1])
    chart.panels.append(panel(f"{subject} over {library}", ratio, "PuOr_r", (-span, span)))
    if len(names) >= FEWEST_RIVALS:
        hues = [looks.of(name)["color"] for name in names]
        chart.panels.append(panel("the fastest", winner, hues, (-0.5, len(names) - 0.5)))
        won = {value for own in by_field.values() if not isinstance(value := winner(own), str)}
        chart.legend = {name: dot(hues[at], "s") for at, name in enumerate(names) if at in won}
    why = f"the matrix fits a cache ({IN_CACHE}), or its contender has no time" if len(chart.panels) > 2 else "no time"
    chart.notes.append(f"Hatched: {why}.")
    chart.columns = min(2, len(chart.panels))
    return chart


def _contender(own: list[Cell], name: str) -> Cell | None:
    return next((cell for cell in own if cell.contender == name), None)


def _fastest_library(own: list[Cell]) -> Cell | None:
    """Return the fastest library of a field; one without a time if none has any."""
    peers = [cell for cell in own if rivals.is_peer(cell)]
    return max(peers, key=lambda cell: cell.rate if cell.is_ok else 0.0, default=None)


def _percent(cell: Cell | None, cells: list[Cell]) -> float | str:
    if cell is None or not cell.is_ok:
        return _absence(cell)
    found = read_rates.of_read(cell, cells)
    return found.estimate if found else IN_CACHE if cell.axes.get("level") != read_rates.MEMORY else "-"


def _absence(cell: Cell | None) -> str:
    return "-" if cell is None else NO_MEMORY if "out of memory" in cell.reason else cell.status


def _field_words(value: float | str, span: tuple[float, float]) -> str:
    """Return the words of a field of a map: why it has no number, a ratio from its power of two, a percentage."""
    if isinstance(value, str):
        return "" if value == IN_CACHE else value
    if span[0] == 0:
        return f"{value:.0f}" if value >= 1 else short(value, 1)
    return short(2.0**value) if span[0] == -span[1] else ""


def _power(size: int) -> str:
    exponent = round(math.log10(size))
    return f"$10^{exponent}$" if size == 10**exponent else f"{size:,}"
