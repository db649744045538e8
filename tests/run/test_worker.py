from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness.errors import Declined
from harness.machine import detect
from harness.run.process import WorkerFailed, WorkerProcess, call_all
from harness.run.process.pool import Pool, Slot
from harness.run.trial import Entrant
from harness.run.worker import MEMORY_FRACTION, MOST_PRINTED
from tests._support.processes import eventually

TASKS = "tests._support.planted_tasks:"
PATIENCE = 60.0


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    process = WorkerProcess()
    yield process
    process.kill()


def prepare(worker: WorkerProcess, task: str, timeout: float = PATIENCE, **arguments: object) -> dict[str, object]:
    return worker.call("prepare", timeout, task=TASKS + task, arguments=arguments, threads=1)


def state_of(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]


def is_running(pid: int) -> bool:
    try:
        return state_of(Path(f"/proc/{pid}/stat")) != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually_gone(pid: int) -> bool:
    return eventually(lambda: not is_running(pid))


def test_a_good_task_is_prepared_proven_sampled_and_released(worker):
    facts = prepare(worker, "good")
    assert facts["operations"] == 8
    assert facts["plan"]["pid"] not in (os.getpid(), None)
    proof = worker.call("prove", PATIENCE)
    assert proof["verified"] == "all 4 elements, exactly"
    assert proof["elapsed_ns"] > 0
    sampler = Entrant(worker, first_ns=proof["elapsed_ns"])
    samples = sampler.sample(10, 3)
    assert len(samples) == 3
    assert all(sample.ns > 0 for sample in samples)
    assert sampler.threads_read["openblas"] == 1
    assert worker.call("verify", PATIENCE) == "all 4 elements, exactly"
    worker.call("release", PATIENCE)
    assert prepare(worker, "good")["plan"] == facts["plan"], "the process lives on"


FAILURES = {
    "make_raise": "ZeroDivisionError: planted in the factory (planted_tasks.py:",
    "make_refuse": "planted: no such block size\n  expected  8\n  got       7",
    "no_such_task": "AttributeError: module 'tests._support.planted_tasks' has no attribute 'no_such_task' (worker.py:",
    "wrong": "planted: the result is wrong\n  expected  1.0\n  got       1.0",
    "write_nothing": "planted: the result is wrong\n  expected  1.0\n  got       nan",
}


@pytest.mark.parametrize("task", FAILURES)
def test_a_failure_has_a_reason_and_ends_the_process(worker, task):
    with pytest.raises(WorkerFailed) as caught:  # noqa: PT012 some fail in the one call and some in the other
        prepare(worker, task)
        worker.call("prove", PATIENCE)
    assert str(caught.value).startswith(FAILURES[task])
    assert not worker.is_alive


def test_a_failure_while_sampling_has_a_reason_too(worker):
    prepare(worker, "crash", after=2)
    worker.call("prove", PATIENCE)
    with pytest.raises(WorkerFailed, match="killed by SIGSEGV"):
        Entrant(worker).sample(1, 1)


def test_a_hang_is_ended(worker):
    pid = prepare(worker, "hang")["plan"]["pid"]
    with pytest.raises(WorkerFailed, match=r"no answer within 0\.2 s \(hang\)"):
        worker.call("prove", 0.2)
    assert not is_running(pid)


def test_a_call_that_forks_and_comes_back_twice_is_answered_once(worker):
    prepare(worker, "come_back_twice")
    assert worker.call("prove", PATIENCE)["verified"]
    worker.call("release", PATIENCE)
    assert prepare(worker, "good")["operations"] == 8


def test_a_worker_cannot_take_the_whole_machine(worker):
    facts = prepare(worker, "inquire")
    assert facts["RLIMIT_CORE"] == [0, 0]
    assert facts["RLIMIT_FSIZE"] == [MOST_PRINTED, facts["RLIMIT_DATA"][1]]
    soft, hard = facts["RLIMIT_DATA"]
    assert 0 < soft == hard <= detect().memory * MEMORY_FRACTION
    assert facts["first to go"] == "1000"


