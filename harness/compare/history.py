"""Ratios of every stored run as series over time, with their change points. From stored results alone.

A series is one contender at one place of an experiment, run by run: its time over that of the interleaved reference.
The summary of a contender is the geometric mean over the places that all its runs have.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from harness.analysis import rates
from harness.experiment import content_hash
from harness.report import tables
from harness.stats import changepoints, statistics
from harness.stats.changepoints import LevelChange
from harness.stats.statistics import Interval
from harness.store.presets import stores_of
from harness.store.store import Cell

MINIMUM_CHANGE = 0.02
FALSE_DISCOVERY_RATE = 0.05


class HistoryPoint(NamedTuple):
    """One run of one series: its name, day, commit, machine's fingerprint, and time over the reference's."""

    run: str
    day: str
    commit: str
    machine: str
    ratio: Interval


@dataclass
class Series:
    """The ratios of one contender at one place, run by run."""

    experiment: str
    preset: str
    where: str  # the cell, for people; of a summary, the number of cells
    contender: str
    reference: str
    specimen: Cell  # one of its cells, without samples: for colours and markers of figures
    points: list[HistoryPoint] = field(default_factory=list)  # in the order of the runs
    steps: list[LevelChange] = field(default_factory=list)  # changes of the level of the logarithm of the ratio

    @property
    def logs(self) -> list[float]:
        """The logarithms of the ratios."""
        return [math.log(point.ratio.estimate) for point in self.points]

    @property
    def widths(self) -> list[float]:
        """The widths of the intervals of `logs`."""
        return [math.log(point.ratio.high / point.ratio.low) for point in self.points]

    def is_other_machine(self, step: LevelChange) -> bool:
        """Return whether the machine (processor, memory, versions of packages) changed with the level."""
        return self.points[step.start - 1].machine != self.points[step.start].machine


def collect(results_root: Path, slug: str) -> list[Series]:
    """Return the series of all cells that the machine called `slug` has recorded, without steps.

    Holds the samples of one run of one experiment at a time.
    """
    series: dict[str, Series] = {}
    for store in stores_of(results_root, slug):
        for experiment in store.experiments():
            for _, cells in groupby(store.every_cell(experiment), key=lambda cell: cell.run):
                for cell, point in _points(list(cells)):
                    _series(series, cell).points.append(point)
    return list(series.values())


def _points(cells: Sequence[Cell]) -> Iterator[tuple[Cell, HistoryPoint]]:
    """Yield the points of one run: of every contender that has a time and a reference with one."""
    for case in rates.group(cells, lambda cell: cell.case).values():
        for cell in case:
            reference = rates.reference_of(cell, case)
            if cell.is_ok and reference is not None and reference is not cell:
                ratio = rates.time_ratio(cell, reference)
                commit = str(cell.record.get("commit", ""))
                yield cell, HistoryPoint(cell.run, cell.time[:10], commit, cell.machine, ratio)


def _series(known: dict[str, Series], cell: Cell) -> Series:
    """Return the series of `cell` from those `known`; add it if `cell` is its first."""
    key = content_hash([cell.experiment, cell.preset, cell.axes, cell.contender, cell.arguments, cell.reference])
    if key not in known:
        specimen = dataclasses.replace(cell, samples_ns=[], record={})
        where = tables.place([cell])
        known[key] = Series(cell.experiment, cell.preset, where, cell.contender, cell.reference, specimen)
    return known[key]


def summaries(series: Iterable[Series]) -> list[Series]:
    """Return, for each experiment, preset and contender, the geometric mean of its ratios, run by run.

    Means are taken over the places that all its runs have, or that most have: means over other places do not compare.
    If these have no run in common, as after a change of the sizes, over those of most places, or else of the last run.
    """
    totals = []
    groups = rates.group(series, lambda one: (one.experiment, one.preset, one.contender, one.reference))
    for members in groups.values():
        most = max(len(one.points) for one in members)
        whole = [one for one in members if len(one.points) == most]
        if not set.intersection(*map(_runs, whole)):
            alike = rates.group(whole, lambda one: frozenset(_runs(one)))
            whole = max(alike.items(), key=lambda entry: (len(entry[1]), max(entry[0])))[1]
        by_run = rates.group((point for one in whole for point in one.points), lambda point: point.run)
        points = [_mean(points) for points in by_run.values() if len(points) == len(whole)]
        where = f"geometric mean of {rates.plural(len(whole), 'cell')}"
        totals.append(dataclasses.replace(whole[0], where=where, points=sorted(points), steps=[]))
    return totals


def _runs(series: Series) -> set[str]:
    return {point.run for point in series.points}


def _mean(points: Sequence[HistoryPoint]) -> HistoryPoint:
    """Return the point of a run whose ratio is the geometric mean; intervals of independent cells add in squares."""
    estimate = statistics.geometric_mean([point.ratio.estimate for point in points])
    half_widths = [math.log(point.ratio.high / point.ratio.low) / 2 for point in points]
    factor = math.exp(math.sqrt(sum(half**2 for half in half_widths)) / len(points))
    return points[0]._replace(ratio=Interval(estimate, estimate / factor, estimate * factor))


def find_steps(series: Sequence[Series]) -> None:
    """Set the steps of all `series`, corrected for their number: noise makes some 20 steps in 500 series.

    Only series whose largest change passes the false discovery rate are searched.
    """
    largest = [changepoints.largest_change(one.logs, one.widths) for one in series]
    p_values = [change.p_value if change else math.nan for change in largest]
    for one, p_value in zip(series, statistics.benjamini_hochberg(p_values), strict=True):
        one.steps = []
        if p_value <= FALSE_DISCOVERY_RATE:
            one.steps = changepoints.steps(one.logs, one.widths, minimum=math.log1p(MINIMUM_CHANGE))
