"""Who cheats, or harms the machine, has no time and is told by name; it costs the others nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from pathlib import Path

import pytest

from harness.errors import VerificationError
from harness.run.worker import Worker
from tests._support.processes import ROOT, python
from tests.red_team import cheats, harm
from tests.red_team.detectors import OFF

GOOD = ("out-good", "also good")
CLUES = {**cheats.CLUES, **harm.CLUES}

RUN_ALL = """
import json, sys
from harness.experiment import Budget, Experiment, backend_contender, product_case
from harness.problem import Problem
from harness.run.runner import Patience, run
from harness.store.store import Store

names = sys.argv[2:]
everybody = [backend_contender(name) for name in names] + [backend_contender("out-good", label="also good")]
afterwards = [backend_contender("out-good"), backend_contender("out-lazy")]
cases = [product_case(Problem(24, 20, 16), everybody), product_case(Problem(5, 6, 7), afterwards)]
experiment = Experiment("plugins", "Who survives?", lambda preset, machine: cases, (), {"smoke": Budget(2, 5.0, 0.1)})
summary = run([experiment], "smoke", sys.argv[1], patience=Patience(100, 8, 15))
cells = [cell.record for cell in Store(summary.folder).cells("plugins")]
print(json.dumps([[cell["axes"]["n"], cell["contender"], cell] for cell in cells]))
"""


def processes_with(variable: str, value: str) -> list[str]:
    """Return the command line of every process that has `variable` in its environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{variable}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.fixture
def tree(tmp_path) -> Path:
    """Return a folder whose package of backends has two files, dropped there: quick to search."""
    folder = tmp_path / "dropped"
    cpu = folder / "backends" / "cpu"
    cpu.mkdir(parents=True)
    for package in (cpu, cpu.parent):
        (package / "__init__.py").touch()
    for module in (cheats, harm):
        shutil.copy(module.__file__, cpu)
    return folder


@pytest.fixture
def found(tree, tmp_path) -> dict[tuple[int, str], dict]:
    """Return the record of every cell of one run with all of them, by n and contender."""
    results, bomb, mark = tmp_path / "results", tree / "bomb", uuid.uuid4().hex
    environment = {"PYTHONPATH": f"{tree}{os.pathsep}{ROOT}", "BOMB": str(bomb), "A_TEST": mark}
    answer = python("-P", "-c", RUN_ALL, results, "out-good", *CLUES, cwd=tree, **environment)
    assert processes_with("A_TEST", mark) == []
    assert not bomb.exists()
    (line,) = answer.stdout.splitlines()
    return {(n, contender): record for n, contender, record in json.loads(line)}


@pytest.mark.deep
def test_who_cheats_has_no_time_and_the_reason_and_the_others_are_timed_as_ever(found, subtests):
    # One test: in two workers the run that it looks at would take place twice.
    for name, clue in CLUES.items():
        with subtests.test(name):
            record = found[20, name]
            assert (record["status"], record["samples_ns"]) == ("failed", [])
            assert clue in record["reason"]
            assert len(record["reason"]) < 3000
    for contender in GOOD:
        with subtests.test(contender):
            record = found[20, contender]
            assert (record["status"], record["reason"]) == ("ok", "")
            assert [len(process) for process in record["samples_ns"]] == [4]
            assert min(record["samples_ns"][0]) > 0
            assert record["threads_read"]["openblas"] == 1
            assert record["verified"]
    with subtests.test("the run goes on with the next case"):
        assert found[6, "out-good"]["status"] == "ok"
        assert found[6, "out-lazy"]["status"] == "failed"
    with subtests.test("every change is named"):
        reason = found[20, "out-change-all-that-can-be-changed"]["reason"]
        for what in ("directory", "umask", "handler (SIGTERM)", "handling of errors (", "locale"):
            assert what in reason


def test_without_what_detects_it_each_cheat_gets_through(subtests):
    judged = json.loads(python("-m", "tests.red_team.detectors").stdout)
    assert {name for name, *_ in judged} == cheats.CLUES.keys()
    assert {detector for _, detector, _ in judged} == OFF.keys()
    for name, detector, reason in judged:
        with subtests.test(f"{name} unless {detector}"):
            assert reason == ""


def test_work_on_another_stream_than_that_of_the_clock_is_told():
    own = Worker()
    own.prepare("tests._support.fake_queue:elsewhere", {}, threads=1)
    own.prove()
    own.sample(loops=1, count=2)
    with pytest.raises(VerificationError, match="it works where the clock does not look"):
        own.verify()


def test_a_clock_of_one_stage_is_no_reason_to_suspect_what_is_around_it():
    own = Worker()
    own.prepare("tests._support.planted_tasks:of_a_stage", {}, threads=1)
    own.prove()
    own.sample(loops=1, count=2)
    assert own.verify()


def test_the_page_for_judges_lists_every_cheat():
    page = (ROOT / "docs" / "judging.md").read_text()
    assert set(re.findall(r"^\| `(out-[a-z-]+)`", page, re.MULTILINE)) == cheats.CLUES.keys()
