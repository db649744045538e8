"""Tests of hypotheses against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

from harness.stats import significance


@pytest.mark.parametrize("count", [1, 5, 12, 30, 50])
def test_signed_ranks_are_counted_as_scipy_counts_them(count):
    drawn = np.random.default_rng(count).normal(0.2, 1, (20, count))
    expected = [scipy.stats.wilcoxon(row, method="exact").pvalue for row in drawn]
    assert significance.signed_rank(drawn) == pytest.approx(expected)


def test_many_signed_ranks_are_as_good_as_normal():
    drawn = np.random.default_rng(1).normal(0.1, 1, (20, 200))
    expected = [scipy.stats.wilcoxon(row, method="approx", correction=False).pvalue for row in drawn]
    assert significance.signed_rank(drawn) == pytest.approx(expected)


def test_zeros_are_left_out_of_signed_ranks():
    drawn = np.random.default_rng(2).normal(0.4, 1, (10, 12))
    padded = np.concatenate([drawn, np.zeros((10, 7))], axis=1)
    assert significance.signed_rank(padded) == pytest.approx(significance.signed_rank(drawn))
    assert significance.signed_rank(np.zeros((1, 5))) == [1.0]


def test_ties_do_not_make_signed_ranks_bold():
    """The p-value with ties is at least what all choices of signs say, counted one by one."""
    rng = np.random.default_rng(3)
    for row in rng.integers(-3, 5, (20, 9)).astype(float):
        kept = row[row != 0]
        ranks = scipy.stats.rankdata(np.abs(kept))
        signs = (np.arange(2 ** len(kept))[:, None] >> np.arange(len(kept))) & 1
        sums, observed = signs @ ranks, ranks[kept > 0].sum()
        exact = 2 * min(np.mean(sums <= observed), np.mean(sums >= observed))
        assert significance.signed_rank(row[None])[0] >= min(exact, 1.0) * 0.8
    assert significance.signed_rank(np.full((1, 7), 0.1)) == pytest.approx(2 / 2**7)


def test_mann_whitney_is_scipys_with_and_without_ties():
    rng = np.random.default_rng(4)
    for own, other in ((rng.normal(size=20), rng.normal(0.5, 1, 25)), (rng.integers(0, 6, 15), rng.integers(1, 8, 12))):
        expected = scipy.stats.mannwhitneyu(own, other, method="asymptotic").pvalue
        assert significance.mann_whitney(own.tolist(), other.tolist()) == pytest.approx(expected)
    assert significance.mann_whitney([1.0, 1.0], [1.0]) == 1.0
    assert np.isnan(significance.mann_whitney([], [1.0]))


def test_mean_ranks_are_scipys():
    drawn = np.random.default_rng(5).integers(0, 9, (8, 20)).astype(float)
    assert significance.mean_ranks(drawn) == pytest.approx(scipy.stats.rankdata(drawn, axis=1))


def test_polygammas_of_halves_are_scipys():
    digamma, trigamma = significance._polygamma_of_halves(40)
    halves = np.arange(1, 41) / 2
    assert digamma[1:] == pytest.approx(scipy.special.digamma(halves))
    assert trigamma[1:] == pytest.approx(scipy.special.polygamma(1, halves))


@pytest.mark.parametrize(("lent", "low", "high"), [(4, 3, 6), (10, 6, 20), (10**6, 20, 40)])
def test_the_prior_finds_how_diverse_cells_are(lent, low, high):
    """True variances are inverse chi-squared with `lent` degrees of freedom around 4; each is sampled with 2."""
    rng = np.random.default_rng(6)
    true = 4 * lent / rng.chisquare(lent, 3000)
    sampled = true * rng.chisquare(2, 3000) / 2
    prior = significance.fit_prior(sampled, np.full(3000, 2))
    assert low <= prior.freedom <= high
    assert prior.variance == pytest.approx(4, rel=0.15)


def test_a_cell_without_others_is_lent_nothing():
    assert significance.fit_prior(np.asarray([2.0]), np.asarray([3])).freedom == 0
    assert significance.fit_prior(np.asarray([2.0, 2.0]), np.asarray([1, 1])).freedom <= 1
