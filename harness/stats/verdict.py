"""Verdicts on two contenders: faster, slower, the same, or undecided by these samples. Pure.

`compare` looks at one cell alone. `judge` looks at all cells of a sweep together, which show how much processes of the
same code differ. The reasons, and simulations, are in docs/statistics.md.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.stats import significance, statistics
from harness.stats.statistics import Floats, Interval

Samples = Sequence[Sequence[float]]

MINIMUM_EFFECT = 0.02
FALSE_DISCOVERY_RATE = 0.05
CONFIDENCE = 0.95
# Consecutive parts of the samples of one process: neighbours share disturbances of the machine, parts hardly do.
PARTS_ALONE, PARTS_OF_EACH = 10, 5
# With one process, so many parts of it stand in for processes.
STAND_INS = 4


class Verdict(enum.Enum):
    """Verdicts on a contender's own time against the reference's."""

    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Comparison:
    """Two contenders in one cell."""

    ratio: Interval  # time over the reference's, with its 95 % interval: above 1 is slower
    p_value: float  # for the hypothesis of equal times, before any correction; NaN if nothing can be tested
    pairs: int  # of samples
    processes: int  # of each contender that the pairs come from
    scatter: float = math.nan  # standard deviation of log(ratio) between processes, or parts of the only process
    freedom: int = 0  # degrees of freedom of `scatter`; 0: not known
    units: float = 0.0  # number of values with that `scatter` whose mean the ratio is


NOTHING = Comparison(Interval(math.nan, math.nan, math.nan), math.nan, 0, 0)


def compare(samples: Samples, reference: Samples) -> Comparison:
    """Return how the times `samples` compare to those of `reference`, by this cell alone.

    The ratio is the geometric mean over processes of the median of paired ratios. Its interval is a bootstrap over
    processes and parts of them. With two processes that differ it is too narrow: see `settle`.

    Parameters
    ----------
    samples, reference : sequence of sequence of float
        Time per call [ns] by process; within a process, samples of equal index were taken side by side.
    """
    return compare_all([(samples, reference)])[0]


def compare_all(cells: Iterable[tuple[Samples, Samples]]) -> list[Comparison]:
    """Return `compare` of each pair of samples and reference, at once: it takes microseconds a cell."""
    logs = [_paired_logs(samples, reference) for samples, reference in cells]
    comparisons = [NOTHING] * len(logs)
    for rows in _alike(logs, lambda processes: tuple(map(len, processes))):
        if logs[rows[0]]:
            by_process = [np.asarray([logs[row][p] for row in rows]) for p in range(len(logs[rows[0]]))]
            for row, comparison in zip(rows, _compare_alike(by_process), strict=True):
                comparisons[row] = comparison
    return comparisons


def compare_runs(after: tuple[Samples, Samples], before: tuple[Samples, Samples]) -> Comparison:
    """Return how the times of a contender changed from one run to another, both in units of a reference.

    The reference was measured interleaved with the contender in either run, so that what the machine did in between
    cancels. Samples of different runs are no pairs: their ratios to the reference are compared as two groups.

    Parameters
    ----------
    after, before : tuple
        Samples of the contender and samples of the reference, as in `compare`, of the new run and of the old one.
    """
    logs = [_paired_logs(*samples) for samples in (after, before)]
    if not all(logs):
        return NOTHING
    values, counts = zip(*(_units([np.asarray([p]) for p in processes]) for processes in logs), strict=True)
    sizes = [value.shape[1] for value in values]
    freedom = sum(sizes) - 2
    means = [float(value.mean()) for value in values]
    variance = sum(float(np.sum((v - v.mean()) ** 2)) for v in values) / freedom if freedom else math.nan
    new, old = (np.concatenate(processes) for processes in logs)
    return _alone(
        Comparison(
            Interval(math.exp(means[0] - means[1]), 0.0, math.inf),
            significance.mann_whitney(new.tolist(), old.tolist()),
            min(len(new), len(old)),
            min(counts),
            math.sqrt(variance),
            freedom,
            1 / sum(1 / size for size in sizes),
        )
    )


def settle(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons with the intervals and p-values that the sweep supports, before correction.

    Two processes of the same code tell little about how much processes differ; all cells of a sweep tell much. So each
    cell's scatter is drawn towards the typical one, the more so if cells differ little. Cells of one process are a
    group of their own. Settling again changes nothing.
    """
    settled = list(comparisons)
    for rows in _alike(comparisons, lambda c: None if not c.freedom else "one" if c.processes == 1 else "more"):
        alike = [comparisons[row] for row in rows]
        if not alike[0].freedom:
            continue
        variances = np.asarray([c.scatter**2 for c in alike])
        prior = significance.fit_prior(variances, np.asarray([c.freedom for c in alike]))
        for row, comparison in zip(rows, _moderated(alike, variances, prior), strict=True):
            settled[row] = comparison
    return settled


def judge(
    comparisons: Sequence[Comparison],
    *,
    minimum_effect: float = MINIMUM_EFFECT,
    false_discovery_rate: float = FALSE_DISCOVERY_RATE,
) -> list[Verdict]:
    """Return the verdict on each comparison, corrected over all of them together.

    SLOWER and FASTER: processes and samples both show that the ratio is not 1 (the larger p-value counts), and it is
    beyond the minimum effect. SAME: the settled interval lies within the minimum effect. UNSURE: neither.

    Parameters
    ----------
    comparisons : sequence of Comparison
        Of the whole sweep: what is judged in parts is corrected in parts.
    minimum_effect : float
        A change of the time by less than this fraction is no change.
    false_discovery_rate : float
        The fraction of FASTER and SLOWER that may be false.
    """
    settled = settle(comparisons)
    adjusted = statistics.benjamini_hochberg([comparison.p_value for comparison in settled])
    most = 1 + minimum_effect
    return [
        _verdict(comparison.ratio, most, is_different=bool(p_value <= false_discovery_rate))
        for comparison, p_value in zip(settled, adjusted, strict=True)
    ]


