"""Figures of dense sweeps: the rate at every size of a range, and what the worst size loses."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.analysis import rates
from harness.analysis.ragged_sizes import swept as swept_sizes
from harness.experiment import Json
from harness.report.figures.looks import Looks
from harness.report.figures.sheet import Sheet
from harness.report.figures.values import estimate, scale_ticks, value_label
from harness.stats.statistics import Interval
from harness.store.store import Cell

_HOW_WORST = (
    "In words: the ragged size that loses most of its speed over a contender timed in turns with it, against the "
    f"median at whole tiles within {swept_sizes.WINDOW} of it; sizes are not timed in turns."
)
LETTERS_BESIDE = 18  # of a line beside a panel
LEAST = 0.5  # percent: less is no loss in words
_BAND = "Bands: 95 % intervals of the medians."
_BAND_OF_FEW = f"{_BAND[:-1]} within the processes that measured; others may lie outside."


def dense(sheet: Sheet, cells: list[Cell], options: Json) -> None:
    """Draw a value against every size of a sweep, a panel each from 0 on, with the largest loss in words.

    Lines join neighbours alone: what is between sizes further apart was not measured.
    """
    shown, x_name, value = rates.contenders(cells), options["x"], options.get("value", "rate")
    groups, in_turns = (rates.group(some, lambda cell: rates.axis(cell, options["panels"])) for some in (shown, cells))
    groups = dict(sorted(groups.items(), key=lambda entry: min(rates.axis(cell, x_name) for cell in entry[1])))
    looks, columns = Looks(shown), min(2, len(groups))
    rows, is_alike = -(-len(groups) // columns), len({value_label(value, group) for group in groups.values()}) == 1
    panels = sheet.panels(rows, columns, height=0.3 + 2.5 * rows, sharey=is_alike)
    for panel, (title, group) in zip(panels, groups.items(), strict=False):
        losses = []
        for name, some in rates.group(group, looks.name).items():
            done = sorted((cell for cell in some if cell.is_ok), key=lambda cell: rates.axis(cell, x_name))
            look = {**looks.of(name), "markersize": 3, "linewidth": 1.1}
            sheet.add_to_legend(name, **look)
            _joined_neighbours(
                panel, [rates.axis(c, x_name) for c in done], [estimate(value, c, cells) for c in done], look
            )
            worst = _worst(name, in_turns[title], options) if done else ""
            losses += [(name + worst, look["color"])] if worst else []
        for index, (words, colour) in enumerate(reversed(losses)):
            style: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "size": 8}
            panel.annotate(words, (0, 0), (4, 3 + 11 * index), color=colour, **style)
        panel.set_title(str(title), size=10)
        if panel in panels[::columns] or not is_alike:
            label = value_label(value, group).partition(" (")[0]
            panel.set_ylabel("\n".join(textwrap.wrap(label, LETTERS_BESIDE, break_on_hyphens=False)))
        scale_ticks(panel.yaxis, value, group)
        panel.set_xlabel(f"{x_name}, elements")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    for panel in panels:
        panel.set_ylim(bottom=0)
    for panel in panels[len(groups) :]:
        panel.set_axis_off()
    sheet.notes += [_HOW_WORST] if any(panel.texts for panel in panels) else []
    is_sure = all(rates.has_interval(cell) for cell in shown if cell.is_ok)
    sheet.notes.append(_BAND if is_sure else _BAND_OF_FEW)


def _joined_neighbours(panel: Axes, sizes: Sequence[int], values: Sequence[Interval], look: dict[str, Any]) -> None:
    """Draw values with the band of their intervals, in one piece where sizes are one apart."""
    ends = [index for index in range(1, len(sizes)) if sizes[index] > sizes[index - 1] + 1]
    for begin, end in zip([0, *ends], [*ends, len(sizes)], strict=True):
        x, own = sizes[begin:end], values[begin:end]
        panel.plot(x, [at.estimate for at in own], **look)
        panel.fill_between(
            x, [at.low for at in own], [at.high for at in own], color=look["color"], alpha=0.2, linewidth=0
        )


def _worst(name: str, group: list[Cell], options: Json) -> str:
    """Return what the size of `group` loses that loses most, and in whose units: ", over cpu-numpy -7 % at 513"."""
    own = [sweep for (who, _), sweep in swept_sizes.sweeps(group, options).items() if who == name]
    if not own:
        return ""
    n, loss = max(own[0].points, key=lambda point: point[1])
    return f", over {own[0].beside} -{loss:.0f} % at {n}" if loss >= LEAST else ""
