"""The wait for free cores: how long, when it gives up, and what it records; and that a loop on them is measured."""

import dataclasses

import pytest

from harness.analysis import conditions
from harness.errors import Declined
from harness.machine import detect
from harness.run import all_cores
from harness.run.all_cores import BETWEEN_S, OF_A_CASE_S, OF_A_RUN_S, Gate
from harness.run.process import WorkerFailed, WorkerProcess
from tests._support.planted_store import read_cell


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gate(clock):
    return Gate(clock.sleep, lambda: clock.now)


def of(gains):
    """Return what reads the next of `gains`, and the last one for ever."""
    left = list(gains)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_free_cores_are_not_waited_for(gate, clock):
    assert gate.wait(2, of([1.93])) == {"threads": 2, "gain": 1.93, "waited_s": 0.0}
    assert clock.now == 0


def test_it_goes_on_when_the_core_is_back(gate):
    seen = gate.wait(2, of([1.0, 1.1, 1.79, 1.8]))
    assert seen == {"threads": 2, "gain": 1.8, "waited_s": 3 * BETWEEN_S}


def test_it_gives_up_after_its_time_and_records_what_it_saw(gate, clock):
    assert gate.wait(16, of([9.0])) == {"threads": 16, "gain": 9.0, "waited_s": OF_A_CASE_S}
    assert clock.now == OF_A_CASE_S


def test_all_cases_of_a_run_together_wait_no_longer_than_its_bound(gate, clock):
    late = [1.0] * int(OF_A_CASE_S / BETWEEN_S) + [1.9]
    waits = [gate.wait(2, of(late))["waited_s"] for _ in range(20)]
    assert waits[:6] == [OF_A_CASE_S] * 6
    assert sum(waits) == clock.now == OF_A_RUN_S
    assert waits[-1] == 0


def test_after_a_wait_in_vain_the_next_is_shorter_until_cores_are_seen_free(gate):
    waits = [gate.wait(16, of([gain]))["waited_s"] for gain in (8.0, 8.0, 8.0, 15.0, 8.0)]
    assert waits == [10.0, 2.5, 0.5, 0.0, 10.0]


@pytest.mark.parametrize(("preset", "waited_s"), [("smoke", 0.0), ("quick", OF_A_CASE_S), ("full", OF_A_CASE_S)])
def test_only_times_that_are_evidence_are_waited_for(preset, waited_s, clock):
    gate = Gate.of_preset(preset)
    gate._sleep, gate._now = clock.sleep, lambda: clock.now
    assert gate.wait(2, of([1.0])) == {"threads": 2, "gain": 1.0, "waited_s": waited_s}


@pytest.mark.parametrize("error", [Declined("declined", "no vector code"), WorkerFailed("killed")])
def test_where_the_loop_cannot_run_nothing_is_said(gate, error):
    def fail():
        raise error

    assert gate.wait(2, fail) == {}


@pytest.mark.skipif(detect().cores < 2, reason="one core")
def test_the_loop_is_measured_in_a_process():
    worker = WorkerProcess()
    try:
        assert all_cores.gain(worker, 2, 120.0) > 0
    finally:
        worker.kill()


def test_cells_measured_beside_other_work_say_so():
    quiet, busy = ({"all_cores": {"threads": 2, "gain": gain, "waited_s": 0}} for gain in (1.81, 1.31))
    assert conditions.marks(quiet) == conditions.marks({}) == conditions.marks({"all_cores": {}}) == []
    assert conditions.marks(busy) == ["cores not free: 2 threads of a register loop do 1.31 times the work"]
    assert conditions.FREE_CORES == all_cores.ENOUGH


@pytest.mark.parametrize(
    ("threads", "planned", "share", "said"),
    [
        (2, 2, 1.98, ""),
        (2, 2, 1.0, "1 of 2 threads"),
        (2, 1, None, "1 of 2 threads"),
        (1, 1, 1.0, ""),
        (2, 2, None, ""),
    ],
)
def test_a_contender_that_used_one_thread_of_several_is_marked(threads, planned, share, said):
    record = {"readings": {"cpu_share": [[share, share]]}} if share else {}
    cell = read_cell(record, status="ok", threads=threads, facts={"plan": {"threads": planned}}, axes={}, arguments={})
    assert conditions.one_of_several(cell) == said
    assert conditions.one_of_several(dataclasses.replace(cell, status="failed")) == ""
