"""A figure of single ideas: the factor of each alone, their product, and the whole step that they make together."""

from __future__ import annotations

import math

from harness.analysis import rates
from harness.analysis.findings import switches
from harness.experiment import Json
from harness.report.figures.looks import GREY, INK, ON_THE_CPU
from harness.report.figures.rows import rows_with_table
from harness.report.figures.sheet import Sheet, table
from harness.report.figures.values import log_ticks, mark_spread, short
from harness.stats.statistics import Interval
from harness.store.store import Cell

ALL, WHOLE = "all of these, multiplied", "{}, measured"


def factors(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a row for each idea, in the order in which rungs add them; below a line their product and the whole step."""
    found = switches.ablated(cells, options)
    if found is None:
        sheet.say("Not every idea has a time with it and without it")
        return
    _, known, whole = found
    product = Interval(*(math.prod(bounds) for bounds in zip(*(factor for _, _, factor in known), strict=True)))
    last = WHOLE.format(" over ".join(options["whole"][:0:-1]))
    rows = [*((idea, factor, ON_THE_CPU) for idea, _, factor in known), (ALL, product, GREY), (last, whole, INK)]
    entries = [[rung.removeprefix("cpu-"), _in_words(factor)] for _, rung, factor in known]
    entries += [["", _in_words(product)], ["", _in_words(whole)]]
    heads = ["in the rung", "times the speed"]
    chart, beside = rows_with_table(sheet, [name for name, _, _ in rows], heads, entries)
    for y, (_, factor, hue) in enumerate(rows):
        chart.plot([1, factor.estimate], [y, y], color=hue, linewidth=1.2, alpha=0.45)
        chart.plot([factor.estimate], [y], "o", color=hue)
        mark_spread(chart, factor.estimate, y, factor, [], hue, across="x")
    chart.axvline(1, color=INK, linewidth=1.2)
    chart.axhline(len(known) - 0.5, color=GREY, linewidth=0.8)
    what = "speed with the idea / without it, log scale"
    chart.set_xlabel(f"{what}\n{rates.size(*rates.contenders(cells))}, 1 thread")
    log_ticks(chart)
    table(beside, heads, entries)


def _in_words(factor: Interval) -> str:
    return f"{short(factor.estimate)} [{short(factor.low)}, {short(factor.high)}]"
