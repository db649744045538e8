from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.analysis import rates, rivals
from harness.analysis.conditions import marks
from harness.errors import StoreError
from harness.experiment import Budget, Case, Contender, Experiment
from harness.machine import detect
from harness.run import runner, trial
from harness.run.process import WorkerProcess
from harness.run.process.other_trees import full_name
from harness.run.process.pool import Pool
from harness.run.runner import Observer, Summary
from harness.run.trial import Patience
from harness.store import schema
from harness.store.store import Cell, Store
from tests._support.fake_queue import LAUNCH_NS, TOLD
from tests._support.processes import ROOT, eventually

TASKS = "tests._support.planted_tasks:"
BUDGET = Budget(rounds=2, seconds=20.0, sample_ms=0.0)


def contender(task: str, label: str = "", **arguments: Any) -> Contender:
    return Contender(label or task, arguments, task=TASKS + task)


def experiment(*cases: Case, name: str = "planted", budget: Budget = BUDGET) -> Experiment:
    return Experiment(name, "Does it hold?", lambda preset, machine: list(cases), (), {"smoke": budget})


def case(*tasks: str, n: int = 1) -> Case:
    return Case({"n": n}, tuple(contender(task) for task in tasks))


def run(root: Path, *experiments: Experiment, **options: Any) -> Summary:
    return runner.run(experiments, "smoke", root, **options)


def cells(summary: Summary) -> dict[str, Cell]:
    return {cell.contender: cell for cell in Store(summary.folder).cells()}


class Log(Observer):
    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def run_started(self, run: str, *, is_resumed: bool, cases: int, seconds: float) -> None:
        self.lines.append(("run", is_resumed, cases))

    def experiment_started(self, experiment: str, cases: int) -> None:
        self.lines.append(("experiment", experiment, cases))

    def case_started(self, experiment: str, case: Case) -> None:
        self.lines.append(("case", case.axes["n"]))

    def cell_failed(self, experiment: str, case: Case, contender: str, status: str, reason: str) -> None:
        self.lines.append(("cell", contender, status, reason.splitlines()[0]))

    def case_done(self, experiment: str, case: Case, *, was_recorded: bool, seconds: float) -> None:
        self.lines.append(("done", case.axes["n"], was_recorded))

    def notice(self, text: str) -> None:
        self.lines.append(("notice", text))


def test_a_product_is_measured_and_recorded_with_all_that_explains_it(tmp_path):
    from harness.experiment import backend_contender, product_case
    from harness.problem import Problem

    product = product_case(Problem(8, 9, 7), [backend_contender("cpu-naive")], kind="tiny")
    cell = cells(run(tmp_path, experiment(product)))["cpu-naive"]
    assert cell.status == "ok", cell.reason
    assert cell.axes["kind"] == "tiny"
    assert cell.rate > 0
    assert [len(process) for process in cell.samples_ns] == [4]
    machine = detect()
    assert cell.machine == machine.key == Store(tmp_path / machine.slug / "smoke").machine().key
    record = cell.record
    assert (record["processes"], record["rounds"], record["unmet"]) == (1, 2, "")
    assert record["threads_read"]["numba"] == 1
    assert record["verified"]
    assert len(record["load"]) == 2
    assert {*schema.FIELDS["cell"], "schema", "kind"} == set(record), "nothing that the schema does not list"
    assert record["series"] == "hot"
    assert [len(own) for own in record["readings"]["preempted"]] == [4], "one for each sample"
    assert record["warm_up_calls"][0] >= 2 * record["loops"][0] >= 2
    assert record["clock"] == {"name": "host", "core": record["clock"]["core"]}
    assert 0 <= record["stolen"] <= 1
    assert Budget(**record["budget"]) == BUDGET
    assert marks(record) is not None


def test_a_case_is_rebuilt_from_its_records(tmp_path):
    planted = Case({"n": 3}, (contender("also"), contender("good", "b", x=[1]), contender("crash")), {"seed": 5}, "b")
    records = [cell.record for cell in cells(run(tmp_path, experiment(planted))).values()]
    contenders = tuple(Contender(r["contender"], r["arguments"], r["threads"], r["task"]) for r in records)
    rebuilt = Case(records[0]["axes"], contenders, records[0]["case_arguments"], records[0]["reference"])
    assert rebuilt == planted
    assert {record["case"] for record in records} == {rebuilt.key}
    assert {record["seed"] for record in records} == {5}


