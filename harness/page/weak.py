"""Where it is slow: every case in which a library beats the best of ours, and every large loss at a ragged size.

Beaten is who takes longer for the same work. A sparse library does less of it, and where ours computes over another
semiring than a library can, the library does other work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness import registry
from harness.analysis import ragged_sizes, rates
from harness.experiment import Experiment
from harness.page.recorded import Recorded, subjects_of
from harness.report import tables
from harness.store.store import Cell

# A loss at a size that fits no tile is told from so many percent on.
LEAST_LOSS = 10
# A size in words: "n=96", "2000 x 1 x 2000".
_SIZE = re.compile(r"=\d|\d x \d")
# What is known of a product only if its matrix is mostly empty, and if some of its contenders skip what is.
DENSITY = "density"
# The library that stands among the rungs; all others lie in folders of their own.
RUNG_OF_LIBRARY = "cpu-numpy"


class Weak(NamedTuple):
    """A place where ours is slow."""

    percent: float  # of the speed of the other that is missing
    kind: str  # "beaten" or "ragged size"
    sure: bool  # the interval of the ratio lies below 1; a loss has no interval
    contender: str
    against: str
    case: str
    machine: str
    experiment: str

    @property
    def name(self) -> str:
        """The place in a line of its own; what tells it from others is first, since a phone cuts the rest."""
        words = self.case.split(", ")
        sizes = [word for word in words if _SIZE.search(word)]
        what = ", ".join([*sizes, *(word for word in words if word not in sizes)])
        return f"{self.experiment}, {what}: {self.contender} against {self.against}, {self.machine}"


def places(machines: Sequence[Recorded], experiments: Sequence[Experiment]) -> list[Weak]:
    """Return every such place, the worst first."""
    found = [place for recorded in machines for own in experiments for place in _places(recorded, own)]
    return sorted(found, key=lambda place: -place.percent)


def _places(recorded: Recorded, experiment: Experiment) -> Iterator[Weak]:
    cells = [cell for cell in recorded.cells if cell.experiment == experiment.name]
    dense = (cell for cell in cells if DENSITY not in cell.facts)
    for case in rates.group(dense, lambda cell: (cell.run, cell.case, _semiring(cell))).values():
        yield from _beaten(recorded, experiment, case)
    for figure in experiment.figures:
        if figure.options.get("finding") != "losses":
            continue
        x, found = figure.options.get("x", "n"), ragged_sizes.beyond_noise(cells, figure.options)
        for (contender, row), points in found.items():
            for n, loss in points:
                if contender == figure.options["subject"] and loss > LEAST_LOSS:
                    where = ", ".join(filter(None, [row, f"{x}={n}"]))
                    place = (contender, "whole tiles nearby", where, recorded.name, experiment.name)
                    yield Weak(loss, "ragged size", False, *place)


def _semiring(cell: Cell) -> str:
    """Return the semiring that a contender computes over, which need not be that of its case."""
    problem = cell.facts.get("problem") or {}
    return str(problem.get("semiring") or rates.axis(cell, "semiring"))


def _beaten(recorded: Recorded, experiment: Experiment, case: list[Cell]) -> Iterator[Weak]:
    """Yield the case if the fastest of the others is faster than the fastest of ours."""
    ours: list[Cell] = []
    others: list[Cell] = []
    for cell in rates.contenders(case):
        if cell.is_ok:
            (ours if is_ours(str(rates.axis(cell, "backend")), experiment) else others).append(cell)
    if ours and others:
        best, rival = (
            min(some, key=lambda cell: cell.median_ns / cell.facts.get("operations", 1)) for some in (ours, others)
        )
        ratio = rates.speed_up(best, rival)
        if ratio.estimate < 1:
            where = ", ".join([tables.place([best]), rates.runs_on([best])])
            place = (best.contender, rival.contender, where, recorded.name, experiment.name)
            yield Weak(100 * (1 - ratio.estimate), "beaten", ratio.high < 1, *place)


def is_ours(backend: str, experiment: Experiment) -> bool:
    """Return whether a backend is a kernel of this project: a subject, or one that calls no library."""
    entries = {entry.name: entry.backend for entry in registry.discover()}
    known = entries.get(backend)
    is_kernel = known is not None and backend != RUNG_OF_LIBRARY and ".libraries." not in type(known).__module__
    return is_kernel or backend in subjects_of(experiment)
