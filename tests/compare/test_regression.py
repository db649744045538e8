"""Two revisions measured against each other: a planted slow-down is found, equal code is not, nothing is left over."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess

import pytest

from harness.analysis.contests import judge
from harness.compare import products, revisions
from harness.compare.revisions import RevisionContest
from harness.compare.source_tree import RegressionError, Tree, pair
from harness.compare.worktree import PREFIX, Repository, RevisionError
from harness.errors import BackendUnavailable, ProblemError
from harness.experiment import GEMM_TASK
from harness.problem import Problem
from harness.run.process import WorkerProcess
from harness.run.process.other_trees import full_name
from harness.stats.verdict import Verdict
from tests._support import planted_project as planted
from tests._support.planted_store import read_cell
from tests._support.processes import eventually, run

PROBLEM = Problem(16, 16, 16)
SMALL = ("--preset", "smoke", "--problem", "plus_times float64 16")


@pytest.fixture
def project(tmp_path):
    """Return a committed project with backends that take equally long."""
    folder = tmp_path / "project"
    folder.mkdir()
    planted.write(folder, *(planted.backend(name, 0.002) for name in ("same", "slow", "broken")))
    planted.commit(folder)
    return folder


def compare(project, *arguments):
    (project.parent / "temporary").mkdir(exist_ok=True)
    command = planted.command("bench-compare", *arguments, *SMALL, "--results", str(project.parent / "results"))
    answer = run(*command, cwd=project, env=planted.environment(project.parent / "temporary"), status=None)
    assert "Traceback" not in answer.stderr, answer.stderr
    return answer


def leftovers(project):
    return [line for line in planted.git(project, "worktree", "list").splitlines() if PREFIX in line] + [
        path.name for path in (project.parent / "temporary").glob(f"{PREFIX}*")
    ]


@pytest.mark.deep
def test_a_planted_slow_down_and_a_break_are_found_and_what_did_not_change_is_not(project):
    planted.write(
        project,
        planted.backend("same", 0.002),
        planted.backend("slow", 0.008),
        planted.backend("new", 0.002),
        planted.backend("broken", 0.002, is_broken=True),
    )
    answer = compare(project, "HEAD")
    assert answer.returncode == 1, answer.stderr
    words = {line.split()[0]: line.split()[-1] for line in answer.stdout.splitlines() if line.startswith("planted-")}
    assert words["planted-slow"] == "SLOWER"
    assert words["planted-same"] != "SLOWER"
    assert "FAILED   planted-broken plus_times float64 16x16x16: head: RuntimeError: broken on purpose" in answer.stdout
    assert "only in head: planted-new" in answer.stdout
    assert leftovers(project) == []
    (machine,) = (project.parent / "results").iterdir()
    (findings,) = revisions.runs(machine)
    judge(findings)
    assert {finding.subject.axes["backend"]: finding.verdict.value for finding in findings}["planted-slow"] == "slower"


def test_an_equal_tree_is_no_regression(project):
    answer = compare(project, "main", "--backend", "planted-same", "--json")
    assert answer.returncode == 0, answer.stdout
    (finding,) = json.loads(answer.stdout)
    assert finding["verdict"] in ("same", "unsure", "faster")
    assert [len(processes) for processes in finding["samples_ns"].values()] == [2, 2]
    assert "-dirty" not in answer.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_base_is_removed_however_the_user_ends_it(project, number):
    process = _started(project)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 128 + number, stderr
    assert "interrupted" in stderr
    assert leftovers(project) == []


def test_what_kill_9_leaves_the_next_use_removes(project):
    process = _started(project)
    process.kill()
    process.communicate(timeout=120)
    assert leftovers(project)
    Repository(project).remove_leftovers()
    assert leftovers(project) == []


def _started(project):
    """Return a comparison that has checked out its base."""
    (project.parent / "temporary").mkdir()
    process = subprocess.Popen(
        planted.command("bench-compare", "HEAD", *SMALL, "--results", str(project.parent / "results")),
        cwd=project,
        env=planted.environment(project.parent / "temporary"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: list((project.parent / "temporary").glob(f"{PREFIX}*/tree/planted.py")), process)
    return process


def test_a_worktree_of_a_running_process_is_left_alone(project, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    repository = Repository.around(project)
    with repository.checked_out(repository.commit("main")) as tree:
        assert (tree / "planted.py").read_text() == (project / "planted.py").read_text()
        repository.remove_leftovers()
        assert tree.exists()
    assert not tree.parent.exists()


def test_results_and_figures_that_differ_make_no_commit_dirty(project):
    """Recorded ones change with every run and drawing."""
    output = [project / "experiments" / name / "file" for name in ("results", "figures")]
    for path in output:
        path.parent.mkdir(parents=True)
        path.write_text("before")
    planted.commit(project)
    repository = Repository.around(project)
    commit = planted.git(project, "rev-parse", "HEAD").strip()[:12]
    assert repository.describe() == commit
    for path in output:
        path.write_text("after")
    assert repository.describe() == commit
    (project / "planted.py").write_text("")
    assert repository.describe() == f"{commit}-dirty"


def test_a_failure_inside_removes_the_base_as_well(project):
    repository = Repository.around(project)

    with pytest.raises(ZeroDivisionError), repository.checked_out(repository.commit("HEAD")) as tree:
        raise ZeroDivisionError
    assert not tree.exists()
    assert len(planted.git(project, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(("revision", "clue"), [("", "no revision"), ("nope", "unknown revision"), ("-x", "unknown")])
def test_a_revision_that_is_none_is_said(project, revision, clue):
    with pytest.raises(RevisionError, match=clue):
        Repository.around(project).commit(revision)


def test_a_folder_without_version_control_is_said(tmp_path):
    with pytest.raises(RevisionError, match="not in the working tree of a git repository"):
        Repository.around(tmp_path)


def test_hooks_of_git_do_not_lead_astray(project, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert Repository.around(project).root == project


def test_this_tree_speaks_the_language_that_a_base_must_speak():
    """If it no longer does, every older revision has become incomparable: that must not happen by accident."""
    names = Tree("head", planted.ROOT, "now").backends()
    assert names["cpu-naive"] is None
    assert all(not name.startswith("planted") for name in names)


def test_a_tree_with_another_language_is_too_old(tmp_path):
    package = _planted_harness(tmp_path, "class Worker:\n    def prepare(self, task): pass\n")
    with pytest.raises(RegressionError, match="speaks another language") as caught:
        Tree("base", tmp_path, "abc").backends()
    assert caught.value.got == "prepare(task)"
    (package / "run" / "worker.py").unlink()
    with pytest.raises(RegressionError, match="too old"):  # also where an editable installation fills the gap
        Tree("base", tmp_path, "abc").backends()


WORKER = """
import sys
from multiprocessing.connection import Connection