def _verdict(ratio: Interval, most: float, *, is_different: bool) -> Verdict:
    """Return the verdict on one settled ratio, of which ``1 / most`` to `most` counts as no change."""
    if is_different and ratio.estimate > most:
        return Verdict.SLOWER
    if is_different and ratio.estimate < 1 / most:
        return Verdict.FASTER
    return Verdict.SAME if lies_within(ratio, most) else Verdict.UNSURE


def lies_within(ratio: Interval, most: float) -> bool:
    """Return whether the interval of a ratio lies between ``1 / most`` and `most`."""
    return 1 / most < ratio.low and ratio.high < most


def _paired_logs(samples: Samples, reference: Samples) -> list[Floats]:
    """Return log(samples / reference) for the pairs of each process with pairs."""
    logs = []
    for mine, other in zip(samples, reference, strict=False):
        count = min(len(mine), len(other))
        if count:
            logs.append(np.log(np.asarray(mine[:count], float) / np.asarray(other[:count], float)))
    return logs


def _compare_alike(logs: Sequence[Floats]) -> list[Comparison]:
    """Return the comparisons of cells with equally many pairs; `logs` holds a (cells, pairs) array for each process."""
    units, processes = _units(logs)
    size = units.shape[1]
    estimates = units.mean(axis=1)
    most_parts = PARTS_ALONE if processes == 1 else PARTS_OF_EACH
    parts = min(most_parts, max(1, min(process.shape[1] for process in logs) // 2))
    values = np.stack([_medians(process, parts) for process in logs], axis=1)
    shift = estimates - values.mean(axis=(1, 2))
    low, high = (end + shift for end in statistics.bootstrap_intervals(values, CONFIDENCE))
    p_values = significance.signed_rank(np.concatenate(logs, axis=1))
    scatter = units.std(axis=1, ddof=1) if size > 1 else np.full(len(units), math.nan)
    pairs = sum(process.shape[1] for process in logs)
    ends = zip(*(np.exp(end).tolist() for end in (estimates, low, high)), strict=True)
    return [
        Comparison(Interval(*ratio), p_value, pairs, processes, deviation, size - 1, float(size))
        for ratio, p_value, deviation in zip(ends, p_values.tolist(), scatter.tolist(), strict=True)
    ]


def _units(logs: Sequence[Floats]) -> tuple[Floats, int]:
    """Return the medians of the processes, or of parts of the only one, as a (cells, medians) array; and how many.

    The second result counts processes. The only process has parts of two pairs or more, four parts at most.
    """
    if len(logs) == 1:
        return _medians(logs[0], min(STAND_INS, max(1, logs[0].shape[1] // 2))), 1
    return np.stack([np.median(process, axis=1) for process in logs], axis=1), len(logs)


def _medians(values: Floats, parts: int) -> Floats:
    """Return the medians of consecutive `parts` of each row, none of which splits a round of two samples."""
    rounds = np.linspace(0, values.shape[1] / 2, parts + 1).round().astype(int) * 2
    rounds[-1] = values.shape[1]
    return np.stack([np.median(values[:, begin:end], axis=1) for begin, end in itertools.pairwise(rounds)], axis=1)


def _alone(comparison: Comparison) -> Comparison:
    """Return a comparison with the interval that its own scatter supports."""
    half = math.inf
    if comparison.freedom:
        half = statistics.student_t_quantile(CONFIDENCE, comparison.freedom) * comparison.scatter
        half /= math.sqrt(comparison.units)
    return dataclasses.replace(comparison, ratio=_around(comparison.ratio.estimate, half))


def _moderated(comparisons: Sequence[Comparison], variances: Floats, prior: significance.Prior) -> list[Comparison]:
    """Return the comparisons with interval and p-value by variances that are drawn towards the prior."""
    own_freedom = np.asarray([comparison.freedom for comparison in comparisons])
    freedom = own_freedom + prior.freedom
    units = np.asarray([comparison.units for comparison in comparisons])
    moderated = (prior.freedom * prior.variance + own_freedom * variances) / freedom
    errors = np.sqrt(np.maximum(moderated, significance.LEAST_VARIANCE) / units)
    estimates = np.asarray([comparison.ratio.estimate for comparison in comparisons])
    distances = np.log(estimates) / errors
    halves, p_values = np.empty(len(own_freedom)), np.asarray([comparison.p_value for comparison in comparisons])
    for count in np.unique(freedom):
        rows = freedom == count
        halves[rows] = statistics.student_t_quantile(CONFIDENCE, int(count)) * errors[rows]
        p_values[rows] = np.maximum(p_values[rows], statistics.student_t(distances[rows], int(count)))
    return [
        dataclasses.replace(c, ratio=_around(c.ratio.estimate, half), p_value=p_value)
        for c, half, p_value in zip(comparisons, halves.tolist(), p_values.tolist(), strict=True)
    ]


def _around(estimate: float, half: float) -> Interval:
    """Return the interval that reaches a factor of exp(`half`) to either side of `estimate`."""
    factor = math.exp(min(half, 700.0))
    return Interval(estimate, estimate / factor, estimate * factor)


def _alike(items: Sequence[Any], key: Callable[[Any], Any]) -> list[list[int]]:
    """Return the positions of the items, those with equal keys together."""
    groups: dict[Any, list[int]] = {}
    for position, item in enumerate(items):
        groups.setdefault(key(item), []).append(position)
    return list(groups.values())
