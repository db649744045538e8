"""Figures of dense sweeps: the rate at every size of a range, and what the worst size loses."""

from __future__ import annotations

from typing import Any

from matplotlib.ticker import MaxNLocator

from harness.analysis import rates as analysis_rates
from harness.analysis.ragged_sizes import swept as swept_sizes
from harness.experiment import Json
from harness.report.figures.looks import Looks
from harness.report.figures.sheet import Sheet
from harness.report.figures.values import scale_ticks, unit
from harness.store.store import Cell

_HOW_WORST = (
    "In words: the ragged size that loses most of its speed over a contender timed in turns with it, against the "
    f"median at whole tiles within {swept_sizes.WINDOW} of it; sizes are not timed in turns."
)
LEAST = 0.5  # percent: less is no loss in words
_BAND = "Bands: 95 % intervals of the medians."
_BAND_OF_FEW = f"{_BAND[:-1]} within the processes that measured; others may lie outside."


def dense(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw rates against every size of a sweep, a panel each, with the largest loss in words."""
    shown, x_name = analysis_rates.contenders(cells), options["x"]
    groups, in_turns = (
        analysis_rates.group(some, lambda cell: analysis_rates.axis(cell, options["panels"])) for some in (shown, cells)
    )
    looks = Looks(shown)
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    panels = sheet.panels(rows, columns, height=0.3 + 2.5 * rows)
    for panel, (title, group) in zip(panels, groups.items(), strict=False):
        panel.margins(y=0.12)
        series = analysis_rates.group(group, looks.name)
        for index, (name, some) in enumerate(series.items()):
            done = sorted((cell for cell in some if cell.is_ok), key=lambda cell: analysis_rates.axis(cell, x_name))
            look = {**looks.of(name), "markersize": 3, "linewidth": 1.1}
            sheet.add_to_legend(name, **look)
            if done:
                x, rates = (
                    [analysis_rates.axis(cell, x_name) for cell in done],
                    [analysis_rates.rate_interval(cell) for cell in done],
                )
                panel.plot(x, [rate.estimate for rate in rates], **look)
                panel.fill_between(
                    x, [r.low for r in rates], [r.high for r in rates], color=look["color"], alpha=0.2, linewidth=0
                )
                words = name + _worst(name, in_turns[title], options)
                style: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "size": 8}
                panel.annotate(words, (0, 0), (4, 3 + 11 * (len(series) - 1 - index)), color=look["color"], **style)
        low, high = panel.get_ylim()
        panel.set_yticks([tick for tick in panel.get_yticks() if low <= tick <= high])
        panel.set_ylim(low - 0.11 * len(series) * (high - low), high)  # room for the words, without ticks
        panel.set_title(str(title), size=10)
        panel.set_ylabel(unit(group))
        scale_ticks(panel.yaxis, "rate", group)
        panel.set_xlabel(f"{x_name}, elements")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    for panel in panels[len(groups) :]:
        panel.set_axis_off()
    sheet.notes.append("Rate axes do not start at 0, so that dips are seen.")
    sheet.notes.append(_HOW_WORST)
    is_sure = all(analysis_rates.has_interval(cell) for cell in shown if cell.is_ok)
    sheet.notes.append(_BAND if is_sure else _BAND_OF_FEW)


def _worst(name: str, group: list[Cell], options: Json) -> str:
    """Return what the size of `group` loses that loses most, and in whose units: ", over cpu-numpy -7 % at 513"."""
    own = [sweep for (who, _), sweep in swept_sizes.sweeps(group, options).items() if who == name]
    if not own:
        return ""
    n, loss = max(own[0].points, key=lambda point: point[1])
    return f", over {own[0].beside} -{loss:.0f} % at {n}" if loss >= LEAST else ""
