from __future__ import annotations

import pytest

from harness.analysis import conditions
from harness.experiment import COLD, Budget
from harness.interface import DeviceQueue
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.run.task import GemmTask
from harness.timing.clock import CpuClock
from harness.timing.device_clock import AHEAD, MOST_BLOCKED_S, MOST_TIMEOUTS, CudaEventClock
from harness.timing.measure import measure
from harness.timing.sampler import ClockSampler
from tests._support.fake_queue import LAUNCH_NS, STAMP_NS, TOLD, FakeQueue

CALL_NS = 3_000.0


def clock_of(queue: FakeQueue) -> CudaEventClock:
    """Return a clock whose first sample, which is never blocked, is over."""
    clock = CudaEventClock(queue, lambda: queue.host_ns)
    clock.sample(lambda: None, lambda: None, 1)
    queue.log.clear()
    return clock


def launch(queue: FakeQueue):
    return lambda: queue.launch(CALL_NS)


def launch_and_synchronize(queue: FakeQueue):
    def run() -> None:
        queue.launch(CALL_NS)
        queue.synchronize()

    return run


def test_the_fake_obeys_the_protocol_and_has_a_latency_to_hide():
    queue: DeviceQueue = FakeQueue()
    start = queue.stamp()
    queue.launch(CALL_NS)
    stop = queue.stamp()
    queue.synchronize()
    assert queue.between_ns(start, stop) == LAUNCH_NS + CALL_NS


def test_the_time_of_launching_is_not_in_the_sample():
    queue = FakeQueue()
    sample = clock_of(queue).sample(launch(queue), queue.synchronize, 1)
    assert sample.ns == CALL_NS
    assert sample.readings["is_queued"] == 1
    assert queue.host_ns > LAUNCH_NS


def test_all_is_queued_before_the_flag_is_released():
    queue = FakeQueue()
    clock_of(queue).sample(launch(queue), lambda: queue.log.append("wait"), 1)
    assert queue.log == ["block", "stamp", "launch", "stamp", "release", "read", "wait"]


def test_of_many_calls_only_the_first_are_queued_ahead_so_that_a_full_queue_stops_nothing():
    queue = FakeQueue(depth=16)
    clock = clock_of(queue)
    sample = clock.sample(launch(queue), queue.synchronize, 1000)
    assert queue.log[: AHEAD + 3] == ["block", "stamp", *["launch"] * AHEAD, "release"]
    assert queue.log.count("launch") == 1000
    assert clock.facts()["timeouts"] == 0
    assert LAUNCH_NS * 0.9 < sample.ns < LAUNCH_NS + CALL_NS, "a host that is slower than the device is seen"


def test_long_calls_in_a_row_follow_each_other_on_the_device():
    queue = FakeQueue()
    sample = clock_of(queue).sample(lambda: queue.launch(50_000.0), queue.synchronize, 20)
    assert sample.ns == 50_000.0


def test_the_first_sample_is_not_blocked_since_a_first_call_may_wait_for_the_device():
    queue = FakeQueue()
    clock = CudaEventClock(queue)
    first = clock.sample(launch_and_synchronize(queue), queue.synchronize, 1)
    assert "block" not in queue.log
    assert first.readings["is_queued"] == 0
    assert first.ns >= LAUNCH_NS
    assert clock.sample(launch(queue), queue.synchronize, 1).readings["is_queued"] == 1
    assert clock.facts()["timeouts"] == 0


def test_a_workload_that_synchronizes_by_itself_is_timed_without_blocking_and_that_is_said():
    queue = FakeQueue()
    clock = clock_of(queue)
    began = queue.host_ns
    sample = clock.sample(launch_and_synchronize(queue), queue.synchronize, 1)
    assert sample.ns == pytest.approx(LAUNCH_NS + CALL_NS + STAMP_NS), "and never the time-out"
    assert sample.readings["is_queued"] == 0
    assert clock.facts()["timeouts"] == MOST_TIMEOUTS
    assert queue.host_ns - began < 1e9 * MOST_BLOCKED_S * MOST_TIMEOUTS + 1e6
    queue.log.clear()
    for _ in range(3):
        assert clock.sample(launch_and_synchronize(queue), queue.synchronize, 1).readings["is_queued"] == 0
    assert "block" not in queue.log
    record = {"readings": {"is_queued": [[sample.readings["is_queued"]]]}}
    assert conditions.marks(record) == ["timed with the launch in 1 of 1 samples"]


def test_one_hiccup_of_the_host_does_not_end_blocking():
    queue = FakeQueue()
    clock = clock_of(queue)
    hiccups = iter([2e9 * MOST_BLOCKED_S])

    def run() -> None:
        queue.host_ns += next(hiccups, 0.0)
        queue.launch(CALL_NS)

    sample = clock.sample(run, queue.synchronize, 1)
    assert (sample.ns, sample.readings["is_queued"]) == (CALL_NS, 1)
    assert clock.facts()["timeouts"] == 1


