"""Figures of a history: the ratio of each contender to its reference, run by run, with the steps marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.analysis import rates
from harness.compare.history import Series
from harness.machine import Machine
from harness.report.figures.style import GREY, INK, Looks, Sheet, styled
from harness.stats.statistics import median

MOST_LABELS = 14
# More contenders than this are a tangle: those that changed most are drawn, and the table has all.
MOST_LINES = 10


def draw(name: str, series: Sequence[Series], machine: Machine, path: Path) -> list[Path]:
    """Draw the summaries of one experiment as ``path.svg`` and ``path.png``: a line a contender, above 0 is slower.

    Parameters
    ----------
    name : str
        Of the experiment and its preset, for the title.
    series : sequence of Series
        With their steps.
    machine : Machine
    path : Path
    """
    with styled():
        sheet = Sheet(f"{name}: run by run")
        shown = sorted(series, key=lambda own: (-len(own.steps), -_spread(own)))[:MOST_LINES]
        runs = sorted({point.run: point for own in shown for point in own.points}.values())
        place = {point.run: index for index, point in enumerate(runs)}
        (panel,) = sheet.panels(height=3.6)
        looks = Looks([own.specimen for own in shown])
        for own in shown:
            look = looks.of(own.contender)
            x, usual = [place[point.run] for point in own.points], median([p.ratio.estimate for p in own.points])
            estimates, lows, highs = (
                [100 * (bound / usual - 1) for bound in bounds]
                for bounds in zip(*(point.ratio for point in own.points), strict=True)
            )
            panel.fill_between(x, lows, highs, color=look["color"], alpha=0.15, linewidth=0)
            panel.plot(x, estimates, **look)
            sheet.add_to_legend(own.contender, **look)
            for step in own.steps:
                panel.axvline(x[step.start] - 0.5, color=look["color"], linestyle=":", linewidth=1.4)
        panel.axhline(0, color=INK, linewidth=1.0)
        panel.set_ylabel("time over the reference,\n% off its median over all runs")
        stride = -(-len(runs) // MOST_LABELS)
        panel.set_xticks(range(0, len(runs), stride))
        panel.set_xticklabels([f"{p.day[2:]}\n{p.commit[:7]}" for p in runs[::stride]], size=8, color=GREY)
        panel.set_xlim(-0.6, len(runs) - 0.4)
        references = ", ".join(sorted({own.reference for own in series}))
        sheet.notes.append(
            f"Reference: {references}. A dotted line: the level of that colour's contender changes there."
        )
        if len(series) > len(shown):
            sheet.notes.append(f"{len(shown)} of {len(series)} contenders, those that changed most.")
        cores = rates.plural(machine.cores, "core")
        return sheet.save(path, f"{machine.cpu}, {cores} · {rates.plural(len(runs), 'run')} · 95 % interval")


def _spread(own: Series) -> float:
    return max(own.logs) - min(own.logs)
