"""Dots for every grid of ranks: what a rank received or allocated, counted, beside the formula and the bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.analysis import rates
from harness.experiment import Json
from harness.report.figures.looks import INK, MARKERS, PALETTE
from harness.report.figures.sheet import Sheet, table, table_width
from harness.report.figures.values import log_ticks, short
from harness.store.store import Cell

ROW_INCHES, HEAD_INCHES, CHART = 0.25, 0.8, 6.2
BOUND: dict[str, Any] = {"color": INK, "linewidth": 1.3, "linestyle": "--"}
FORMULA: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 10, "markerfacecolor": "none"}
LABELS = {
    "words": ("words a rank receives / lower bound, log scale", "lower bound", "words"),
    "bytes": ("memory of the fullest rank / its part of one copy, log scale", "one copy, spread", "KiB"),
}
ENGINES = {"copy": "copy engines", "nccl": "NCCL", "staged": "by host"}
UNITS = {"words": 1.0, "bytes": 1024.0}

Count = Mapping[str, Any]


def dots(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a row for each grid, the least on top, a panel for each number of ranks; a table with the ratios."""
    what = options["counts"]
    counted = [cell for cell in rates.contenders(cells) if cell.is_ok and _is_bounded(cell, what)]
    if not counted:
        sheet.say("Nothing has been counted")
        return
    groups = {f"{_place(cell)}, {rates.size(cell)}": _by_grid(cell, what) for cell in counted}
    tables = [_table(own, what) for own in groups.values()]
    width = max(table_width(*one) for one in tables)
    counts = [len(own) + HEAD_INCHES / ROW_INCHES for own in groups.values()]
    ratios = {"width_ratios": [CHART - width, width], "height_ratios": counts}
    panels = sheet.panels(len(groups), 2, height=ROW_INCHES * sum(counts), **ratios)
    looks = _looks([count for own in groups.values() for row in own.values() for count in row])
    for (place, own), entries, chart, beside in zip(groups.items(), tables, panels[::2], panels[1::2], strict=True):
        for y, row in enumerate(own.values()):
            for count in row:
                look = looks[_variant(count)]
                bound = count[f"bound_{what}"]
                if not bound:
                    continue
                chart.plot(count[f"formula_{what}"] / bound, y, markeredgecolor=look["color"], **FORMULA)
                chart.plot(count[what] / bound, y, linestyle="", markersize=5, **look)
        chart.axvline(1, **BOUND)
        log_ticks(chart)
        chart.set_yticks(range(len(own)), list(own))
        chart.set_title(f"{place}: {_finding(own, what)}")
        chart.grid(visible=False, axis="y")
        chart.tick_params(axis="y", length=0)
        for panel in (chart, beside):
            panel.set_ylim(len(own) - 0.4, -0.6)
        table(beside, *entries)
    panels[-2].set_xlabel(LABELS[what][0])
    for name, look in looks.items():
        sheet.add_to_legend(name, linestyle="", markersize=5, **look)
    sheet.add_to_legend("formula", markeredgecolor=INK, **FORMULA)
    sheet.add_to_legend(LABELS[what][1], **BOUND)
    sheet.notes.append("Counted by the ranks, of float64. Table: of the first in the legend. Grids are pm x pn x pk.")


def _is_bounded(cell: Cell, what: str) -> bool:
    return any(count[f"bound_{what}"] for count in cell.facts.get("grids") or ())


def _place(cell: Cell) -> str:
    """Return how many ranks counted, and where if not on processors."""
    ranks = rates.plural(int(rates.axis(cell, "ranks")), "rank")
    return f"{ranks} {rates.words(cell, 'device')}" if rates.is_on_device(cell) else ranks


def _by_grid(cell: Cell, what: str) -> dict[str, list[Count]]:
    """Return what was counted of each variant by grid, the least of the first variant on top."""
    by_grid = rates.group(cell.facts["grids"], lambda count: str(count["grid"]))
    return dict(sorted(by_grid.items(), key=lambda entry: entry[1][0][what]))


def _variant(count: Count) -> str:
    """Return what counted: the strategy, its panels, and between GPUs the engine."""
    engine = ENGINES.get(count.get("transport", ""), "")
    panels = f"panels of {count['panel']}" if count["panel"] else ""
    return ", ".join(filter(None, (str(count["backend"]), engine, panels)))


def _looks(counts: list[Count]) -> dict[str, dict[str, Any]]:
    """Return a colour and a marker for each variant."""
    names = dict.fromkeys(map(_variant, counts))
    return {
        name: {"color": PALETTE[index], "marker": MARKERS[index % len(MARKERS)]} for index, name in enumerate(names)
    }


def _finding(own: dict[str, list[Count]], what: str) -> str:
    """Return how the counts compare with the formula."""
    shares = [count[what] / count[f"formula_{what}"] for row in own.values() for count in row]
    if set(shares) == {1.0}:
        return f"all {len(shares)} counts equal the formula"
    return f"{short(min(shares), 2)} to {short(max(shares), 2)} of the formula"


def _table(own: dict[str, list[Count]], what: str) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows: of the first variant the count, and over the bound."""
    rows = []
    for count, *_ in own.values():
        bound = count[f"bound_{what}"]
        rows.append([f"{count[what] / UNITS[what]:,.0f}", f"{count[what] / bound:.2f}" if bound else "-"])
    return [LABELS[what][2], "/ bound"], rows