def test_the_queue_is_released_if_a_call_fails():
    queue = FakeQueue()

    def fail() -> None:
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        clock_of(queue).sample(fail, queue.synchronize, 1)
    assert queue.log[-1] == "release"


def test_each_cold_sample_is_flushed_before_the_queue_is_blocked():
    queue = FakeQueue()
    clock = clock_of(queue)
    sampler = ClockSampler(lambda: queue.launch(CALL_NS, 5 * CALL_NS), queue.synchronize, clock, COLD)
    samples = sampler.sample(1, 3)
    assert [sample.ns for sample in samples] == [5 * CALL_NS] * 3
    assert queue.log == ["flush", "block", "stamp", "launch", "stamp", "release", "read"] * 3


def test_a_cold_sample_that_is_taken_again_is_flushed_again():
    queue = FakeQueue()
    clock = clock_of(queue)
    hiccups = iter([2e9 * MOST_BLOCKED_S])

    def run() -> None:
        queue.host_ns += next(hiccups, 0.0)
        queue.launch(CALL_NS, 5 * CALL_NS)

    (sample,) = ClockSampler(run, queue.synchronize, clock, COLD).sample(1, 1)
    assert sample.ns == 5 * CALL_NS
    assert queue.log.count("flush") == 2


def test_a_hot_sample_is_not_flushed_when_taken_again():
    queue = FakeQueue()
    clock_of(queue).sample(launch_and_synchronize(queue), queue.synchronize, 1)
    assert "flush" not in queue.log


@pytest.mark.parametrize("calls", [1, AHEAD, 1000])
def test_the_time_of_launching_a_call_is_read_apart(calls):
    queue = FakeQueue()
    sample = clock_of(queue).sample(launch(queue), queue.synchronize, calls)
    assert sample.readings["launch_ns"] == LAUNCH_NS


def test_nothing_is_said_of_a_launch_that_was_not_queued():
    queue = FakeQueue()
    clock = clock_of(queue)
    assert "launch_ns" not in clock.sample(launch_and_synchronize(queue), queue.synchronize, 1).readings


def test_a_device_is_read_while_it_works():
    queue = FakeQueue()
    queue.told = lambda now: {**TOLD, "left_ns": queue.device_ns - now}
    for run in (lambda: queue.launch(1e6), launch_and_synchronize(queue)):
        sample = clock_of(queue).sample(run, queue.synchronize, 1)
        assert sample.readings.items() >= TOLD.items()
    assert clock_of(queue).sample(lambda: queue.launch(1e6), queue.synchronize, 1).readings["left_ns"] > 5e5


def test_samples_of_a_throttled_device_are_kept_with_its_clock_and_marked():
    queue = FakeQueue(nominal_mhz=1980.0, told=lambda now: {"mhz": 1980.0 if now < 2e6 else 1200.0})
    sampler = ClockSampler(lambda: queue.launch(100_000.0), queue.synchronize, CudaEventClock(queue))
    found = measure({"gpu": sampler}, Budget(rounds=10, seconds=60.0, sample_ms=0.0), 1)
    assert len(found.samples_ns["gpu"]) == 20
    mhz = [read["mhz"] for read in found.readings["gpu"]]
    assert set(mhz) == {1980.0, 1200.0}
    record = {"readings": {"mhz": [mhz]}, "clock": sampler.clock.facts()}
    assert conditions.marks(record) == [f"throttled in {mhz.count(1200.0)} of 20 samples"]


def test_measured_like_any_other_contender_all_its_samples_are_queued():
    queue = FakeQueue()
    sampler = ClockSampler(launch(queue), queue.synchronize, CudaEventClock(queue))
    found = measure({"gpu": sampler}, Budget(rounds=3, seconds=60.0, sample_ms=0.0), 1)
    assert found.samples_ns["gpu"] == [CALL_NS] * 6
    assert {read["is_queued"] for read in found.readings["gpu"]} == {1}


def test_a_product_is_timed_on_the_device_that_its_execution_names():
    class Host:
        def run(self) -> None: ...
        def wait(self) -> None: ...
        def result(self) -> None: ...

    class Device(Host):
        queue = FakeQueue()

    problem = Problem(2, 2, 2)
    plan, operands = Plan(problem, 1), Operands.generate(problem, 1)
    assert isinstance(GemmTask(plan, operands, Host(), 1).clock(), CpuClock)
    assert GemmTask(plan, operands, Device(), 1).clock().facts()["name"] == "fake events"


def test_stamps_cost_the_host_time_that_is_not_in_the_sample():
    queue = FakeQueue()
    began = queue.host_ns
    sample = clock_of(queue).sample(launch(queue), queue.synchronize, 2)
    assert sample.ns == CALL_NS
    assert queue.host_ns - began > 2 * (LAUNCH_NS + STAMP_NS)
