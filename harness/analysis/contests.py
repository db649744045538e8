"""Contests: two contenders that were measured interleaved in one case, and the verdict. Pure, from stored cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from harness.analysis import rates
from harness.stats import verdict
from harness.stats.verdict import Comparison, Verdict
from harness.store.store import Cell


@dataclass
class Contest:
    """Two contenders of one case. `judge` sets the verdict and the settled comparison."""

    subject: Cell  # judged
    reference: Cell  # to which it is compared
    verdict: Verdict = Verdict.UNSURE
    settled: Comparison | None = None  # with the interval that all contests of the run support

    @classmethod
    def of_run(cls, cells: Iterable[Cell], subject: str, reference: str) -> list[Self]:
        """Return the contests of the contenders called `subject` and `reference` in the cases of one run, in order."""
        by_case = rates.group(cells, lambda cell: cell.case).values()
        labelled = ({cell.contender: cell for cell in case} for case in by_case)
        return [cls(case[subject], case[reference]) for case in labelled]

    @property
    def is_ok(self) -> bool:
        """True if both have a time."""
        return self.subject.is_ok and self.reference.is_ok

    @property
    def reason(self) -> str:
        """The contenders without a time and the reasons; empty if both have one."""
        return "; ".join(f"{c.contender}: {c.reason}" for c in (self.reference, self.subject) if not c.is_ok)

    @property
    def comparison(self) -> Comparison:
        """The subject's times against the reference's; once judged, as all contests together support it."""
        return self.settled or verdict.compare(self.subject.samples_ns, self.reference.samples_ns)


def verdicts(pairs: Sequence[tuple[Cell, Cell]]) -> list[Verdict]:
    """Return the verdict on the first cell of each pair, both measured in turns; all pairs are one sweep."""
    return verdict.judge(verdict.compare_all((cell.samples_ns, other.samples_ns) for cell, other in pairs))


def judge(contests: Sequence[Contest], *, minimum_effect: float = verdict.MINIMUM_EFFECT) -> None:
    """Set the verdicts of `contests`, corrected over all of them together."""
    timed = [contest for contest in contests if contest.is_ok]
    comparisons = [contest.comparison for contest in timed]
    verdicts = verdict.judge(comparisons, minimum_effect=minimum_effect)
    for contest, settled, outcome in zip(timed, verdict.settle(comparisons), verdicts, strict=True):
        contest.settled, contest.verdict = settled, outcome
