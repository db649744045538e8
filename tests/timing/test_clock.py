from __future__ import annotations

import gc
import time

import pytest

from harness.timing.clock import CoreFrequency, CpuClock


def test_runs_and_waits_as_often_as_it_is_told_and_in_turn():
    calls: list[str] = []
    CpuClock().sample(lambda: calls.append("run"), lambda: calls.append("wait"), 3)
    assert calls == ["run", "wait"] * 3


def test_covers_run_and_wait_and_is_per_call():
    sample = CpuClock().sample(lambda: time.sleep(0.002), lambda: time.sleep(0.003), 2)
    assert sample.ns >= 5e6


def test_reads_how_much_of_the_time_the_process_had_a_processor():
    def work() -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            sum(range(20_000))

    idle = CpuClock().sample(lambda: time.sleep(0.02), lambda: None, 1)
    busy = CpuClock().sample(work, lambda: None, 1)
    half = CpuClock().sample(work, lambda: time.sleep(0.2), 1)
    assert idle.readings["cpu_share"] < 0.5
    for sample in (busy, half):  # whatever share a busy machine leaves
        assert sample.readings["cpu_share"] == pytest.approx(20e6 / sample.ns, rel=0.3), "processor time over time"
    assert "cpu_share" not in CpuClock().sample(lambda: None, lambda: None, 1).readings, "too short to be counted"


def test_reads_how_often_it_had_to_make_way():
    assert CpuClock().sample(lambda: None, lambda: None, 1).readings["preempted"] >= 0


def test_reads_the_clock_of_the_core_where_the_system_tells(tmp_path):
    for core, khz in enumerate(("3100400\n", "1500000\n")):
        folder = tmp_path / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(khz)
    core = 0
    frequency = CoreFrequency(tmp_path, lambda: core)
    clock = CpuClock(frequency)
    assert clock.sample(lambda: None, lambda: None, 1).readings["mhz"] == 3100
    core = 1
    assert clock.sample(lambda: None, lambda: None, 1).readings["mhz"] == 1500
    (tmp_path / "cpu1" / "cpufreq" / "scaling_cur_freq").write_text("900000\n")
    assert frequency.mhz() == 900, "read anew each time"
    core = 2
    assert frequency.mhz() == 0, "a core that is off"
    (tmp_path / "cpu1" / "cpufreq" / "scaling_cur_freq").write_text("<unknown>\n")
    core = 1
    assert frequency.mhz() == 0


def test_no_clock_of_the_core_is_read_where_the_system_does_not_tell(tmp_path):
    clock = CpuClock(CoreFrequency(tmp_path, lambda: 0))
    assert "mhz" not in clock.sample(lambda: None, lambda: None, 1).readings
    assert CoreFrequency().mhz() >= 0


def test_no_garbage_is_collected_while_it_runs_and_it_is_again_afterwards():
    seen: list[bool] = []
    CpuClock().sample(lambda: seen.append(gc.isenabled()), lambda: None, 1)
    assert seen == [False]
    assert gc.isenabled()


def test_the_collector_comes_back_after_an_exception_and_stays_off_if_it_was():
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        CpuClock().sample(fail, lambda: None, 1)
    assert gc.isenabled()
    gc.disable()
    try:
        CpuClock().sample(lambda: None, lambda: None, 1)
        assert not gc.isenabled()
    finally:
        gc.enable()
