"""Statistics of samples of time: pure functions of numbers, with no assumption of how the samples are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """An estimate with the ends of its interval, in the unit of the samples."""

    estimate: float
    low: float
    high: float


def median(samples: Sequence[float]) -> float:
    """Return the median; NaN of no samples."""
    return float(np.median(samples)) if len(samples) else math.nan


def quantiles(samples: Sequence[float], fractions: Sequence[float] = (0.25, 0.5, 0.75)) -> list[float]:
    """Return the value below which each of `fractions` (0 to 1) of the samples lies, interpolated linearly."""
    return [float(value) for value in np.quantile(np.asarray(samples, float), fractions)]


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the median and an interval that covers the true one with at least `confidence`, for any distribution.

    Its ends are two of the samples: as many samples lie below the true median as heads fall in as many throws.
    So few samples that even the extremes do not reach `confidence` (fewer than 6 for 0.95) give the extremes.

    Source
    ------
    H. A. David, H. N. Nagaraja, Order Statistics, 3rd edition, section 7.1.
    """
    count = len(samples)
    if count == 0:
        return Interval(math.nan, math.nan, math.nan)
    ordered = np.sort(np.asarray(samples, float))
    rank = _lower_rank(count, (1 - confidence) / 2)
    return Interval(median(samples), float(ordered[rank]), float(ordered[count - 1 - rank]))


def paired_ratio(samples: Sequence[float], reference: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the median of ``samples[i] / reference[i]`` with its interval (see `median_interval`).

    Samples of equal index must have been taken side by side: what the machine did to both then cancels. What one of the
    two has more is left out.
    """
    count = min(len(samples), len(reference))
    ratios = np.asarray(samples[:count], float) / np.asarray(reference[:count], float)
    return median_interval(ratios.tolist(), confidence)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values: the mean for ratios; NaN of none."""
    return float(np.exp(np.mean(np.log(np.asarray(values, float))))) if len(values) else math.nan


def _lower_rank(count: int, tail: float) -> int:
    """Return the largest rank (from 0) with P(Binomial(count, 1/2) <= rank) <= tail, or 0."""
    log_total = count * math.log(2)
    cumulative, rank = 0.0, -1
    while rank + 1 < (count + 1) // 2:
        below = rank + 1
        log_ways = math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1)
        cumulative += math.exp(log_ways - log_total)
        if cumulative > tail:
            break
        rank = below
    return max(rank, 0)