class Worker:
    def prepare(self, task, arguments, threads): pass
    def sample(self, loops, count): pass
    def prove(self): pass
    verify = release = prove

if __name__ == "__main__":
    connection = Connection(int(sys.argv[1]))
    command, arguments = connection.recv()
    connection.send(("ok", [__spec__.name, command, arguments["task"]]))
    connection.recv()
"""


def _planted_harness(tree, worker):
    """Write a package `harness` with a worker; return the package."""
    package = tree / "harness"
    (package / "run").mkdir(parents=True)
    for folder in (package, package / "run"):
        (folder / "__init__.py").touch()
    (package / "registry.py").write_text("def discover(): return ()\n")
    (package / "run" / "worker.py").write_text(worker)
    return package


def test_a_tree_has_its_own_worker(tmp_path):
    _planted_harness(tmp_path, WORKER)
    assert Tree("base", tmp_path, "abc").backends() == {}
    worker = WorkerProcess(tmp_path)
    try:
        answer = worker.call("prepare", 60, task=full_name(GEMM_TASK), arguments={}, threads=1)
    finally:
        worker.kill()
    assert answer == ["harness.run.worker", "prepare", "harness.run.task:gemm"]


def test_modules_come_from_the_folder_src_if_there_is_one(project, tmp_path):
    repository = Repository(project)
    assert [tree.source for tree in pair(repository, tmp_path, "abc")] == [tmp_path, project]
    (project / "src").mkdir()
    with pytest.raises(RegressionError, match="has no folder 'src'"):
        pair(repository, tmp_path, "abc")
    assert pair(repository, tmp_path, "abc", source=".")[1].source == project


class _Described(Tree):
    """A tree whose backends are known."""

    def backends(self):
        return self.found


def _described(label, found):
    tree = _Described(label, planted.ROOT, label * 3)
    object.__setattr__(tree, "found", found)
    return tree


def test_only_what_both_trees_have_is_compared():
    base, head = _described("base", {"a": None, "old": None, "b": "no GPU"}), _described("head", {})
    with pytest.raises(RegressionError, match="no backend in common"):
        revisions.cases(base, head, [PROBLEM])
    head = _described("head", {"b": None, "a": None, "new": None})
    (case,), notes = revisions.cases(base, head, [PROBLEM])
    assert [(c.label, c.arguments["backend"], c.source) for c in case.contenders] == [
        ("base", "a", base.source),
        ("head", "a", head.source),
    ]
    assert (case.reference, case.axes["base"], case.axes["n"]) == ("base", "basebasebase", 16)
    assert notes == ["only in base: old", "only in head: new", "missing here: b: no GPU"]
    with pytest.raises(BackendUnavailable, match="no backend 'new'"):
        revisions.cases(base, head, [PROBLEM], backends=["new"])


def _finding(factor, **statuses):
    axes = {"backend": "cpu-a", "threads": 1, **PROBLEM.to_json()}
    base = [[100.0 + i % 3 for i in range(20)] for _ in range(4)]
    samples = {"base": base, "head": [[factor * sample for sample in process] for process in base]}
    cells = [
        read_cell({"unmet": ""}, axes=axes, contender=label, status="ok", samples_ns=own)
        for label, own in samples.items()
    ]
    base, head = (
        dataclasses.replace(cell, status=statuses[cell.contender], samples_ns=[], reason="planted")
        if cell.contender in statuses
        else cell
        for cell in cells
    )
    return RevisionContest(head, base)


def test_verdicts_are_of_head_over_base():
    findings = [_finding(1.0), _finding(1.3), _finding(0.7), _finding(1.3, base="declined", head="declined")]
    judge(findings, minimum_effect=0.02)
    assert [finding.verdict for finding in findings[:3]] == [Verdict.SAME, Verdict.SLOWER, Verdict.FASTER]
    assert [finding.is_regression for finding in findings] == [False, True, False, False]
    assert findings[1].comparison.ratio.estimate == pytest.approx(1.3)
    assert str(findings[1]) == "cpu-a plus_times float64 16x16x16"


@pytest.mark.parametrize(
    ("failed", "is_regression"), [(("head",), True), (("base",), False), (("base", "head"), False)]
)
def test_only_what_head_broke_is_a_regression(failed, is_regression):
    finding = _finding(1.0, **dict.fromkeys(failed, "failed"))
    assert finding.is_regression == is_regression
    assert finding.status == "failed"
    assert finding.reason == "; ".join(f"{label}: planted" for label in failed)


def test_a_change_below_the_minimum_effect_is_none():
    findings = [_finding(1.04)]
    judge(findings, minimum_effect=0.1)
    assert findings[0].verdict is Verdict.SAME


def test_products_are_written_as_they_are_shown():
    for texts in products.PRODUCTS.values():
        for text in texts:
            problem = products.problem(text)
            assert products.problem(str(problem)) == problem
    with pytest.raises(ProblemError, match="is no product"):
        products.problem("min_plus 512")


def test_the_recipe_for_continuous_integration_is_a_workflow_that_compares():
    """YAML is no dependency: what is looked at is the form that every such file has."""
    lines = (planted.ROOT / "docs" / "ci-recipe.yml").read_text().splitlines()
    content = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert [line.partition(":")[0] for line in content if line[0] != " "] == ["name", "on", "permissions", "jobs"]
    assert all("\t" not in line and (len(line) - len(line.lstrip())) % 2 == 0 for line in content)
    text = "\n".join(content)
    assert "fetch-depth: 0" in text
    assert 'gemm-harness bench-compare "$base"' in text
    assert "github.base_ref" in text
    assert "set -o pipefail" in text  # or the status would be that of tee
