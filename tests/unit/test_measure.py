from __future__ import annotations

from collections import Counter

import pytest

from harness.experiment import Budget
from harness.measure import WARMS_ITSELF_NS, ClockSampler, calibrate, measure, overhead_ns


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

    def sample(self, loops: int, count: int) -> list[float]:
        if self.taken == self.fails_at:
            raise RuntimeError(f"{self.label} broke")
        self.taken += 1
        self.loops.append(loops)
        self.world.log.append(self.label)
        per_call = self.call_ns * (1 + self.drift * self.world.time_ns)
        self.world.time_ns += per_call * loops * count
        return [per_call] * count


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
    assert set(measurement.samples_ns) == set(measurement.loops) == {"a", "c"}
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
        def sample(self, loops: int, count: int) -> list[float]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure({"a": Interrupted()}, SLOW, 1)


def test_stops_when_time_is_up_and_names_what_was_not_met():
    world = World()
    samplers = {label: FakeSampler(world, label, 0.1e9) for label in "ab"}
    measurement = measured(world, samplers, Budget(rounds=50, seconds=2.0))
    assert 1 <= measurement.rounds < 50
    assert world.now() <= 2.0 + 0.2
    assert measurement.unmet == f"{measurement.rounds:g} of 50 rounds in 2 s"
    assert len({len(s) for s in measurement.samples_ns.values()}) == 1


def test_one_round_is_done_however_long_it_takes():
    world = World()
    samplers = {label: FakeSampler(world, label, 60e9) for label in "ab"}
    measurement = measured(world, samplers, Budget(rounds=5, seconds=1.0))
    assert measurement.rounds == 1
    assert [len(s) for s in measurement.samples_ns.values()] == [2, 2]


@pytest.mark.parametrize("call_ns", [10.0, 3e3, 0.4e6, 0.999e6, 1e6, 5e6, 1e9])
def test_a_sample_lasts_as_long_as_it_should(call_ns):
    world = World()
    loops = calibrate(FakeSampler(world, "a", call_ns), 1e6)
    assert loops * call_ns >= 1e6
    assert loops * call_ns <= max(2e6, call_ns)


def test_a_slow_first_call_does_not_decide_the_number_of_loops():
    world = World()
    sampler = FakeSampler(world, "a", 5e6)
    original = sampler.sample

    def first_slow(loops: int, count: int) -> list[float]:
        samples = original(loops, count)
        sampler.call_ns = 1e4
        return samples

    sampler.sample = first_slow  # type: ignore[method-assign]
    assert calibrate(sampler, 1e6) >= 100


def test_the_clock_sampler_warms_each_sample_of_a_short_call_and_divides_by_the_loops():
    class FakeClock:
        def elapsed_ns(self, run, wait, loops):
            for _ in range(loops):
                run()
                wait()
            return call_ns * loops

    calls: Counter[str] = Counter()
    call_ns = 100.0
    sampler = ClockSampler(lambda: calls.update(["run"]), lambda: calls.update(["wait"]), FakeClock())
    assert sampler.sample(10, 3) == [100.0] * 3
    assert calls == {"run": 33, "wait": 33}
    call_ns = 2 * WARMS_ITSELF_NS
    sampler.sample(1, 1)
    calls.clear()
    sampler.sample(1, 2)
    assert calls == {"run": 2, "wait": 2}


def test_the_overhead_can_be_measured():
    assert overhead_ns(samples=40) > 0