def test_a_product_is_computed_again_from_its_record(tmp_path):
    from harness.experiment import backend_contender, product_case
    from harness.problem import Problem

    product = product_case(Problem(8, 9, 7), [backend_contender("cpu-tiled", reuse=2)], seed=3)
    record = cells(run(tmp_path, experiment(product)))["cpu-tiled"].record
    module, _, function = full_name(record["task"]).partition(":")
    make = getattr(importlib.import_module(module), function)
    task = make(threads=record["threads"], **record["case_arguments"], **record["arguments"])
    task.run()
    task.wait()
    assert task.verify() == record["verified"]
    assert json.loads(json.dumps(task.facts(), default=dict)) == record["facts"]
    assert record["seed"] == 3


def test_the_key_of_a_case_does_not_tell_where_the_module_of_its_task_lies():
    before, after, other = (
        Case({"n": 1}, (Contender("a", task=task),)) for task in ("gemm", "elsewhere.task:gemm", "x:product")
    )
    assert before.key == after.key != other.key


def test_whoever_fails_has_a_reason_and_no_time_and_the_others_go_on(tmp_path):
    late = {"after": 4}
    contenders = (
        contender("good"),
        contender("crash"),
        contender("leave", "leave while timed", **late),
        contender("wrong"),
        contender("wrong", "wrong at the end", after=5),
        contender("decline"),
        contender("decline", "missing", status="missing"),
        contender("good", "also good"),
    )
    log = Log()
    summary = run(tmp_path, experiment(Case({"n": 1}, contenders), case("good", n=2)), observer=log)
    found = {cell.contender: cell for cell in Store(summary.folder).cells() if cell.axes["n"] == 1}
    assert {label: cell.status for label, cell in found.items()} == {
        "good": "ok",
        "crash": "failed",
        "leave while timed": "failed",
        "wrong": "failed",
        "wrong at the end": "failed",
        "decline": "declined",
        "missing": "missing",
        "also good": "ok",
    }
    for cell in found.values():
        assert bool(cell.reason) == (not cell.is_ok) == (cell.samples_ns == [])
    assert found["leave while timed"].reason.startswith("exited with status 3")
    assert "wrong" in found["wrong at the end"].reason
    assert len(found["good"].all_samples_ns) == len(found["also good"].all_samples_ns) == 4
    assert summary.counts == {"ok": 3, "failed": 4, "declined": 1, "missing": 1}
    where = ("notice", f"results go to {summary.folder}")
    assert log.lines[:4] == [where, ("run", False, 2), ("experiment", "planted", 2), ("case", 1)]
    assert ("cell", "crash", "failed", "killed by SIGSEGV") in log.lines
    assert log.lines[-1] == ("done", 2, False)


def test_replicates_are_processes_with_samples_of_their_own(tmp_path):
    twice = Budget(rounds=2, seconds=20.0, sample_ms=0.0, processes=2)
    leaver = contender("leave", "leaves", after=1)
    found = cells(run(tmp_path, experiment(Case({"n": 1}, (contender("good"), leaver)), budget=twice)))
    assert [len(process) for process in found["good"].samples_ns] == [4, 4]
    assert found["good"].record["processes"] == 2
    assert found["leaves"].status == "failed"


TWICE = Budget(rounds=1, seconds=20.0, sample_ms=0.0, processes=2)


def test_processes_of_a_fresh_budget_serve_one_case_and_others_live_on(tmp_path):
    cases = [case("once", n=n) for n in (1, 2)]
    summary = run(tmp_path, experiment(*cases, budget=dataclasses.replace(TWICE, fresh=True)))
    assert summary.counts == {"ok": 2}, "a second task in the same process would have been refused"
    for processes in (1, 2):
        reused = dataclasses.replace(TWICE, processes=processes)
        summary = run(tmp_path / str(processes), experiment(*cases, budget=reused))
        assert summary.counts == {"ok": 1, "failed": 1}


@pytest.fixture
def pool():
    made = Pool()
    yield made
    made.kill()


