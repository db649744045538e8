"""Processes that no case needs live on for a later one, within a number and a number of bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.machine import detect
from harness.run import descendants
from harness.run.memory import available_memory
from harness.run.process import pool as pool_module
from harness.run.process.pool import Pool, Slot

SLOTS = [Slot("gemm", number) for number in range(4)]
SIZE = 64 << 20
# Touches SIZE bytes, says so, and waits to be ended.
HOLDER = f"held = bytearray(b'x') * {SIZE}; print('holds', flush=True); input()"

needs_proc = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not tell memory")


@pytest.fixture
def pool():
    made = Pool(idle_bytes=1 << 40)
    yield made
    made.kill()


def alive_of(pool):
    """Use every slot in turn, and return which processes live on."""
    workers = [pool.processes([slot])[slot] for slot in SLOTS]
    return [worker.is_alive for worker in workers]


def test_idle_processes_live_on_up_to_a_number(pool):
    assert alive_of(pool) == [True] * 4
    pool._idle_processes = 2
    workers = dict(pool._workers)
    pool.processes([SLOTS[0]])
    assert [workers[slot].is_alive for slot in SLOTS] == [True, False, True, True], "the longest unused ends"


def test_few_idle_processes_hold_memory_of_a_device(pool, monkeypatch):
    monkeypatch.setattr(pool_module, "IDLE_ON_DEVICE", 1)
    slots = [Slot("gpu-tuned", number, is_on_device=True) for number in range(3)]
    workers = [pool.processes([slot])[slot] for slot in [SLOTS[0], *slots]]
    assert [worker.is_alive for worker in workers] == [False, False, True, True]


@needs_proc
def test_idle_processes_end_that_hold_too_much_though_few(pool):
    pool._idle_bytes = 1
    assert alive_of(pool) == [False, False, False, True], "what a case needs is never ended"


def test_idle_processes_may_hold_a_part_of_the_memory_by_default():
    assert Pool()._idle_bytes == int(available_memory() * pool_module.IDLE_PART) < detect().memory / 2


@needs_proc
def test_the_processes_that_a_worker_has_started_count_as_its_own(pool):
    first, second = pool.processes(SLOTS[:2]).values()
    command = [sys.executable, "-S", "-c", HOLDER]
    environment = {**os.environ, descendants.MARK: first.mark}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        held = descendants.memory_of([first.mark, second.mark])
        assert held[first.mark] - held[second.mark] == pytest.approx(SIZE, rel=0.3)
        pool._idle_bytes = held[second.mark] + SIZE // 2
        pool.processes(SLOTS[2:3])
        assert (first.is_alive, second.is_alive) == (False, True)
        assert holder.wait(60) != 0, "what it has started ends with it"


def test_what_detached_itself_while_a_worker_ended_has_been_waited_for(pool):
    """The parent of an orphan takes a new session and ends at once, as the launcher of ranks does when it is killed."""
    with descendants.adopting():
        (worker,) = pool.processes(SLOTS[:1]).values()
        fork = "import os, time; os.setsid(); pid = os.fork(); pid or (os.close(1), time.sleep(60)); print(pid)"
        environment = {**os.environ, descendants.MARK: worker.mark}
        with descendants.ending_with(worker.number, worker.mark):
            orphan = int(subprocess.check_output([sys.executable, "-S", "-c", fork], env=environment))
            assert Path(f"/proc/{orphan}").exists()
        assert not Path(f"/proc/{orphan}").exists(), "running, or ended and not waited for"


def test_without_idle_processes_nothing_is_looked_at(monkeypatch):
    monkeypatch.setattr(descendants, "_numbers", None)
    assert descendants.memory_of([]) == {}
