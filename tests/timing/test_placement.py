"""Contenders of one thread are timed on the same core, and let go in the end."""

import os
import threading

import pytest

from harness.compare.calibration import SlowedTask, calls_ns
from harness.experiment import Budget, Contender, product_case
from harness.problem import Problem
from harness.run import trial
from harness.run.process.pool import Pool, Slot
from harness.timing import host

ALLOWED = sorted(os.sched_getaffinity(0))


def described(folder, file, speeds):
    for core, speed in speeds.items():
        path = folder / f"cpu{core}" / file
        path.parent.mkdir(parents=True)
        path.write_text(f"{speed}\n")
    return folder


@pytest.mark.parametrize(
    ("file", "speeds", "expected"),
    [
        ("cpu_capacity", {0: 1024, 1: 1024, 2: 446}, [1, 0]),
        ("cpufreq/cpuinfo_max_freq", {0: 5200000, 1: 5500000, 2: 3900000}, [1, 0]),
        ("cpufreq/cpuinfo_max_freq", {2: 3900000}, [2]),
        ("nothing", {0: 1, 1: 2}, [1, 0]),
        ("cpu_capacity", {0: "?", 1: 2}, [1, 0]),
    ],
)
def test_slow_cores_are_left_out_where_the_system_tells_them(tmp_path, file, speeds, expected):
    assert host.fastest_cores(list(speeds), described(tmp_path, file, speeds)) == expected


def test_all_threads_are_kept_on_one_core_and_let_go():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with host.on_one_core([os.getpid()], replicate=0) as core:
            assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id) == {core}
        assert sorted(os.sched_getaffinity(0)) == sorted(os.sched_getaffinity(thread.native_id)) == ALLOWED
    finally:
        done.set()


def test_they_are_let_go_after_an_error():
    with pytest.raises(ZeroDivisionError), host.on_one_core([os.getpid()], replicate=1):
        raise ZeroDivisionError
    assert sorted(os.sched_getaffinity(0)) == ALLOWED


def test_replicates_take_turns():
    with host.on_one_core([os.getpid()], 0) as first:
        pass
    with host.on_one_core([os.getpid()], len(host.fastest_cores(ALLOWED))) as again:
        pass
    with host.on_one_core([os.getpid()], 1) as other:
        pass
    assert first == again
    assert (other != first) == (len(host.fastest_cores(ALLOWED)) > 1)


def test_a_process_that_has_ended_is_passed_over():
    with host.on_one_core([2**22 + 1], 0) as core:
        assert core in ALLOWED


def test_nobody_is_kept_anywhere_without_processes_or_where_the_system_cannot(monkeypatch):
    with host.on_one_core([], 0) as core:
        assert core is None
    monkeypatch.delattr(os, "sched_setaffinity")
    with host.on_one_core([os.getpid()], 0) as core:
        assert core is None


def test_a_case_says_on_which_core_its_contenders_of_one_thread_were_timed():
    contenders = [Contender(str(t), {"backend": "cpu-numpy"}, threads=t) for t in (1, 2)]
    pool = Pool()
    try:
        outcomes, _ = trial.measure_case(
            product_case(Problem(8, 8, 8), contenders), Budget(1, 1.0, sample_ms=0.1), pool, trial.Patience()
        )
        numbers = [worker.number for worker in pool.processes([Slot("cpu-numpy", 0), Slot("cpu-numpy", 1)]).values()]
        assert [sorted(os.sched_getaffinity(number)) for number in numbers] == [ALLOWED, ALLOWED]
    finally:
        pool.kill()
    assert outcomes["1"].clock["core"] in ALLOWED
    assert "core" not in outcomes["2"].clock


class Counted:
    """A task that counts its calls and takes no time."""

    runs = 0

    def run(self):
        self.runs += 1

    wait = spoil = turn = verify = facts = lambda self: None


def test_what_is_planted_is_a_fraction_of_the_whole_call(monkeypatch):
    ticks = iter(range(0, 10**9, 100))
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(ticks))
    task = SlowedTask(Counted(), 0.5, calls_ns=300.0)
    for _ in range(50):
        task.run()
    assert next(ticks) / 50 == pytest.approx(300 + 0.5 * (100 + 300), rel=0.1)
    assert calls_ns(10) > 0
