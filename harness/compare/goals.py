"""What experiments ask of contenders, judged by stored cells of one run: `harness.experiment.Goal`. Pure.

A goal is a contest: the times of the subject, as often as is asked, against those of the other contender, which were
measured in turns with it. So SLOWER misses the goal. What is FASTER or the SAME holds it, and so does what is one of
these but not certainly which.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from harness.analysis import rates
from harness.compare.stored_runs import Side
from harness.errors import StoreError
from harness.experiment import Experiment, Goal
from harness.report import tables
from harness.stats import verdict
from harness.stats.statistics import Interval, exact
from harness.stats.verdict import Comparison, Samples, Verdict
from harness.store.store import Cell

HOLDS, MISSES, UNSURE, NO_TIME = "holds", "misses", "unsure", "no time"
_WORDS = {Verdict.FASTER: HOLDS, Verdict.SAME: HOLDS, Verdict.SLOWER: MISSES, Verdict.UNSURE: UNSURE}

Pair = tuple[Cell, Cell | None]  # a subject, and what it is held against


@dataclass
class Asked:
    """A goal in one case, or in all of its cases together.

    Attributes
    ----------
    goal : Goal
    cases : list of (Cell, Cell or None)
    seen : Interval or None
        The rate over the other's, or the fact.
    verdict : str
    """

    goal: Goal
    cases: list[Pair]
    seen: Interval | None = None
    verdict: str = NO_TIME

    @property
    def position(self) -> str:
        """The experiment and the coordinates of the case, for people."""
        subject = self.cases[0][0]
        of_all = f"geometric mean of {rates.plural(len(self.cases), 'case')}"
        return f"{subject.experiment}: {of_all if self.goal.mean else tables.place([subject])}"

    @property
    def labels(self) -> tuple[str, str]:
        """The names of the two contenders; of what differs between cases the pattern."""
        subjects, others = ({cell.contender for cell in side if cell} for side in zip(*self.cases, strict=True))
        given = self.goal.subject, self.goal.over
        return tuple(  # type: ignore[return-value]  # of two
            names.pop() if len(names) == 1 else " or ".join(_patterns(pattern))
            for names, pattern in zip((subjects, others), given, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the goal and its verdict as a JSON object."""
        subject, over = self.labels
        seen = list(self.seen) if self.seen else None
        words = {"place": self.position, "subject": subject, "over": over, "fact": self.goal.fact}
        return {**words, "asked": self.goal.asked, "seen": seen, "verdict": self.verdict}


def judged(run: Side, experiments: Iterable[Experiment], minimum_effect: float = verdict.MINIMUM_EFFECT) -> list[Asked]:
    """Return every goal of `experiments` in every case of `run` that it is asked in, all judged together.

    Raises
    ------
    StoreError
        If nothing is asked of the contenders of `run`.
    """
    by_name = {experiment.name: experiment.goals for experiment in experiments}
    cases = rates.group(run.cells.values(), lambda cell: (cell.experiment, cell.run, cell.case))
    by_experiment = rates.group(cases.items(), lambda item: item[0][0])
    asked = [
        one
        for name, of_name in by_experiment.items()
        for goal in by_name.get(name, ())
        for one in _asked(goal, [cells for _, cells in of_name], run)
    ]
    if not asked:
        raise StoreError(f"{run.name}: no experiment asks anything of these contenders", expected="a full run")
    raced = [one for one in asked if not one.goal.fact and all(_is_timed(pair) for pair in one.cases)]
    comparisons = verdict.compare_all(_samples(one) for one in raced)
    verdicts = verdict.judge(comparisons, minimum_effect=minimum_effect)
    for one, comparison, outcome in zip(raced, verdict.settle(comparisons), verdicts, strict=True):
        is_no_slower = comparison.ratio.high < 1 + minimum_effect
        one.seen, one.verdict = _rate(one.goal.asked, comparison), HOLDS if is_no_slower else _WORDS[outcome]
    for one in asked:
        if one.goal.fact and (value := _fact(one)) is not None:
            one.seen, one.verdict = exact(value), HOLDS if value <= one.goal.asked else MISSES
    return asked


