"""Statistics of samples of time: pure functions of numbers, with no assumption of how the samples are distributed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

# With fewer samples than this the interval of a median is their range, and covers it less surely than it claims.
FEWEST_FOR_INTERVAL = 6
RESAMPLES = 600
CELLS_AT_ONCE = 4096


class Interval(NamedTuple):
    """An estimate with the ends of its interval, in the unit of the samples."""

    estimate: float
    low: float
    high: float


def exact(value: float) -> Interval:
    """Return a value that is counted or computed."""
    return Interval(value, value, value)


def median(samples: Sequence[float]) -> float:
    """Return the median; NaN of no samples."""
    return float(np.median(samples)) if len(samples) else math.nan


def quantiles(samples: Sequence[float], fractions: Sequence[float] = (0.25, 0.5, 0.75)) -> list[float]:
    """Return the value below which each of `fractions` (0 to 1) of the samples lies, interpolated linearly."""
    return [float(value) for value in np.quantile(np.asarray(samples, float), fractions)]


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the median and an interval that covers the true one with at least `confidence`, for any distribution.

    Its ends are two of the samples: the number of samples below the true median is binomial, like heads of a fair coin.
    With too few samples for `confidence` (fewer than 6 for 0.95) the ends are the extremes.

    Source
    ------
    H. A. David, H. N. Nagaraja, Order Statistics, 3rd edition, section 7.1.
    """
    count = len(samples)
    if count == 0:
        return Interval(math.nan, math.nan, math.nan)
    ordered = np.sort(np.asarray(samples, float))
    rank = _lower_rank(count, (1 - confidence) / 2)
    middle = float(ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return Interval(middle, float(ordered[rank]), float(ordered[count - 1 - rank]))


def paired_ratio(samples: Sequence[float], reference: Sequence[float]) -> Interval:
    """Return the median of ``samples[i] / reference[i]`` with its interval (see `median_interval`).

    Samples of equal index must have been taken side by side: what the machine did to both then cancels. Samples without
    a partner are left out.
    """
    count = min(len(samples), len(reference))
    ratios = np.asarray(samples[:count], float) / np.asarray(reference[:count], float)
    return median_interval(ratios.tolist())


def bootstrap_intervals(values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return the ends of the bootstrap interval of the mean of each cell, processes resampled and their parts in them.

    All cells are resampled alike, so that the means of all resamples of all cells are one matrix product. If processes
    do not differ, resampling in two stages finds ``(P - 1) / P + (G - 1) / G`` of the variance of P processes of G
    parts. Its degrees of freedom are those of Welch and Satterthwaite. Where Student's t with these is wider than the
    resamples, percentiles farther out make up for it (expanded percentiles).

    Parameters
    ----------
    values : (cells, processes, parts) array
    confidence : float

    Returns
    -------
    low, high : (cells,) arrays
        Infinite where there are not two values to resample.

    Source
    ------
    A. C. Davison, D. V. Hinkley, Bootstrap Methods and their Application, section 3.8 (two stages); T. C. Hesterberg,
    "What Teachers Should Know About the Bootstrap", The American Statistician 69 (2015), section 4.3.2.
    """
    cells, processes, parts = values.shape
    count = processes * parts
    if count < 2:
        return np.full(cells, -math.inf), np.full(cells, math.inf)
    weights = _resampling_weights(processes, parts)
    tail = _expanded_tail(processes, parts, confidence)
    flat, ends = values.reshape(cells, count), np.empty((2, cells))
    for begin in range(0, cells, CELLS_AT_ONCE):
        rows = slice(begin, begin + CELLS_AT_ONCE)
        means = np.sort(flat[rows] @ weights, axis=1)
        last = means.shape[1] - 1
        below = int(tail * last)
        share = tail * last - below
        ends[0, rows] = means[:, below] * (1 - share) + means[:, below + 1] * share
        ends[1, rows] = means[:, last - below] * (1 - share) + means[:, last - below - 1] * share
    return ends[0], ends[1]


@functools.cache
def _resampling_weights(processes: int, parts: int) -> Floats:
    """Return how much each value counts in each resample: (processes * parts, RESAMPLES), columns with sum 1."""
    rng = np.random.default_rng(1)
    process = rng.integers(processes, size=(RESAMPLES, processes, 1))
    part = rng.integers(parts, size=(RESAMPLES, processes, parts))
    drawn = (process * parts + part).reshape(RESAMPLES, -1)
    counts = np.apply_along_axis(np.bincount, 1, drawn, minlength=processes * parts)
    return np.ascontiguousarray(counts.T / (processes * parts))


def _expanded_tail(processes: int, parts: int, confidence: float) -> float:
    """Return the fraction of resamples to leave out at each end."""
    between, within = (processes - 1) / processes, (parts - 1) / parts
    share = between + within
    freedom = share**2 / (
        (between**2 / (processes - 1) if between else 0) + (within**2 / (processes * (parts - 1)) if within else 0)
    )
    usual = NormalDist().inv_cdf((1 + confidence) / 2)
    needed = student_t_quantile(confidence, max(1, int(freedom))) / math.sqrt(share)
    return 1 - NormalDist().cdf(max(usual, needed))


def benjamini_hochberg(p_values: Sequence[float] | Floats) -> Floats:
    """Return p-values to compare with the false discovery rate of all tests together. NaN is no test.

    Source
    ------
    Y. Benjamini, Y. Hochberg, "Controlling the False Discovery Rate", Journal of the Royal Statistical Society B 57
    (1995).
    """
    values = np.asarray(p_values, float)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    scaled = values[order] * len(known) / np.arange(1, len(known) + 1)
    adjusted = np.full(len(values), math.nan)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def student_t(values: Floats, freedom: int) -> Floats:
    """Return the probability that Student's t with `freedom` degrees of freedom is farther from 0 than each value.

    Source
    ------
    M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = np.arctan(np.abs(values) / math.sqrt(freedom))
    sine, cosine = np.sin(angle), np.cos(angle)
    is_odd = freedom % 2 == 1
    term = cosine if is_odd else np.ones_like(cosine)
    total = np.zeros_like(term)
    for step in range(2 if is_odd else 1, freedom, 2):
        total = total + term
        term = term * cosine**2 * step / (step + 1)
    inside = (angle + sine * total) * 2 / math.pi if is_odd else sine * total
    return np.asarray(np.clip(1 - inside, 0.0, 1.0))


@functools.cache
def student_t_quantile(confidence: float, freedom: int) -> float:
    """Return the distance from 0 within which Student's t lies with probability `confidence`."""
    low, high = 0.0, 1.0
    while student_t(np.asarray([high]), freedom)[0] > 1 - confidence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t(np.asarray([middle]), freedom)[0] > 1 - confidence else (low, middle)
    return high


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values: the mean for ratios; NaN of none."""
    return float(np.exp(np.mean(np.log(np.asarray(values, float))))) if len(values) else math.nan


@functools.lru_cache(maxsize=1024)
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
