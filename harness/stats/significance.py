"""Tests of hypotheses about samples of time, over many cells at once. Pure.

Their purposes, and simulations of them, are in docs/statistics.md. Every array has one cell in a row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

# Up to this many differences, signed ranks are counted; beyond it they are as good as normal.
MOST_COUNTED = 50
# Degrees of freedom that all cells together may lend to one: more make no difference.
MOST_LENT = 40
# A scatter below a millionth is the clock's resolution.
LEAST_VARIANCE = 1e-12


def signed_rank(differences: Floats) -> Floats:
    """Return for each row the two-sided p-value of the hypothesis that it is symmetric around 0.

    Zeros are left out; ties share the mean of their ranks. The distribution of the sum of ranks is counted exactly up
    to `MOST_COUNTED` differences. Ties are neglected in it, which errs towards a larger p-value.

    Parameters
    ----------
    differences : (cells, samples) array

    Returns
    -------
    (cells,) array
        1 where all differences are zero.

    Source
    ------
    F. Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1 (1945).
    """
    ranks = mean_ranks(np.where(differences == 0, -1.0, np.abs(differences)))
    zeros = np.sum(differences == 0, axis=1)
    counts = differences.shape[1] - zeros
    above = np.sum(np.where(differences > 0, ranks - zeros[:, None], 0.0), axis=1)
    smaller = np.minimum(above, counts * (counts + 1) / 2 - above)
    p_values = np.ones(len(differences))
    for count in np.unique(counts[counts > 0]):
        rows = counts == count
        p_values[rows] = 2 * _signed_rank_tail(int(count), smaller[rows])
    return np.minimum(p_values, 1.0)


def _signed_rank_tail(count: int, sums: Floats) -> Floats:
    """Return the probability that the sum of positive ranks of `count` differences is at most `sums`."""
    if count <= MOST_COUNTED:
        return np.asarray(_signed_rank_counts(count)[np.ceil(sums).astype(int)])
    mean, deviation = count * (count + 1) / 4, math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    return _normal_tail((mean - sums) / deviation)


@functools.cache
def _signed_rank_counts(count: int) -> Floats:
    """Return the probability of each sum of ranks or a smaller one: of all 2**count choices of signs, by counting."""
    ways = np.ones(1)
    for rank in range(1, count + 1):
        ways = np.concatenate([ways, np.zeros(rank)]) + np.concatenate([np.zeros(rank), ways])
    return np.cumsum(ways) / 2.0**count


def mann_whitney(samples: Sequence[float], others: Sequence[float]) -> float:
    """Return the two-sided p-value of the hypothesis that two unpaired series come from the same distribution.

    Normal approximation with correction for ties and continuity; NaN if one of them is empty, 1 if all are equal.

    Source
    ------
    H. B. Mann, D. R. Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the
    Other", Annals of Mathematical Statistics 18 (1947).
    """
    first, second = len(samples), len(others)
    total = first + second
    if not first or not second:
        return math.nan
    pooled = np.asarray([*samples, *others], float)
    above = mean_ranks(pooled[None])[0, :first].sum() - first * (first + 1) / 2
    ties = np.unique(pooled, return_counts=True)[1].astype(float)
    variance = first * second / 12 * (total + 1 - np.sum(ties**3 - ties) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    distance = max(0.0, abs(above - first * second / 2) - 0.5)
    return min(1.0, 2 * float(_normal_tail(np.asarray([distance / math.sqrt(variance)]))[0]))


def mean_ranks(values: Floats) -> Floats:
    """Return the rank of each value in its row, from 1; equal values share the mean of theirs."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, 1)
    index = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    is_new = np.ones(values.shape, bool)
    is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(is_new, index, 0), axis=1)
    is_last = np.ones(values.shape, bool)
    is_last[:, :-1] = is_new[:, 1:]
    last = np.minimum.accumulate(np.where(is_last, index, values.shape[1])[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, 1)
    return ranks


class Prior(NamedTuple):
    """The variance of a cell estimated from all cells: a typical value, with its degrees of freedom."""

    variance: float
    freedom: int


def fit_prior(variances: Floats, freedom: NDArray[np.int_]) -> Prior:
    """Return the prior that explains how diverse the sample `variances`, with their degrees of `freedom`, are.

    Sample variances that differ by chance alone are pooled; the more they differ beyond chance, the less is shared.
    The moments of log(variance) are matched. The expected ones are digamma and trigamma functions at multiples of 1/2,
    where they are sums.

    Parameters
    ----------
    variances : (cells,) array
    freedom : (cells,) array of int
        At least 1 each.

    Source
    ------
    G. K. Smyth, "Linear Models and Empirical Bayes Methods for Assessing Differential Expression in Microarray
    Experiments", Statistical Applications in Genetics and Molecular Biology 3 (2004), section 6.2 (as in limma).
    """
    floor = max(1e-5 * float(np.median(variances)), LEAST_VARIANCE)
    digamma, trigamma = _polygamma_of_halves(max(int(freedom.max()), MOST_LENT))
    logs = np.log(np.maximum(variances, floor)) - digamma[freedom] + np.log(freedom / 2)
    if len(logs) < 2:
        return Prior(float(np.exp(logs[0])), 0)
    excess = float(np.var(logs, ddof=1) - np.mean(trigamma[freedom]))
    # trigamma falls: the largest freedom that still explains the excess
    lent = int(np.sum(trigamma[1 : MOST_LENT + 1] >= excess))
    lent = min(lent, int(freedom.sum() - freedom.max()))
    typical = float(np.mean(logs)) + (digamma[lent] - math.log(lent / 2) if lent else 0.0)
    return Prior(math.exp(typical), lent)


@functools.cache
def _polygamma_of_halves(most: int) -> tuple[Floats, Floats]:
    """Return digamma(d / 2) and trigamma(d / 2) by d from 0 to `most`; index 0 is not used."""
    digamma, trigamma = np.full(most + 1, math.nan), np.full(most + 1, math.nan)
    digamma[1], trigamma[1] = -np.euler_gamma - 2 * math.log(2), math.pi**2 / 2
    digamma[2], trigamma[2] = -np.euler_gamma, math.pi**2 / 6
    for d in range(3, most + 1):
        below = d / 2 - 1
        digamma[d], trigamma[d] = digamma[d - 2] + 1 / below, trigamma[d - 2] - 1 / below**2
    return digamma, trigamma


def _normal_tail(values: Floats) -> Floats:
    """Return the probability that a standard normal variable is above each value."""
    return np.asarray([0.5 * math.erfc(value / math.sqrt(2)) for value in values])
