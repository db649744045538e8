"""Findings of a calibration: the rate of false verdicts, the planted changes found, and the least detectable change.

Pure, from the cells that `harness.compare.calibration` measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.analysis.contests import Contest
from harness.stats import verdict
from harness.stats.statistics import Interval, median, quantiles
from harness.stats.verdict import Comparison, Verdict
from harness.store.journal import Journal

# The folder of the records, beside those of the presets, their experiment, and the file of the summaries.
CALIBRATION, FILE = "calibration", "calibration.jsonl"
OWN, REFERENCE = "again", "once"
NUMBERS = ("count", *(v.value for v in Verdict), "interval +-")
# Normal quantiles: what 95 % of all cells exceed; half of a 95 % interval.
POWER, TWO_SIDED = 1.645, 1.96


class Trial(Contest):
    """One cell of a calibration: the slower contender, or the second, judged against the other."""

    @property
    def backend(self) -> str:
        """The backend that both compute with."""
        return str(self.subject.arguments["backend"])

    @property
    def problem(self) -> str:
        """The product that both compute."""
        return "{semiring} {dtype} n={n}".format(**self.subject.axes)

    @property
    def slowdown(self) -> float:
        """The fraction by which the one contender really is slower; 0: A/A."""
        return float(self.subject.axes["slowdown"])


@dataclass(frozen=True)
class Findings:
    """Results of a calibration. A/A cells compare a backend with itself; planted cells really are slower."""

    cells: int  # A/A cells
    false: int  # A/A cells called FASTER or SLOWER
    false_rate: Interval  # `false` over `cells`, with its 95 % interval
    same: int  # A/A cells called SAME
    planted: int
    found: int  # planted cells called SLOWER, judged together
    found_alone: int  # planted cells called SLOWER if each were the only change among the A/A cells
    slowdown: float  # of the planted cells, a fraction
    # Smallest change that is found in 95 % of the cases, in the median cell and in nine cells of ten. It holds for a
    # single cell, without correction for others.
    detectable: tuple[float, float]
    scatter: float  # standard deviation of the ratio from process to process, in the median cell
    failed: int  # cells without a time

    def to_json(self) -> dict[str, Any]:
        """Return the summary that is recorded."""
        return {"kind": "calibration", **self.__dict__, "false_rate": list(self.false_rate)}


def findings(trials: Sequence[Trial]) -> Findings:
    """Return the findings of `trials`; A/A cells are judged together, and so are planted ones."""
    timed = [done for done in trials if done.is_ok]
    pairs = [done.comparison for done in timed]
    null = [pair for pair, done in zip(pairs, timed, strict=True) if not done.slowdown]
    planted = [pair for pair, done in zip(pairs, timed, strict=True) if done.slowdown]
    verdicts, planted_verdicts = verdict.judge(null), verdict.judge(planted)
    false = sum(v in (Verdict.FASTER, Verdict.SLOWER) for v in verdicts)
    alone = sum(verdict.judge([pair, *null])[0] is Verdict.SLOWER for pair in planted)
    changes = [detectable_change(pair) for pair in verdict.settle(null or planted)]
    return Findings(
        cells=len(null),
        false=false,
        false_rate=proportion(false, len(null)),
        same=verdicts.count(Verdict.SAME),
        planted=len(planted),
        found=planted_verdicts.count(Verdict.SLOWER),
        found_alone=alone,
        slowdown=max((done.slowdown for done in timed), default=0.0),
        detectable=(median(changes), quantiles(changes, (0.9,))[0]) if changes else (math.nan, math.nan),
        scatter=median([pair.scatter for pair in null or planted]),
        failed=len(trials) - len(timed),
    )


def detectable_change(settled: Comparison, minimum_effect: float = verdict.MINIMUM_EFFECT) -> float:
    """Return the smallest change that is found in 95 % of the cases in a cell with this interval: 0.03 is 3 %.

    The estimate must clear half the interval and the minimum effect. In 5 % of the cases it lies at least 1.645
    standard errors below the truth.
    """
    half = math.log(settled.ratio.high / settled.ratio.estimate)
    return math.expm1(max(half, math.log1p(minimum_effect)) + POWER / TWO_SIDED * half)


def proportion(count: int, of: int) -> Interval:
    """Return a proportion with its 95 % interval; NaN of nothing.

    Source
    ------
    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the American
    Statistical Association 22 (1927).
    """
    if not of:
        return Interval(math.nan, math.nan, math.nan)
    share, z = count / of, TWO_SIDED
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def sentences(findings: Findings) -> list[str]:
    """Return the findings in words, a line each."""
    rate = [100 * share for share in findings.false_rate]
    false = f"{findings.false} of {findings.cells} cells called faster or slower: {rate[0]:.1f} %"
    seen = f"{findings.found} of {findings.planted} cells that are {100 * findings.slowdown:g} % slower found"
    usual, most = (f"{100 * change:.1f} %" for change in findings.detectable)
    lines = [
        ("A/A", f"{false} [{rate[1]:.1f}, {rate[2]:.1f}]; {findings.same} called the same", findings.cells),
        (
            "planted",
            f"{seen}; {findings.found_alone} if each were the only change among the A/A cells",
            findings.planted,
        ),
        ("detectable", f"{usual} in the median cell, {most} in nine cells of ten", findings.cells + findings.planted),
        ("scatter", f"{100 * findings.scatter:.2f} % from process to process, in the median cell", 1),
    ]
    return [f"{head:<12}{text}" for head, text, count in lines if count]


def table(trials: Sequence[Trial]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return heads and rows for the terminal: verdicts and precision by backend and problem, A/A and planted apart."""
    timed = [done for done in trials if done.is_ok]
    groups = dict.fromkeys((done.slowdown, done.backend, done.problem) for done in timed)
    rows = []
    for slowdown in dict.fromkeys(slowdown for slowdown, _, _ in groups):
        alike = [done for done in timed if done.slowdown == slowdown]
        pairs = verdict.settle([done.comparison for done in alike])
        judged = list(zip(alike, pairs, verdict.judge(pairs), strict=True))
        for group in (group for group in groups if group[0] == slowdown):
            judgements = [(pair, v) for done, pair, v in judged if (done.slowdown, done.backend, done.problem) == group]
            half = median([(pair.ratio.high / pair.ratio.estimate - 1) for pair, _ in judgements])
            counts = [sum(v is outcome for _, v in judgements) for outcome in Verdict]
            planted = f"{100 * slowdown:g} % slower" if slowdown else "A/A"
            rows.append((planted, *group[1:], str(len(judgements)), *map(str, counts), f"{100 * half:.2f} %"))
    return ("cells", "backend", "problem", *NUMBERS), rows


def latest(folder: Path) -> dict[str, Any] | None:
    """Return the last summary with A/A cells that was recorded in the results `folder` of a machine, or None."""
    summary = None
    for line in Journal(folder / FILE).lines(containing=b'"kind":"calibration"'):
        if line.record["cells"]:
            summary = line.record
    return summary
