"""Findings of planted cells, as data."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.findings import FINDINGS
from harness.analysis.findings.sentences import Finding, Value
from harness.experiment import Experiment
from harness.store.store import Cell


def found(name: str, cells: list[Cell], **options: object) -> Finding | None:
    """Return what `cells` have found by one of `FINDINGS`."""
    return FINDINGS[name](cells, options)


def of_figure(experiment: Experiment, name: str, cells: list[Cell], **options: object) -> Finding | None:
    """Return what `cells` have found by the finding of a figure of an experiment."""
    (figure,) = (figure for figure in experiment.figures if figure.name == name)
    finding = figure.options["finding"]
    find = FINDINGS[finding] if isinstance(finding, str) else finding
    return find(cells, {**figure.options, **options})


def numbers(values: Sequence[Value]) -> list[float]:
    """Return the numbers of a finding, rounded."""
    return [round(value.number.estimate, 2) for value in values]
