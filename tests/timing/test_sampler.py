from __future__ import annotations

from pathlib import Path

import pytest

from harness.experiment import COLD
from harness.machine import Machine
from harness.timing import cold_caches
from harness.timing.clock import Sample
from harness.timing.host import ProcessorTime, processor_time, stolen
from harness.timing.sampler import WARMS_ITSELF_NS, ClockSampler
from tests._support.synthetic import MACHINE


class FakeClock:
    """Says that a call takes `call_ns`, and keeps what happened in which order."""

    def __init__(self, call_ns: float) -> None:
        self.call_ns, self.log = call_ns, list[str]()

    def sample(self, run, wait, loops):
        self.log.append("start")
        for _ in range(loops):
            run()
            wait()
        self.log.append("stop")
        return Sample(self.call_ns, {})

    def flush(self):
        self.log.append("flush")

    def facts(self):
        return {"name": "fake"}


def sampler(call_ns: float, **options: str) -> tuple[ClockSampler, list[str]]:
    clock = FakeClock(call_ns)
    log = clock.log
    return ClockSampler(lambda: log.append("run"), lambda: log.append("wait"), clock, **options), log


CALL = ["run", "wait"]


def test_each_hot_sample_of_a_short_call_but_the_first_follows_an_untimed_call():
    short, log = sampler(100.0)
    assert [sample.ns for sample in short.sample(2, 2)] == [100.0] * 2
    assert log == ["start", *CALL, *CALL, "stop", *CALL, "start", *CALL, *CALL, "stop"]
    log.clear()
    short.sample(1, 1)
    assert log == [*CALL, "start", *CALL, "stop"]


def test_a_long_call_is_spared_the_untimed_one():
    long, log = sampler(2 * WARMS_ITSELF_NS)
    long.sample(1, 2)
    assert log == ["start", *CALL, "stop"] * 2


def test_each_cold_sample_is_one_call_after_a_flush_and_nothing_in_between():
    cold, log = sampler(100.0, series=COLD)
    cold.sample(1, 3)
    assert log == ["flush", "start", *CALL, "stop"] * 3
    with pytest.raises(AssertionError, match="first call"):
        cold.sample(2, 1)


def test_what_evicts_is_twice_the_largest_cache_and_bounded():
    assert cold_caches.size(MACHINE) == 16 << 20
    unknown = Machine("no caches known", 1, 1, 0, 0, 0)
    assert cold_caches.size(unknown) == 128 << 20
    assert cold_caches.size(Machine("huge", 1, 1, 1, 1, 4 << 30)) == cold_caches.MOST


def test_every_core_is_flushed_and_a_shared_cache_once(tmp_path):
    for core in range(4):
        folder = tmp_path / f"cpu{core}" / "cache" / "index3"
        folder.mkdir(parents=True)
        (folder / "shared_cpu_list").write_text("0-1\n" if core < 2 else "2-3\n")
    whole, own = 16 << 20, 2 << 20
    assert cold_caches.passes(MACHINE, [0, 1, 2, 3], tmp_path) == [(0, whole), (1, own), (2, whole), (3, own)]
    assert cold_caches.passes(MACHINE, [7, 9], tmp_path) == [(7, whole), (9, whole)], "nothing is known to be shared"


def test_to_evict_reads_and_writes_all_of_the_buffer_and_moves_no_thread_but_its_own(monkeypatch):
    import os

    monkeypatch.setattr(cold_caches, "size", lambda machine: 1 << 20)
    cold_caches._buffer.cache_clear()
    try:
        before = os.sched_getaffinity(0)
        cold_caches.evict()
        cold_caches.evict()
        assert (cold_caches._buffer() == 2).all()
        assert cold_caches._buffer().nbytes == 1 << 20
        assert os.sched_getaffinity(0) == before
    finally:
        cold_caches._buffer.cache_clear()


def test_stolen_time_is_the_part_that_the_host_took(tmp_path: Path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 10 0 5 35 77 0\ncpu0 1 2 3\n")
    before = processor_time(stat)
    assert before == ProcessorTime(1000, 35), "time of guests is already in that of users"
    stat.write_text("cpu  150 0 60 820 10 0 5 55 99 0\n")
    assert stolen(before, processor_time(stat)) == 0.2
    assert stolen(before, before) == 0


def test_a_system_that_does_not_count_stolen_time_took_nothing(tmp_path: Path):
    assert processor_time(tmp_path / "absent") == (0, 0)
    (tmp_path / "stat").write_text("cpu 1 2 3\n")
    assert processor_time(tmp_path / "stat") == (0, 0)
    assert processor_time().total >= processor_time().stolen >= 0
