"""Verdicts, by simulation: how often intervals cover, how many verdicts are false, and what is found."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from harness.stats import verdict
from harness.stats.verdict import Comparison, Verdict
from tests._support.noise import KINDS, times

CHANGED = (Verdict.FASTER, Verdict.SLOWER)


def compared(own: np.ndarray, reference: np.ndarray) -> list[Comparison]:
    return verdict.compare_all(zip(own.tolist(), reference.tolist(), strict=True))


def sweeps(comparisons: list[Comparison], size: int) -> list[list[Comparison]]:
    return [comparisons[begin : begin + size] for begin in range(0, len(comparisons), size)]


def is_within(share: float, low: float, high: float, count: int) -> bool:
    """Whether a share of `count` trials is from `low` to `high`, give or take three standard errors."""
    return low - 3 * math.sqrt(low * (1 - low) / count) <= share <= high + 3 * math.sqrt(high * (1 - high) / count)


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_95_of_100_settled_intervals_cover_the_true_ratio_whatever_the_noise(kind, processes):
    pairs = compared(*times(kind, 2000, processes, 10 if processes == 2 else 5))
    settled = [pair for sweep in sweeps(pairs, 100) for pair in verdict.settle(sweep)]
    assert is_within(np.mean([c.ratio.low <= 1 <= c.ratio.high for c in settled]), 0.93, 0.97, len(settled))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "processes"])
def test_the_interval_of_one_cell_alone_covers_where_processes_do_not_differ(kind):
    pairs = compared(*times(kind, 2000, 2, 10))
    # a spike widens the part that it falls into more than it moves the median of the process
    most = 1.0 if kind == "spikes" else 0.97
    assert is_within(np.mean([c.ratio.low <= 1 <= c.ratio.high for c in pairs]), 0.93, most, len(pairs))


def test_two_processes_that_differ_are_too_few_for_one_cell_alone_but_not_for_a_sweep():
    """Why verdicts are settled: alone, the interval of two processes that differ covers in two of three cases."""
    pairs = compared(*times("processes", 2000, 2, 10, scatter=0.02))
    alone = np.mean([c.ratio.low <= 1 <= c.ratio.high for c in pairs])
    settled = [c for sweep in sweeps(pairs, 100) for c in verdict.settle(sweep)]
    assert alone < 0.8
    assert is_within(np.mean([c.ratio.low <= 1 <= c.ratio.high for c in settled]), 0.93, 0.97, len(settled))


SCATTERS = {
    "every cell by 0.3 %": 0.003,
    "every cell by 1 %": 0.01,
    "one cell in ten by 3 %": 0.01 * np.where(np.random.default_rng(3).random((2000, 1, 1)) < 0.1, 3, 0.3),
    "heavy tails": 0.003 * np.abs(np.random.default_rng(3).standard_t(2, (2000, 1, 1))),
}


@pytest.mark.parametrize("scatter", SCATTERS.values(), ids=SCATTERS)
def test_at_most_2_of_200_verdicts_are_false_and_95_of_100_slow_downs_of_5_percent_are_found(scatter):
    own, reference = times("processes", 2000, 3, 5, scatter=scatter)
    said = [v for sweep in sweeps(compared(own, reference), 200) for v in verdict.judge(sweep)]
    assert sum(v in CHANGED for v in said) / 10 <= 2
    found = [v for sweep in sweeps(compared(1.05 * own, reference), 100) for v in verdict.judge(sweep)]
    assert sum(v is Verdict.SLOWER for v in found) / 20 >= 95
    assert found.count(Verdict.FASTER) / 20 < 1


@pytest.mark.parametrize("kind", ["skewed", "spikes", "drift", "two states", "lognormal"])
def test_noise_of_any_kind_is_not_called_a_change(kind):
    said = [v for sweep in sweeps(compared(*times(kind, 2000, 2, 10)), 200) for v in verdict.judge(sweep)]
    assert sum(v in CHANGED for v in said) / 10 <= 2


def test_the_only_change_among_200_cells_is_found():
    found = 0
    for seed in range(20):
        own, reference = times("processes", 200, 3, 5, seed=seed, scatter=0.005)
        own[17] *= 1.05
        said = verdict.judge(compared(own, reference))
        found += said[17] is Verdict.SLOWER
    assert found >= 18


def test_one_process_each_is_not_enough_where_processes_differ():
    """What quick runs are told: the verdict is about these two processes, not about the code."""
    own, reference = times("processes", 200, 1, 15, scatter=0.02)
    assert sum(v in CHANGED for v in verdict.judge(compared(own, reference))) > 20


def test_a_change_below_the_minimum_effect_is_none():
    own, reference = times("processes", 200, 4, 20, scatter=0.0)
    own *= 1.01
    assert set(verdict.judge(compared(own, reference))) == {Verdict.SAME}
    assert set(verdict.judge(compared(own, reference), minimum_effect=0.002)) == {Verdict.SLOWER}


def test_what_samples_cannot_tell_is_unsure():
    own, reference = times("lognormal", 100, 2, 5)
    assert set(verdict.judge(compared(own, reference))) == {Verdict.UNSURE}


def test_exchanging_the_two_turns_the_verdict_round():
    own, reference = times("processes", 100, 3, 5)
    own[:50] *= 1.1
    one, other = compared(own, reference), compared(reference, own)
    assert np.allclose([c.ratio.estimate for c in one], [1 / c.ratio.estimate for c in other])
    turned = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
    assert verdict.judge(one) == [turned.get(v, v) for v in verdict.judge(other)]
    assert verdict.judge(one)[:50] == [Verdict.SLOWER] * 50


def test_all_at_once_says_what_one_by_one_says():
    rng = np.random.default_rng(5)
    cells = []
    for _ in range(60):
        sizes = rng.integers(1, 14, rng.integers(1, 5))
        cells.append(tuple([rng.lognormal(5, 0.1, size + rng.integers(2)).tolist() for size in sizes] for _ in "ab"))
    together = verdict.compare_all(cells)
    for (own, reference), found in zip(cells, together, strict=True):
        alone = verdict.compare(own, reference)
        assert found.ratio == pytest.approx(alone.ratio)
        assert dataclasses.astuple(found)[1:] == pytest.approx(dataclasses.astuple(alone)[1:], nan_ok=True)
        assert found.pairs == sum(min(len(a), len(b)) for a, b in zip(own, reference, strict=True))
        assert found.ratio.low <= found.ratio.estimate <= found.ratio.high


def test_settled_twice_is_settled_once():
    pairs = compared(*times("processes", 50, 2, 5))
    once = verdict.settle(pairs)
    assert verdict.settle(once) == once
    assert verdict.judge(once) == verdict.judge(pairs)


def test_cells_of_one_process_do_not_tell_how_processes_differ():
    lone, many = (compared(*times("processes", 40, processes, 6)) for processes in (1, 3))
    assert verdict.settle([*lone, *many]) == [*verdict.settle(lone), *verdict.settle(many)]


def test_samples_that_are_all_equal_are_the_same():
    assert verdict.judge([verdict.compare([[5.0] * 10] * 2, [[5.0] * 10] * 2)]) == [Verdict.SAME]


@pytest.mark.parametrize(("own", "reference"), [([], []), ([[]], [[1.0]]), ([[1.0]], [])])
def test_without_pairs_there_is_no_verdict(own, reference):
    nothing = verdict.compare(own, reference)
    assert (nothing.pairs, nothing.processes) == (0, 0)
    assert verdict.judge([nothing]) == [Verdict.UNSURE]


def test_a_single_pair_says_nothing():
    assert verdict.judge([verdict.compare([[3.0]], [[1.0]])]) == [Verdict.UNSURE]


def test_nothing_to_judge_gives_no_verdicts():
    assert verdict.judge([]) == []


def test_between_runs_the_reference_cancels_what_the_machine_did():
    own, reference = times("processes", 400, 3, 5, scatter=0.003)
    machine = np.where(np.arange(400) >= 200, 1.4, 1.0)[:, None, None]
    change = np.where(np.arange(200) < 100, 1.0, 1.06)[:, None, None]
    own, reference = own * machine, reference * machine
    own[200:] *= change
    pairs = [verdict.compare_runs((own[i + 200], reference[i + 200]), (own[i], reference[i])) for i in range(200)]
    said = verdict.judge(pairs)
    assert sum(v in CHANGED for v in said[:100]) <= 1
    assert sum(v is Verdict.SLOWER for v in said[100:]) >= 95
    assert is_within(np.mean([c.ratio.low <= 1 <= c.ratio.high for c in verdict.settle(pairs)[:100]]), 0.93, 0.97, 100)


def test_between_runs_without_a_reference_in_one_there_is_no_verdict():
    assert verdict.compare_runs(([[1.0, 2.0]], []), ([[1.0]], [[1.0]])) is verdict.NOTHING