def table(asked: Sequence[Asked]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return heads and rows for the terminal."""
    heads = ("case", "contender", "over", "asked", "seen", "verdict")
    rows = []
    for one in asked:
        limit = f"{'at most ' if one.goal.fact else ''}{one.goal.asked:.3g}"
        rows.append((one.position, *one.labels, limit, tables.number(one.seen), one.verdict))
    return heads, rows


def counted(asked: Sequence[Asked]) -> str:
    """Return how many goals there are of each verdict, as a line."""
    counts = Counter(one.verdict for one in asked)
    words = ", ".join(f"{counts[word]} {word}" for word in (HOLDS, MISSES, UNSURE, NO_TIME))
    return f"{rates.plural(len(asked), 'goal')}, judged together: {words}"


def _asked(goal: Goal, cases: Iterable[Sequence[Cell]], run: Side) -> Iterator[Asked]:
    """Yield the goal in each of the cases that have its contenders, or in all of them together."""
    pairs = [pair for cells in cases if _is_meant(goal, cells[0], run) for pair in _pairs(goal, cells)]
    if goal.mean:
        by_machine = rates.group(filter(_is_timed, pairs), lambda pair: pair[0].machine)
        yield from (Asked(goal, of_one) for of_one in by_machine.values())
    else:
        yield from (Asked(goal, [pair]) for pair in pairs)


def _is_meant(goal: Goal, cell: Cell, run: Side) -> bool:
    if goal.simd and (cell.machine not in run.machines or goal.simd not in run.machines[cell.machine].simd):
        return False
    return bool(rates.select([cell], goal.where))


def _pairs(goal: Goal, cells: Sequence[Cell]) -> Iterator[Pair]:
    """Yield the fastest subject with the fastest of the others; nothing if the case has no such contenders."""
    subject, other = (_fastest(cells, _patterns(labels)) for labels in (goal.subject, goal.over))
    if subject and (other or not goal.over):
        yield subject, other


def _patterns(labels: str | tuple[str, ...]) -> tuple[str, ...]:
    return (labels,) if isinstance(labels, str) else labels


def _fastest(cells: Sequence[Cell], patterns: tuple[str, ...]) -> Cell | None:
    found = [cell for cell in cells if any(fnmatchcase(cell.contender, pattern) for pattern in patterns)]
    return min(found, key=lambda cell: cell.median_ns if cell.is_ok else math.inf, default=None)


def _is_timed(pair: Pair) -> bool:
    return all(cell is None or cell.is_ok for cell in pair)


def _samples(one: Asked) -> tuple[Samples, Samples]:
    """Return the times of the subject, as often as is asked, and those of the other; of several cases the means."""
    factor = one.goal.asked
    subjects, others = [], []
    for subject, other in one.cases:
        assert other is not None
        per_thread = subject.threads / other.threads if one.goal.per_thread else 1.0
        subjects.append([[factor * per_thread * ns for ns in process] for process in subject.samples_ns])
        others.append(other.samples_ns)
    return _means(subjects), _means(others)


def _means(cases: Sequence[Samples]) -> Samples:
    """Return the geometric means over cases of samples of equal process and index; few samples of a case come again."""
    return [
        np.exp(
            np.mean([np.resize(np.log(process), max(map(len, processes))) for process in processes], axis=0)
        ).tolist()
        for processes in zip(*cases, strict=False)
    ]


def _rate(asked: float, comparison: Comparison) -> Interval:
    estimate, low, high = comparison.ratio
    return Interval(asked / estimate, asked / high, asked / low if low else math.inf)


def _fact(one: Asked) -> float | None:
    """Return the fact of the subject, over that of the other if there is one; None if it was not recorded."""
    values = []
    for cell in one.cases[0]:
        value = cell.facts.get(one.goal.fact) if cell else 1.0
        values.append(sum(value.values()) if isinstance(value, dict) else value)
    subject, other = values
    return float(subject) / float(other) if subject is not None and other else None
