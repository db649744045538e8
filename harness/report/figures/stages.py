"""Stacked bars of where the time of a call goes, by stage: the first call, and a warm one."""

from __future__ import annotations

from matplotlib.axes import Axes

from harness.analysis import ranks, rates
from harness.experiment import Json
from harness.report.figures.looks import GREY
from harness.report.figures.sheet import Sheet, table, table_width
from harness.report.figures.values import short
from harness.store.store import Cell

# Computing is dark; what is sent between ranks is warm, memory and processes are cool, and what is left is pale.
COLOURS = {
    "start of ranks": "#5B4A9E",
    "start of the GPU": "#7A68B8",
    "load": "#56B4E9",
    "prepare": "#9BB8D3",
    "pin": "#B5651D",
    "allocate": "#8C6D46",
    "redistribute": "#E69F00",
    "host to device": "#999933",
    "gather A": "#D55E00",
    "gather B": "#CC79A7",
    "exposed communication": "#AA4499",
    "compute": "#0072B2",
    "reduce": "#882255",
    "device to host": "#DDCC77",
    "collect": "#F0C987",
    "free": "#44AA99",
    "unpin": "#117733",
    "rest": "#D0D0D0",
}
CHART, ROW_INCHES, HEAD_INCHES = 5.6, 0.42, 0.95
OF_RANKS = (
    "A warm call begins when ranks hold the operands, and ends when they hold the result; that of dist-root begins "
    "and ends on rank 0. Handing operands and result over between caller and ranks is not counted. Redistribute: "
    "scattering from rank 0; collect: gathering there. Rest: commands to the ranks, and waiting for the slowest. Of "
    "panels that are gathered ahead only what is waited for counts. Load: libraries and the operands; prepare: "
    "kernels, which may be in the cache of compiled ones. Older results count that as computing, of the first call."
)
CALLS = {"a warm call": ranks.warm_stages, "the first call": ranks.first_stages}


def stacked(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a bar of stages for each contender, a panel for each product, warm and first, and the part computed."""
    groups = [
        (f"{title}, {call}", own, [read(cell) for cell in own])
        for title, own in rates.group(rates.contenders(cells), _product).items()
        for call, read in CALLS.items()
    ]
    groups = [group for group in groups if any(group[2])]
    if not groups:
        sheet.say("No contender has told its stages")
        return
    tables = [_table(bars) for _, _, bars in groups]
    width = max(table_width(*one) for one in tables)
    counts = [len(own) + HEAD_INCHES / ROW_INCHES for _, own, _ in groups]
    ratios = {"width_ratios": [CHART - width, width], "height_ratios": counts}
    panels = sheet.panels(len(groups), 2, height=ROW_INCHES * sum(counts), **ratios)
    for stage, colour in COLOURS.items():  # in the order in which they come to pass, whoever has them
        if any(bar.get(stage) for _, _, bars in groups for bar in bars):
            sheet.add_to_legend(stage, color=colour, marker="s", linestyle="", markersize=8)
    for (title, own, bars), entries, chart, beside in zip(groups, tables, panels[::2], panels[1::2], strict=True):
        for y, (cell, bar) in enumerate(zip(own, bars, strict=True)):
            _bar(chart, y, cell, bar)
        chart.set_yticks(range(len(own)), [cell.contender for cell in own])
        chart.set_title(title)
        chart.set_xlabel(options.get("x_label", "ms a call, mean over the ranks"))
        chart.set_xlim(left=0)
        chart.grid(visible=False, axis="y")
        chart.tick_params(axis="y", length=0)
        for panel in (chart, beside):
            panel.set_ylim(len(own) - 0.4, -0.6)
        table(beside, *entries)
    if "note" not in options:  # a figure's own is added for every kind
        sheet.notes.append(OF_RANKS)


def _product(cell: Cell) -> str:
    return rates.describe([cell])


def _bar(chart: Axes, y: int, cell: Cell, bar: dict[str, float]) -> None:
    """Draw the stages of a call side by side in the order in which they come to pass."""
    begin = 0.0
    for stage in (stage for stage in COLOURS if bar.get(stage)):
        chart.barh(y, bar[stage], left=begin, height=0.66, color=COLOURS[stage])
        begin += bar[stage]
    if not bar:
        words = "no stages: one process" if cell.is_ok else cell.status
        chart.annotate(words, (0, y), (6, 0), textcoords="offset points", va="center", color=GREY, style="italic")


def _table(bars: list[dict[str, float]]) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows: the whole time of a call, and the part of it in which ranks compute."""
    rows = []
    for bar in bars:
        total = sum(bar.values())
        rows.append([short(total), f"{short(100 * bar.get('compute', 0.0) / total, 2)} %"] if total else ["-", "-"])
    return ["ms", "computing"], rows
