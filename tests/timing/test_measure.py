from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.errors import ExperimentError
from harness.experiment import GROUPED, Budget
from harness.stats import statistics
from harness.timing.clock import Sample
from harness.timing.measure import Measurement, measure, overhead_ns, shortfalls
from harness.timing.warmup import WarmUp


class World:
    """A time that passes only when something is sampled, and what was sampled when."""

    def __init__(self) -> None:
        self.time_ns = 0.0
        self.log: list[str] = []

    def now(self) -> float:
        return self.time_ns * 1e-9


class FakeSampler:
    """Takes `call_ns` per call, longer by `drift` times the time; raises in sample number `fails_at`."""

    def __init__(self, world: World, label: str, call_ns: float, drift: float = 0.0, fails_at: int = -1) -> None:
        self.world, self.label, self.call_ns, self.drift, self.fails_at = world, label, call_ns, drift, fails_at
        self.taken = 0
        self.loops: list[int] = []

    def sample(self, loops: int, count: int) -> list[Sample]:
        if self.taken == self.fails_at:
            raise RuntimeError(f"{self.label} broke")
        self.taken += 1
        self.loops.append(loops)
        self.world.log.append(self.label)
        per_call = self.call_ns * (1 + self.drift * self.world.time_ns)
        self.world.time_ns += per_call * loops * count
        return [Sample(per_call, {"taken": self.taken})] * count


SLOW = Budget(rounds=4, seconds=1e9, sample_ms=0.0)


def measured(world: World, samplers: dict[str, FakeSampler], budget: Budget = SLOW, seed: int = 1):
    return measure(samplers, budget, seed, now=world.now)


def rounds_of(world: World, contenders: int, rounds: int) -> list[list[str]]:
    log = world.log[-2 * contenders * rounds :]
    return [log[i : i + 2 * contenders] for i in range(0, len(log), 2 * contenders)]


def test_each_round_is_a_permutation_and_its_reverse():
    world = World()
    measured(world, {label: FakeSampler(world, label, 1e6) for label in "abcd"})
    orders = rounds_of(world, 4, 4)
    for order in orders:
        assert sorted(order[:4]) == list("abcd")
        assert order[4:] == order[:4][::-1]
    assert len({tuple(order) for order in orders}) > 1


def test_the_orders_follow_from_the_seed():
    logs = []
    for seed in (5, 5, 6):
        world = World()
        measured(world, {label: FakeSampler(world, label, 1e6) for label in "abcdef"}, seed=seed)
        logs.append(world.log)
    assert logs[0] == logs[1] != logs[2]


def test_all_contenders_have_as_many_samples():
    world = World()
    measurement = measured(world, {label: FakeSampler(world, label, 1e6) for label in "abc"})
    assert {label: len(s) for label, s in measurement.samples_ns.items()} == {"a": 8, "b": 8, "c": 8}
    assert (measurement.rounds, measurement.unmet) == (4, "")


def test_a_linear_drift_cancels_in_each_round():
    world = World()
    samplers = {label: FakeSampler(world, label, 1e6, drift=1e-9) for label in "ab"}
    samples = measured(world, samplers).samples_ns
    for i in range(0, 8, 2):
        assert sum(samples["a"][i : i + 2]) == pytest.approx(sum(samples["b"][i : i + 2]), rel=1e-4)


@pytest.mark.parametrize("fails_at", [0, 1, 4])
def test_a_contender_that_fails_is_dropped_and_the_others_stay_aligned(fails_at):
    world = World()
    samplers = {label: FakeSampler(world, label, 1e6) for label in "abc"}
    samplers["b"].fails_at = fails_at
    measurement = measured(world, samplers)
    for kept in (measurement.samples_ns, measurement.readings, measurement.loops, measurement.shortfalls):
        assert set(kept) == {"a", "c"}
    assert [len(s) for s in measurement.samples_ns.values()] == [8, 8]
    assert str(measurement.failures["b"]) == "b broke"


def test_if_all_fail_it_ends():
    world = World()
    measurement = measured(world, {"a": FakeSampler(world, "a", 1e6, fails_at=3)})
    assert measurement.samples_ns == {}
    assert set(measurement.failures) == {"a"}
    assert measured(world, {}).samples_ns == {}


def test_an_interrupt_is_no_failure_of_a_contender():
    class Interrupted:
        def sample(self, loops: int, count: int) -> list[Sample]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure({"a": Interrupted()}, SLOW, 1)


def test_stops_when_time_is_up_and_names_what_was_not_met():
    world = World()
    samplers = {label: FakeSampler(world, label, 0.1e9) for label in "ab"}
    measurement = measured(world, samplers, Budget(rounds=50, seconds=2.0))
    assert 1 <= measurement.rounds < 50
    assert world.now() <= 2.0 + 0.2
    assert measurement.unmet == f"rounds: {measurement.rounds:g} of 50 in 2 s"
    assert set(measurement.shortfalls) == {"a", "b"}
    assert len({len(s) for s in measurement.samples_ns.values()}) == 1