def test_each_of_several_processes_serves_case_after_case_in_its_own_turn(pool):
    last = []
    for n in (1, 2, 3):
        entrants, measurements = trial.measure_case(case("good", "also", n=n), TWICE, pool, Patience())
        assert len(measurements) == 2
        last.append([entrants[label].facts["plan"]["pid"] for label in ("good", "also")])
    workers = pool._workers
    assert len({worker.number for worker in workers.values()}) == 4, "no two contenders or turns share a process"
    assert [[w.number for slot, w in workers.items() if slot.replicate == 1]] * 3 == last


def test_a_process_that_dies_in_one_case_is_another_in_the_next(pool):
    def measured(n, after):
        planted = Case({"n": n}, (contender("leave", after=after), contender("good")))
        return trial.measure_case(planted, TWICE, pool, Patience())[0]

    died = measured(1, after=1)
    assert (died["leave"].status, died["good"].status) == ("failed", "ok")
    others = {slot: worker.number for slot, worker in pool._workers.items() if "good" in slot.task}
    again = measured(2, after=99)
    assert (again["leave"].status, again["good"].status) == ("ok", "ok")
    assert {slot: worker.number for slot, worker in pool._workers.items() if "good" in slot.task} == others


def test_the_cold_series_stands_elsewhere_under_another_name_and_is_one_call_a_sample(tmp_path):
    hot = Case({"n": 1}, (contender("good"), contender("good", "also good")), reference="also good")
    long = Budget(rounds=2, seconds=20.0, sample_ms=0.1)
    summary = run(tmp_path, experiment(hot, hot.cold(), budget=long))
    found = Store(summary.folder).cells()
    assert [(c.axes.get("series"), c.contender, c.status) for c in found] == [
        (None, "good", "ok"),
        (None, "also good", "ok"),
        ("cold", "good (cold)", "ok"),
        ("cold", "also good (cold)", "ok"),
    ]
    assert [cell.record["series"] for cell in found] == ["hot", "hot", "cold", "cold"]
    assert [cell.record["loops"] == [1] for cell in found] == [False, False, True, True]
    assert len({cell.key for cell in found}) == 4
    for cell, partner in zip(found, [1, 1, 3, 3], strict=True):
        reference = rates.reference_of(cell, found)
        assert reference is found[partner], "a ratio never joins two series"
        assert rivals.fastest_other(cell, found).record["series"] == cell.record["series"]


def test_what_a_device_computes_is_timed_on_the_device(tmp_path):
    on_device = Contender("gpu", {"call_ns": 3000.0}, task="tests._support.fake_queue:on_device")
    hot = Case({"n": 1}, (on_device, contender("good")))
    found = cells(run(tmp_path, experiment(hot, hot.cold())))
    assert found["gpu"].all_samples_ns == [3000.0] * 4
    assert found["gpu (cold)"].all_samples_ns == [9000.0] * 4
    record = found["gpu"].record
    assert record["clock"].items() >= {"name": "fake events", "nominal_mhz": 1980.0, "timeouts": 0}.items()
    told = {name: [[value] * 4] for name, value in TOLD.items()}
    assert record["readings"] == {"is_queued": [[1] * 4], "launch_ns": [[LAUNCH_NS] * 4], **told}
    assert "at its power limit in 4 of 4 samples" in marks(record)
    assert "throttled in 4 of 4 samples" in marks(record)  # beside whatever the machine did meanwhile
    assert found["good"].record["clock"]["name"] == "host"


def test_a_case_is_measured_until_its_ratios_are_precise_or_says_of_whom_they_are_not(tmp_path):
    devices = [Contender(f"gpu {ns}", {"call_ns": ns}, task="tests._support.fake_queue:on_device") for ns in (3e3, 4e3)]
    steady = Case({"n": 1}, tuple(devices))
    exact = Budget(rounds=2, seconds=20.0, sample_ms=0.0, precision=1e-9)
    found = cells(run(tmp_path / "steady", experiment(steady, budget=exact)))
    assert [cell.record["unmet"] for cell in found.values()] == ["", ""]
    assert {cell.record["rounds"] for cell in found.values()} == {2}
    hurried = Budget(rounds=1, seconds=1.0, sample_ms=0.0, precision=1e-9)
    found = cells(run(tmp_path / "noisy", experiment(case("good", "also"), budget=hurried)))
    assert found["good"].record["unmet"] == ""
    assert re.fullmatch(
        r"precision: interval of its ratio to good is ±\S+ %, wanted ±1e-07 %", found["also"].record["unmet"]
    )
    assert found["also"].record["rounds"] > 1


