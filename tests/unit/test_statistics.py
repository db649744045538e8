from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from harness import statistics


def samples(count: int, seed: int = 0) -> list[float]:
    return np.random.default_rng(seed).lognormal(size=count).tolist()


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 10, 25, 100, 1001])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_interval_of_the_median_has_the_ranks_of_the_binomial_distribution(count, confidence):
    drawn = sorted(samples(count))
    interval = statistics.median_interval(drawn, confidence)
    assert interval.estimate == statistics.median(drawn) == np.median(drawn)
    coin = scipy.stats.binom(count, 0.5)
    tail = (1 - confidence) / 2
    low = drawn.index(interval.low)
    assert drawn[count - 1 - low] == interval.high
    assert low == 0 or coin.cdf(low) <= tail
    assert coin.cdf(low + 1) > tail or low == (count - 1) // 2


def test_the_interval_agrees_with_scipys_quantile_test():
    drawn = samples(50)
    result = scipy.stats.quantile_test(drawn, p=0.5).confidence_interval(0.95)
    interval = statistics.median_interval(drawn)
    assert (interval.low, interval.high) == pytest.approx((result.low, result.high))


def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(1)
    inside = [
        interval.low <= 1.0 <= interval.high
        for interval in (statistics.median_interval(rng.lognormal(size=12).tolist()) for _ in range(1000))
    ]
    assert np.mean(inside) >= 0.94


def test_quantiles_are_numpys():
    drawn = samples(33)
    assert statistics.quantiles(drawn, (0.1, 0.5, 0.9)) == pytest.approx(np.quantile(drawn, (0.1, 0.5, 0.9)).tolist())
    assert statistics.quantiles(drawn)[1] == statistics.median(drawn)


def test_a_paired_ratio_cancels_what_happened_to_both():
    slow = [100.0, 900.0, 300.0, 500.0, 200.0, 700.0]
    ratio = statistics.paired_ratio([2 * s for s in slow], slow)
    assert ratio == (2.0, 2.0, 2.0)


def test_a_paired_ratio_is_over_the_common_indices():
    assert statistics.paired_ratio([2.0, 4.0, 8.0], [1.0, 1.0]).estimate == 3.0


def test_the_geometric_mean_is_scipys():
    drawn = samples(20)
    assert statistics.geometric_mean(drawn) == pytest.approx(scipy.stats.gmean(drawn))


def test_of_nothing_there_is_nothing():
    assert math.isnan(statistics.median([]))
    assert math.isnan(statistics.geometric_mean([]))
    assert all(math.isnan(value) for value in statistics.paired_ratio([], [1.0]))
