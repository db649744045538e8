"""Charts of experiments as tests read them: by the name of their figure, with all their words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.analysis import answers
from harness.experiment import Experiment
from harness.machine import Machine
from harness.report.figures import drawing
from harness.report.figures.chart import Chart, Panel, Point
from harness.store.store import Cell
from tests._support.synthetic import MACHINE


def charts(experiment: Experiment, cells: list[Cell], machine: Machine = MACHINE) -> dict[str, Chart]:
    """Return the charts of the figures of `experiment` that have data, by their names."""
    shown = [(figure, answers.shown(figure, experiment.name, cells)) for figure in experiment.figures]
    return {f.name: drawing.chart_of(f, of, machine) for f, of in shown if drawing.is_shown(f, of)}


def words(chart: Chart) -> str:
    """Return all words of a chart."""
    return " ".join(word for text in _texts(chart.to_json()) for word in text.split())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, entry in value.items():
            if name in ("legend", "names"):
                yield from entry
            yield from () if name == "look" else _texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def points(panel: Panel, **look: Any) -> list[Point]:
    """Return the points of those series of a panel whose look has these entries."""
    return [point for series in panel.series if look.items() <= series.look.items() for point in series.points]