def test_what_another_budget_measured_is_measured_again(tmp_path):
    planted = experiment(case("good", n=1), case("good", n=2))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(2))
    more = experiment(case("good", n=1), case("good", n=2), budget=Budget(rounds=3, seconds=20.0, sample_ms=0.0))
    summary = run(tmp_path, more)
    assert summary.is_resumed
    assert (summary.recorded, summary.counts) == (0, {"ok": 2})


@pytest.mark.parametrize(("task", "patience"), [("make_hang", Patience(prepare=4)), ("hang", Patience(prove=0.5))])
def test_a_hang_costs_one_cell(tmp_path, task, patience):
    found = cells(run(tmp_path, experiment(case("good", task)), patience=patience))
    assert found["good"].is_ok, found["good"].reason
    assert "(hang)" in found[task].reason


def test_a_hang_while_timed_costs_one_cell(tmp_path):
    late = Case({"n": 1}, (contender("good"), contender("hang", after=3)))
    found = cells(run(tmp_path, experiment(late), patience=Patience(sample=0.5)))
    assert found["good"].is_ok, found["good"].reason
    assert "(hang)" in found["hang"].reason


def test_a_finished_run_is_followed_by_a_new_one(tmp_path):
    planted = experiment(case("good"))
    first, second = run(tmp_path, planted), run(tmp_path, planted)
    assert first.run < second.run
    assert not second.is_resumed
    assert second.counts == {"ok": 1}
    assert [cell.run for cell in Store(second.folder).cells()] == [second.run]


class Stop(Observer):
    """Interrupts the run, as Ctrl-C does, when the case at `n` begins."""

    def __init__(self, n: int) -> None:
        self.n = n

    def case_started(self, experiment: str, case: Case) -> None:
        if case.axes["n"] == self.n:
            raise KeyboardInterrupt


def test_an_interrupted_run_keeps_what_it_has_and_is_resumed(tmp_path):
    planted = experiment(*(case("good", "wrong", n=n) for n in (1, 2, 3)))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(3))
    store = Store(tmp_path / detect().slug / "smoke")
    before = store.cells()
    assert len(before) == 4
    log = Log()
    summary = run(tmp_path, planted, observer=log)
    assert summary.is_resumed
    assert (summary.run, summary.recorded) == (before[0].run, 4)
    assert summary.counts == {"ok": 1, "failed": 1}
    assert [line for line in log.lines if line[0] == "done"] == [
        ("done", 1, True),
        ("done", 2, True),
        ("done", 3, False),
    ]
    after = store.cells()
    assert len(after) == 6
    assert [cell.record for cell in after[:4]] == [cell.record for cell in before]


def test_a_fresh_run_resumes_nothing(tmp_path):
    planted = experiment(case("good", n=1), case("good", n=2))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(2))
    summary = run(tmp_path, planted, fresh=True)
    assert not summary.is_resumed
    assert summary.counts == {"ok": 2}


def test_what_other_code_measured_is_measured_again(tmp_path, monkeypatch):
    planted = experiment(case("good", n=1), case("good", n=2))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(2))
    monkeypatch.setattr("harness.run.provenance.source_digest", lambda: "changed")
    summary = run(tmp_path, planted)
    assert summary.is_resumed
    assert (summary.recorded, summary.counts) == (0, {"ok": 2})


def test_what_is_named_is_measured_alone(tmp_path):
    planted = experiment(case("good", "wrong", "decline", n=1), case("good", "crash", n=2))
    summary = run(tmp_path, planted, only=["decline"])
    assert {(c.axes["n"], c.contender) for c in Store(summary.folder).cells()} == {(1, "decline")}