@pytest.mark.parametrize("order", [{}, {"order": GROUPED}], ids=str)
def test_one_round_is_done_however_long_it_takes(order):
    world = World()
    samplers = {label: FakeSampler(world, label, 60e9) for label in "ab"}
    measurement = measured(world, samplers, Budget(rounds=5, seconds=1.0, **order))
    assert measurement.rounds == 1
    assert [len(s) for s in measurement.samples_ns.values()] == [2, 2]


def test_a_slow_contender_steps_aside_so_that_the_others_do_their_rounds():
    world = World()
    samplers = {"slow": FakeSampler(world, "slow", 3e9)} | {x: FakeSampler(world, x, 0.1e9) for x in "abc"}
    measurement = measured(world, samplers, Budget(rounds=6, seconds=28.0))
    counts = {label: len(samples) for label, samples in measurement.samples_ns.items()}
    assert counts == {"slow": 6, "a": 12, "b": 12, "c": 12}, "it has the samples of a verdict"
    assert measurement.shortfalls["slow"] == ["rounds: 3 of 6 in 28 s"]
    assert measurement.shortfalls["a"] == []
    assert "slow" not in world.log[-18:]
    assert sorted(world.log[-6:-3]) == sorted(world.log[-3:]) == list("abc"), "rounds go on forth and back"


@pytest.mark.parametrize(("seconds", "samples"), [(16.0, 2), (60.0, 12)])
def test_a_slow_contender_steps_aside_at_once_without_time_for_its_verdict_and_never_with_time_for_all(
    seconds, samples
):
    world = World()
    samplers = {"slow": FakeSampler(world, "slow", 3e9)} | {x: FakeSampler(world, x, 0.1e9) for x in "abc"}
    measurement = measured(world, samplers, Budget(rounds=6, seconds=seconds))
    assert [len(found) for found in measurement.samples_ns.values()] == [samples, 12, 12, 12]


def test_a_slow_contender_that_has_left_is_no_reason_for_another_to_leave():
    world = World()
    samplers = {x: FakeSampler(world, x, ns) for x, ns in {"slow": 9e9, "a": 0.6e9, "b": 0.2e9, "c": 0.2e9}.items()}
    measurement = measured(world, samplers, Budget(rounds=10, seconds=60.0))
    counts = {label: len(samples) for label, samples in measurement.samples_ns.items()}
    assert counts.pop("slow") < 20
    assert set(counts.values()) == {20}


@pytest.mark.parametrize("calls_ns", [{"a": 2e9, "b": 0.1e9}, {"a": 1e9, "b": 1e9, "c": 1e9}])
def test_nobody_steps_aside_whom_a_ratio_needs_or_who_is_no_slower_than_the_others_together(calls_ns):
    world = World()
    samplers = {label: FakeSampler(world, label, ns) for label, ns in calls_ns.items()}
    measurement = measured(world, samplers, Budget(rounds=20, seconds=12.0))
    assert len({len(samples) for samples in measurement.samples_ns.values()}) == 1


def test_what_was_read_stays_with_its_sample():
    world = World()
    sampler = FakeSampler(world, "a", 1e6)
    measurement = measured(world, {"a": sampler})
    assert [read["taken"] for read in measurement.readings["a"]] == list(range(sampler.taken - 7, sampler.taken + 1))


def test_loops_of_another_process_are_kept_and_grow_if_they_are_too_few():
    world = World()
    samplers = {"a": FakeSampler(world, "a", 1e6), "b": FakeSampler(world, "b", 1e6)}
    budget = Budget(rounds=1, seconds=1e9, sample_ms=5.0)
    found = measure(samplers, budget, 1, loops={"a": 30, "b": 2}, now=world.now)
    assert found.loops["a"] == 30
    assert found.loops["b"] >= 5
    assert set(samplers["a"].loops) == {30}


def test_grouped_takes_all_samples_of_one_and_then_of_the_next_in_an_order_that_follows_from_the_seed():
    logs = []
    for seed in range(8):
        world = World()
        budget = Budget(rounds=3, seconds=1e9, sample_ms=0.0, order=GROUPED)
        found = measured(world, {label: FakeSampler(world, label, 1e6) for label in "abc"}, budget, seed)
        assert {label: len(s) for label, s in found.samples_ns.items()} == {"a": 6, "b": 6, "c": 6}
        blocks = [(label, len(list(own))) for label, own in itertools.groupby(world.log[-18:])]
        assert sorted(blocks) == [("a", 6), ("b", 6), ("c", 6)]
        logs.append([label for label, _ in blocks])
    assert len({tuple(log) for log in logs}) > 1


