from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from harness.stats import statistics
from harness.timing import measure

# Shapes of noise around 1, as (generator, standard normals) -> factors; the spikes are what a shared machine does.
NOISES = {
    "log-normal": lambda rng, sigma, shape: np.exp(sigma * rng.standard_normal(shape)),
    "exponential": lambda rng, sigma, shape: 1 + sigma * rng.exponential(1.0, shape),
    "spiky": lambda rng, sigma, shape: (
        1 + 0.3 * sigma * rng.standard_normal(shape) + (rng.random(shape) < 0.2) * rng.exponential(5 * sigma, shape)
    ),
}
PRECISION, MOST_ROUNDS, TRIALS = 0.01, 48, 1500


def test_checkpoints_are_fixed_beforehand_and_few():
    assert list(itertools.islice(measure.checkpoints(3), 5)) == [3, 6, 12, 24, 48]
    assert next(measure.checkpoints(0)) == 1


def test_half_width_is_relative_to_the_ratio():
    reference = [100.0] * 6
    assert measure.half_width([190.0, 195.0, 200.0, 200.0, 205.0, 210.0], reference) == pytest.approx(0.05)
    assert measure.half_width([], []) == math.inf


def test_too_wide_names_contenders_by_their_ratio_and_never_the_reference():
    samples = {"base": [1.0, 2.0] * 4, "moves alike": [2.0, 4.0] * 4, "steady": [3.0] * 8}
    assert set(measure.too_wide(samples, "base", 0.01)) == {"steady"}
    assert measure.too_wide(samples, "base", 0.0) == {}
    assert measure.too_wide(samples, "gone", 0.01) == {}
    assert measure.too_wide({"base": [1.0], "empty": []}, "base", 0.5) == {"empty": math.inf}


def test_pairs_stay_within_a_process():
    processes = [{"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0]}, {"a": [6.0], "b": [7.0, 8.0]}]
    assert measure.pairs(processes, ("a", "b")) == {"a": [1.0, 2.0, 6.0], "b": [4.0, 5.0, 7.0]}


def stopped(ratios: np.ndarray) -> tuple[int, statistics.Interval]:
    """Return after how many rounds sampling stops, and the interval that is reported then."""
    reference = [1.0] * len(ratios)
    for rounds in measure.checkpoints(3):
        count = min(2 * rounds, len(ratios))
        own = ratios[:count].tolist()
        is_wide = measure.too_wide({"own": own, "base": reference[:count]}, "base", PRECISION)
        if not is_wide or count == len(ratios):
            return count // 2, statistics.paired_ratio(own, reference)
    raise AssertionError


@pytest.mark.parametrize("is_steady", [False, True], ids=["both noisy", "steady reference"])
@pytest.mark.parametrize(("shape", "sigma"), [("log-normal", 0.015), ("exponential", 0.03), ("spiky", 0.015)])
def test_the_interval_still_covers_the_truth_although_it_decided_when_to_stop(shape, sigma, is_steady):
    rng = np.random.default_rng(7)

    def ratios(*shape_of: int) -> np.ndarray:
        return noise(rng, sigma, shape_of) / (1.0 if is_steady else noise(rng, sigma, shape_of))

    noise = NOISES[shape]
    truth = np.median(ratios(2_000_000))
    found = [stopped(each) for each in ratios(TRIALS, 2 * MOST_ROUNDS)]
    covered = np.mean([interval.low <= truth <= interval.high for _, interval in found])
    assert covered >= 0.93
    assert len({rounds for rounds, _ in found}) > 1, "otherwise nothing was decided by the interval"