def test_a_run_of_a_part_replaces_only_what_it_measures_as_a_whole(tmp_path):
    planted = experiment(case("good", "wrong", "decline", n=1), case("good", "wrong", n=2))
    whole = run(tmp_path, planted)
    before = [cell.record for cell in Store(whole.folder).cells()]
    part = run(tmp_path, planted, only=["decline"])
    assert [cell.record for cell in Store(part.folder).cells()] == before
    measured = [cell for cell in Store(part.folder).every_cell() if cell.run == part.run]
    assert [(cell.contender, cell.record["left_out"]) for cell in measured] == [("decline", ["good", "wrong"])]
    place = run(tmp_path, planted, where={"n": ["2"]})
    assert {(cell.axes["n"], cell.run) for cell in Store(place.folder).cells()} == {(1, whole.run), (2, place.run)}
    every_contender = run(tmp_path, planted, only=["good", "wrong", "decline"])
    assert {cell.run for cell in Store(place.folder).cells()} == {every_contender.run}, "a case without left-out ones"


@pytest.mark.parametrize("options", [{"only": ["good"]}, {"where": {"n": ["1"]}}])
def test_a_part_resumes_no_run_of_all_and_is_resumed_by_none(tmp_path, options):
    planted = experiment(case("good", n=1), case("good", n=2))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(2))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(1), **options)
    assert run(tmp_path, planted, **options).is_resumed
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(1), **options)
    assert not run(tmp_path, planted).is_resumed


def test_a_torn_line_is_a_notice(tmp_path):
    planted = experiment(case("good", n=1), case("good", n=2))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(2))
    with (tmp_path / detect().slug / "smoke" / "planted.jsonl").open("a") as file:
        file.write('{"schema":5,"ki')
    log = Log()
    run(tmp_path, planted, observer=log)
    assert [line for line in log.lines if line[0] == "notice"]


@pytest.mark.deep(but=4)
@pytest.mark.parametrize("name", ["planted", "runs"])
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("line", [b"hello", b"\0\0\0", b"\x80\x81", b'{"schema":4,"kind":"cell"}'])
def test_what_could_not_be_read_afterwards_is_said_before_anything_is_measured(tmp_path, name, fresh, line):
    planted, log = experiment(case("good", n=1)), Log()
    run(tmp_path, planted)
    path = tmp_path / detect().slug / "smoke" / f"{name}.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"{name}\.jsonl: line \d is no "):
        run(tmp_path, planted, observer=log, fresh=fresh)
    assert log.lines == []
    assert path.read_bytes() == before


def test_no_process_is_left_behind(tmp_path, monkeypatch):
    workers: list[WorkerProcess] = []
    kill = Pool.kill

    def watched(pool: Pool) -> None:
        workers.extend(pool._workers.values())
        kill(pool)

    monkeypatch.setattr(Pool, "kill", watched)
    planted = experiment(case("good", n=1), case("good", n=2))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, planted, observer=Stop(2))
    assert workers
    assert not any(worker.is_alive for worker in workers)


def test_a_second_run_on_the_same_results_is_refused(tmp_path):
    with (
        Store(tmp_path / detect().slug / "smoke").exclusive(),
        pytest.raises(StoreError, match="another run"),
    ):
        run(tmp_path, experiment(case("good")))


ENDLESS_RUN = """
import sys
from pathlib import Path

from harness.run import provenance
from tests.run.test_runner import case, experiment, run

provenance.source_digest = lambda: "same"
run(Path(sys.argv[1]), experiment(*(case("good", n=n) for n in range(1000))))
"""


def test_a_run_that_was_killed_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.run.provenance.source_digest", lambda: "same")
    with subprocess.Popen([sys.executable, "-c", ENDLESS_RUN, tmp_path], cwd=ROOT) as process:
        file = tmp_path / detect().slug / "smoke" / "planted.jsonl"
        eventually(lambda: file.exists() and file.read_bytes().count(b"\n") > 5, process)
        os.kill(process.pid, signal.SIGKILL)
    recorded = {cell.axes["n"] for cell in Store(file.parent).cells()}
    summary = run(tmp_path, experiment(*(case("good", n=n) for n in range(max(recorded) + 2))))
    assert summary.is_resumed
    assert summary.recorded == len(recorded)
    assert summary.counts == {"ok": 1}


@pytest.mark.parametrize(("cores", "gib", "expected"), [(1, 1, 2), (2, 8, 2), (16, 128, 8), (64, 32, 4)])
def test_so_many_processes_prove_at_once_as_cores_and_memory_allow(cores, gib, expected):
    machine = dataclasses.replace(detect(), cores=cores, memory=gib << 30)
    assert trial._at_once(machine) == expected