@pytest.mark.parametrize("seed", range(4))
def test_grouped_shares_the_time_among_the_contenders(seed):
    world = World()
    calls_s = {"fast": 0.01, "slow": 0.5, "slowest": 4.0}
    samplers = {label: FakeSampler(world, label, 1e9 * call) for label, call in calls_s.items()}
    budget = Budget(rounds=100, seconds=60.0, sample_ms=0.0, order=GROUPED)
    found = measured(world, samplers, budget, seed)
    counts = {label: len(samples) for label, samples in found.samples_ns.items()}
    assert counts["fast"] == 200
    assert counts["slow"] >= 30
    assert counts["slowest"] >= 4
    assert world.now() <= 60 + 4
    assert found.rounds == counts["slowest"] / 2
    assert found.shortfalls["slowest"] == [f"rounds: {found.rounds:g} of 100 in 60 s"]
    assert not found.shortfalls["fast"]


def test_an_order_that_there_is_not_is_refused():
    with pytest.raises(ExperimentError, match="order"):
        Budget(order="sorted")


class NoisySampler:
    """Takes 1 ms times `factor` a call, times noise of a seeded generator; a millisecond passes with each sample."""

    def __init__(self, world: World, noise, factor: float = 1.0) -> None:
        self.world, self.noise, self.factor = world, noise, factor

    def sample(self, loops: int, count: int) -> list[Sample]:
        self.world.time_ns += 1e6 * loops * count
        return [Sample(1e6 * self.factor * self.noise(), {}) for _ in range(count)]


def noisy(sigma: float, seed: int, *, seconds: float = 1e9, precision: float = 0.01, quiet: bool = False):
    """Measure "own", 1.5 times as long as "base", both with log-normal noise, and "quiet" without any if wanted."""
    rng, world = np.random.default_rng(seed), World()
    samplers = {
        "base": NoisySampler(world, lambda: float(np.exp(sigma * rng.standard_normal()))),
        "own": NoisySampler(world, lambda: float(np.exp(sigma * rng.standard_normal())), 1.5),
    }
    if quiet:
        samplers["quiet"] = NoisySampler(world, lambda: 1.0)
    budget = Budget(rounds=3, seconds=seconds, sample_ms=0.0, precision=precision)
    return measure(samplers, budget, seed, reference="base", now=world.now)


def test_nobody_steps_aside_in_the_rounds_that_are_for_precision_alone():
    rng, world = np.random.default_rng(1), World()
    samplers = {x: NoisySampler(world, lambda: float(np.exp(0.1 * rng.standard_normal()))) for x in "abc"}
    slow = {"slow": FakeSampler(world, "slow", 30e6)}
    found = measure(samplers | slow, Budget(rounds=2, seconds=0.5, sample_ms=0.0, precision=1e-9), 1, now=world.now)
    counts = [len(samples) for samples in found.samples_ns.values()]
    assert len(set(counts)) == 1
    assert 2 * 2 < counts[0] < 2 * 4 * 2, "time is up in the rounds beyond those asked for"


def test_rounds_go_on_until_the_interval_of_the_ratio_is_narrow_and_stop_then():
    rounds = [noisy(sigma, 1).rounds for sigma in (0.0, 0.02, 0.06)]
    assert rounds[0] == 3
    assert 3 < rounds[1] < rounds[2]
    assert all(count in (3, 6, 12, 24, 48, 96, 192, 384, 768) for count in rounds), "only at checkpoints"
    for sigma in (0.02, 0.06):
        found = noisy(sigma, 2)
        ratio = statistics.paired_ratio(found.samples_ns["own"], found.samples_ns["base"])
        assert (ratio.high - ratio.low) / 2 <= 0.01 * ratio.estimate
        assert found.unmet == ""


def test_without_a_wish_for_precision_the_rounds_are_enough():
    assert noisy(0.1, 1, precision=0.0).rounds == 3


def test_the_widest_interval_decides_and_is_named_with_its_contender():
    found = noisy(0.2, 1, seconds=0.3, quiet=True)
    assert found.rounds > 3
    for label in ("own", "quiet"):
        (text,) = found.shortfalls[label]
        assert text.startswith("precision: interval of its ratio to base is ±")
        assert text.endswith("%, wanted ±1 %")
    assert found.shortfalls["base"] == []


def test_the_interval_over_all_processes_is_what_counts():
    processes = [noisy(0.05, seed, seconds=0.1) for seed in range(12)]
    budget = Budget(rounds=3, seconds=0.1, precision=0.01)
    assert all(shortfalls([own], "own", budget, "base") for own in processes)
    assert shortfalls(processes, "own", budget, "base") == []
    assert shortfalls(processes, "own", budget, "a reference that failed") == []


def test_a_contender_that_never_became_stable_says_so():
    warm = {"a": WarmUp(4, 123, 0.31), "b": WarmUp(4, 9, 0.02)}
    found = Measurement({"a": [1.0] * 10, "b": [1.0] * 10}, warm_ups=warm)
    budget = Budget(rounds=5)
    assert shortfalls([found], "a", budget, "b") == ["warm-up: still got 31 % faster after 123 calls"]
    assert shortfalls([found], "b", budget, "b") == []


def test_the_overhead_of_a_sample_is_of_the_order_of_microseconds():
    assert 0 < min(overhead_ns(samples=100) for _ in range(3)) < 1e6, "the aim is 20 us; a busy machine decides nothing"
