from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from harness.stats import statistics


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


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 12, 41])
def test_students_t_is_scipys(freedom):
    values = np.asarray([0.0, 0.1, 1.0, 2.5, 9.0])
    assert statistics.student_t(values, freedom) == pytest.approx(2 * scipy.stats.t.sf(values, freedom), abs=1e-13)
    assert statistics.student_t(-values, freedom) == pytest.approx(statistics.student_t(values, freedom))
    for confidence in (0.5, 0.95, 0.999):
        expected = scipy.stats.t.ppf((1 + confidence) / 2, freedom)
        assert statistics.student_t_quantile(confidence, freedom) == pytest.approx(expected)


def test_the_correction_for_many_cells_is_scipys():
    drawn = np.random.default_rng(2).random(40) ** 3
    assert statistics.benjamini_hochberg(drawn) == pytest.approx(scipy.stats.false_discovery_control(drawn))


def test_what_cannot_be_tested_does_not_count_in_the_correction():
    adjusted = statistics.benjamini_hochberg([0.01, math.nan, 0.04])
    assert adjusted[[0, 2]].tolist() == pytest.approx([0.02, 0.04])
    assert math.isnan(adjusted[1])
    assert len(statistics.benjamini_hochberg([])) == 0


def test_the_bootstrap_of_one_process_is_scipys():
    drawn = np.random.default_rng(4).normal(size=40)
    low, high = statistics.bootstrap_intervals(drawn[None, None, :])
    confidence = 1 - 2 * statistics._expanded_tail(1, 40, 0.95)
    expected = scipy.stats.bootstrap(
        (drawn,), np.mean, confidence_level=confidence, method="percentile", n_resamples=5000, rng=1
    ).confidence_interval
    assert low[0] == pytest.approx(expected.low, abs=0.06)
    assert high[0] == pytest.approx(expected.high, abs=0.06)


@pytest.mark.parametrize(("processes", "parts"), [(1, 10), (2, 5), (3, 5), (5, 5)])
def test_the_bootstrap_covers_the_mean_as_often_as_it_says(processes, parts):
    drawn = np.random.default_rng(7).normal(size=(5000, processes, parts))
    low, high = statistics.bootstrap_intervals(drawn)
    assert 0.93 <= np.mean((low <= 0) & (high >= 0)) <= 0.975


def test_the_bootstrap_finds_that_processes_differ():
    """Resampled in one stage, as if all parts were independent, the interval would cover in less than half of all."""
    rng = np.random.default_rng(8)
    drawn = rng.normal(size=(2000, 8, 1)) * 3 + rng.normal(size=(2000, 8, 5))
    low, high = statistics.bootstrap_intervals(drawn)
    assert np.mean((low <= 0) & (high >= 0)) > 0.88
    low, high = statistics.bootstrap_intervals(drawn.reshape(2000, 1, 40))
    assert np.mean((low <= 0) & (high >= 0)) < 0.7


def test_a_single_value_cannot_be_resampled():
    low, high = statistics.bootstrap_intervals(np.ones((2, 1, 1)))
    assert np.all(np.isinf(low) & np.isinf(high))


def test_cells_beyond_the_first_few_thousand_are_resampled_alike():
    drawn = np.random.default_rng(9).normal(size=(10, 2, 5))
    many = np.tile(drawn, (1000, 1, 1))
    for one, other in zip(statistics.bootstrap_intervals(drawn), statistics.bootstrap_intervals(many), strict=True):
        assert other[-10:] == pytest.approx(one)