@pytest.mark.parametrize("status", ["declined", "missing"])
def test_to_decline_is_no_failure(worker, status):
    with pytest.raises(Declined, match="planted: out of scope") as caught:
        prepare(worker, "decline", status=status)
    assert caught.value.status == status
    prepare(worker, "good")


def test_what_a_task_prints_disturbs_nobody(worker, capfd):
    prepare(worker, "talk")
    assert worker.call("prove", PATIENCE)["verified"]
    worker.call("sample", PATIENCE, loops=3, count=2)
    assert capfd.readouterr() == ("", "")


def test_the_reason_holds_only_the_end_of_what_was_printed(worker):
    prepare(worker, "talk")
    worker.call("prove", PATIENCE)
    with pytest.raises(WorkerFailed) as caught:
        worker.call("no_such_command", PATIENCE)
    assert len(str(caught.value)) < 2000


def test_a_process_is_stopped_while_it_has_nothing_to_do(worker):
    pid = prepare(worker, "good")["plan"]["pid"]
    eventually(lambda: state_of(Path(f"/proc/{pid}/stat")) == "T")


def test_calls_are_made_together_and_answered_each(worker):
    others = [WorkerProcess() for _ in range(2)]
    try:
        tasks = dict(zip(["good", "decline", "make_raise"], [worker, *others], strict=True))
        arguments = {task: {"task": TASKS + task, "arguments": {}, "threads": 1} for task in tasks}
        answers = call_all(tasks, "prepare", PATIENCE, arguments, at_once=2)
    finally:
        for other in others:
            other.kill()
    assert answers["good"]["operations"] == 8
    assert isinstance(answers["decline"], Declined)
    assert isinstance(answers["make_raise"], WorkerFailed)
    assert call_all({}, "prepare", PATIENCE, {}, at_once=2) == {}


def test_the_pool_keeps_processes_and_replaces_dead_ones(tmp_path):
    pool = Pool()
    try:
        a, b, elsewhere = Slot("a"), Slot("b"), Slot("b", source=tmp_path)
        first = pool.processes([a, b, elsewhere])
        first[a].kill()
        second = pool.processes([a, b])
        assert second[b] is first[b] is not first[elsewhere]
        assert second[a] is not first[a]
        assert second[a].is_alive
    finally:
        pool.kill()
    assert not second[b].is_alive


def test_workers_end_with_a_killed_parent():
    program = (
        "from harness.run.process import WorkerProcess; import os, time\n"
        f"w = WorkerProcess(); facts = w.call('prepare', 60, task='{TASKS}good', arguments={{}}, threads=1)\n"
        "print(facts['plan']['pid'], flush=True); w.begin('no_matter', 60); time.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert eventually_gone(pid)


@pytest.mark.skipif(detect().cores < 2, reason="several threads need several cores")
def test_a_turn_of_several_threads_ends_with_all_of_them_stopped_though_one_would_spin_on(worker):
    worker.call("prepare", PATIENCE, task=TASKS + "spinning", arguments={}, threads=2)
    for _ in range(5):
        worker.call("sample", PATIENCE, loops=1, count=1)
        states = [state_of(path) for path in Path(f"/proc/{worker.number}/task").glob("*/stat")]
        assert len(states) >= 2, "the one that spins has not ended"
        assert set(states) == {"T"}


@pytest.mark.parametrize(
    ("moved", "stays", "is_suspect"),
    [
        pytest.param(8, False, True, id="and no more"),
        pytest.param(1 << 29, False, False, id="as cold memory does"),
        pytest.param(8, True, False, id="as any call on a machine that has become slow"),
    ],
)
def test_new_operands_may_take_as_long_as_their_memory_and_the_machine_do(worker, moved, stays, is_suspect):
    prepare(worker, "cold", seconds=0.03, moved=moved, stays=stays)
    worker.call("prove", PATIENCE)
    Entrant(worker, first_ns=1000).sample(10, 3)
    with pytest.raises(WorkerFailed, match="keeps results") if is_suspect else nullcontext():
        worker.call("verify", PATIENCE)
