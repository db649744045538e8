"""The state of the sources that results name, and when commands refuse to write evidence, in repositories made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.errors import HarnessError, StoreError
from harness.machine import detect
from harness.run import provenance
from harness.store.schema import UNKNOWN
from harness.store.store import Store
from tests._support.planted_store import MACHINE, begun, cell, done
from tests._support.processes import run

FILES = (
    *("harness/__init__.py", "backends/cpu/naive.py", "backends/gpu/tiled.cu", "experiments/ladder.py", "Makefile"),
    *("README.md", "docs/store.md", "tests/test_cli.py", "experiments/results/m/quick/ladder.jsonl"),
    "experiments/figures/m/ladder.svg",
)
MINE = "backends/cpu/mine.py"


def git(folder: Path, *arguments: str) -> str:
    name = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    return run("git", *name, *arguments, cwd=folder).stdout


def forget() -> None:
    for function in (provenance.commit, provenance.changed, provenance.source_digest):
        function.cache_clear()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Make a committed project, and have the harness take it for its own."""
    root = tmp_path / "checkout"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("as committed\n")
    git(tmp_path, "init", "--quiet", str(root))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "begin")
    monkeypatch.setattr(provenance, "ROOT", root)
    forget()
    yield root
    forget()


def test_clean_sources_are_named_by_their_commit_and_may_write_everything(checkout):
    head = git(checkout, "rev-parse", "HEAD").strip()
    assert provenance.code()["commit"] == head[:12]
    assert provenance.mark() == ""
    provenance.require_clean(checkout / "experiments" / "results", checkout / "README.md", allow_dirty=False)


def test_what_runs_write_and_what_measures_nothing_is_no_change_of_the_sources(checkout):
    for name in ("README.md", "docs/store.md", "tests/test_cli.py", *FILES[-2:]):
        (checkout / name).write_text("changed\n")
    for name in ("experiments/results/m/report.md", "experiments/figures/other/new.svg", "notes.txt"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("new\n")
    assert provenance.changed() == ()
    assert not provenance.code()["commit"].endswith("-dirty")


@pytest.mark.parametrize("name", [*FILES[:5], MINE, "experiments/mine.py", "pyproject.toml"])
def test_changed_and_new_sources_are_refused_as_evidence(checkout, name):
    (checkout / name).write_text("changed\n")
    assert provenance.changed() == (name,)
    assert provenance.code()["commit"] == f"{provenance.commit()}-dirty"
    assert provenance.commit() in provenance.mark()
    for target in ("experiments/results", "experiments/figures/m", "README.md"):
        with pytest.raises(HarnessError) as caught:
            provenance.require_clean(checkout / target, allow_dirty=False)
        assert target in caught.value.what
        assert name in caught.value.got
        assert "--allow-dirty" in caught.value.fix
        provenance.require_clean(checkout / target, allow_dirty=True)
    tried = checkout / "experiments" / "results" / "m" / "smoke"
    provenance.require_clean(checkout.parent / "elsewhere", checkout / "build", tried, allow_dirty=False)


def test_a_removed_source_is_a_change(checkout):
    (checkout / FILES[1]).unlink()
    assert provenance.changed() == (FILES[1],)


def test_many_changes_are_counted(checkout):
    for index in range(5):
        (checkout / f"backends/cpu/mine{index}.py").write_text("new\n")
    with pytest.raises(HarnessError) as caught:
        provenance.require_clean(checkout / "README.md", allow_dirty=False)
    assert caught.value.got.endswith("mine2.py and 2 more")


def test_the_state_is_that_of_the_checkout_also_inside_a_hook_of_another_repository(checkout, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(checkout.parent / "nowhere"))
    assert len(provenance.commit()) == 12


def test_without_a_repository_the_commit_is_unknown_and_everything_may_be_written(checkout, tmp_path, monkeypatch):
    plain = tmp_path / "plain"
    for root in (plain, checkout / "site-packages"):  # the other repository does not say what is installed inside it
        (root / "harness").mkdir(parents=True)
        (root / "harness" / "__init__.py").write_text("")
        monkeypatch.setattr(provenance, "ROOT", root)
        forget()
        assert provenance.code()["commit"] == UNKNOWN
        assert provenance.mark() == ""
        provenance.require_clean(root / "experiments" / "results", allow_dirty=False)


def test_without_git_the_commit_is_unknown(checkout, monkeypatch):
    monkeypatch.setenv("PATH", str(checkout))
    assert provenance.code()["commit"] == UNKNOWN


PUBLISHED = "--results experiments/results --figures experiments/figures"


def invoke(*arguments: object) -> object:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def changed_sources(monkeypatch):
    monkeypatch.setattr(provenance, "commit", lambda: "0123456789ab")
    monkeypatch.setattr(provenance, "changed", lambda: (MINE,))


@pytest.mark.parametrize("command", [["run", "ladder"], ["plot"], ["report"], ["report", "--readme"]])
def test_commands_refuse_to_write_evidence_from_changed_sources(changed_sources, command, tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    is_of_readme = "--readme" in command
    folder, readme = tmp_path / ("elsewhere" if is_of_readme else "experiments"), tmp_path / "README.md"
    readme.write_text("")
    record(folder / "results", "quick")
    places = ["--results", folder / "results", "--figures", folder / "figures"]
    raised = invoke(*command, *[readme] * is_of_readme, *places).exception
    assert isinstance(raised, HarnessError)
    assert MINE in raised.got
    assert ("README.md" in raised.what) == is_of_readme


@pytest.mark.parametrize("options", [["--allow-dirty"], ["--preset", "smoke"]])
def test_asked_for_or_of_preset_smoke_they_go_on(changed_sources, options, tmp_path):
    raised = invoke("plot", "--results", tmp_path, *options).exception
    assert isinstance(raised, StoreError), "there are no results"
    assert "no results" in raised.what


def record(results, preset):
    """Record the same on this machine and on another."""
    for slug in (detect().slug, "another"):
        store = Store(results / slug / preset)
        store.append(begun(experiments=["ladder"]))
        axes = {"m": 8, "n": 8, "k": 8, "dtype": "float64", "semiring": "plus_times", "role": "product"}
        store.append(cell(preset=preset, axes=axes, commit="abc-dirty"), machine=MACHINE)
        store.append(done())


@pytest.fixture
def two_machines(tmp_path):
    """Return a folder with results of this machine and of another; nothing is drawn."""
    record(tmp_path / "results", "quick")
    return tmp_path


def test_a_table_of_the_readme_is_evidence_of_any_preset(changed_sources, tmp_path):
    readme, results = provenance.ROOT / "README.md", tmp_path / "results"
    record(results, "smoke")
    before = readme.read_bytes()
    raised = invoke("report", "--preset", "smoke", "--results", results, "--readme", readme).exception
    assert "README.md" in raised.what
    assert readme.read_bytes() == before


def test_what_changed_sources_make_is_marked(changed_sources, two_machines, monkeypatch):
    folders = ("--results", two_machines / "results", "--figures", two_machines / "figures")
    readme = two_machines / "README.md"
    readme.write_text("<!-- ladder of another:begin -->\n<!-- ladder of another:end -->\n")
    for command in (["plot"], ["report", "--readme", readme]):
        answer = invoke(*command, *folders)
        assert answer.exit_code == 0, answer.output
    mark = "Made by code that differs from commit 0123456789ab"
    measured = "Measured with code that no commit holds: 1 of 1 cell (1 of changed sources)"
    for page in (readme, two_machines / "results" / "another" / "report.md"):
        assert mark in page.read_text()
        assert measured in page.read_text()
    drawn = (two_machines / "figures" / "another" / "ladder.svg").read_bytes()
    monkeypatch.setattr(provenance, "changed", lambda: ())
    invoke("plot", *folders)
    assert drawn != (two_machines / "figures" / "another" / "ladder.svg").read_bytes(), "the mark is gone"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_plot_and_report_of_this_machine_touch_no_file_of_another(two_machines):
    before, own = files(two_machines), detect().slug
    for command in ("plot", "report"):
        folders = ("--results", two_machines / "results", "--figures", two_machines / "figures")
        answer = invoke(command, "--machine", "this", "--preset", "quick", *folders)
        assert answer.exit_code == 0, answer.output
    after = files(two_machines)
    assert {name: after[name] for name in before} == before
    new = after.keys() - before.keys()
    assert new >= {f"results/{own}/report.md", f"figures/{own}/ladder.svg"}
    assert {name.split("/")[1] for name in new} == {own}
    shown = invoke("results", "--machine", "this", "--results", two_machines / "results", "--json", "--by", "cell")
    assert {cell["machine"] for cell in json.loads(shown.output)} == {own}


@pytest.mark.parametrize("has_evidence", [True, False])
def test_figures_and_report_of_preset_smoke_replace_no_others_and_are_no_files_of_git(tmp_path, has_evidence):
    folders = ("--results", tmp_path / "results", "--figures", tmp_path / "figures")
    if has_evidence:
        record(tmp_path / "results", "quick")
        assert [invoke(command, *folders).exit_code for command in ("plot", "report")] == [0, 0]
    record(tmp_path / "results", "smoke")
    before = files(tmp_path)
    for command in ("plot", "report"):
        chosen = ["--preset", "smoke"] if has_evidence else []
        answer = invoke(command, "--machine", "this", *chosen, *folders)
        assert answer.exit_code == 0, answer.output
    assert str(tmp_path / "results" / detect().slug / "smoke" / "report.md") in answer.output
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    assert set(after) > set(before)
    made = [f"measured/{name}" for name in after]
    ignored = provenance.git(provenance.ROOT, "check-ignore", *made).stdout.splitlines()
    assert sorted(ignored) == sorted(made)
    if has_evidence:
        assert invoke("plot", "--machine", "this", *folders).exit_code == 0
        assert files(tmp_path) == after, "smoke is no evidence, and never stands beside it"


def test_a_machine_without_results_is_an_error_that_says_which_have_some(two_machines):
    raised = invoke("plot", "--machine", "nobody", "--results", two_machines / "results").exception
    assert isinstance(raised, StoreError)
    assert (raised.got, "another" in raised.expected) == ("nobody", True)


def test_make_experiments_writes_results_of_ones_own_and_make_figures_those_that_are_published():
    def commands(target: str, *variables: str) -> list[str]:
        answer = run("make", "--dry-run", "--no-print-directory", target, *variables)
        return [line for line in answer.stdout.splitlines() if "-m harness" in line]

    ran, report = commands("experiments", "PRESET=smoke")
    assert "--draw" in ran
    assert "--machine this" in report
    assert not any(option in line for line in (ran, report) for option in ("--results", "--allow-dirty"))
    for target in ("experiments", "run"):
        assert all(PUBLISHED in line for line in commands(target, "PUBLISH=1")), target
        assert not any(PUBLISHED in line for line in commands(target)), target
    for target in ("figures", "report", "readme"):
        assert all(PUBLISHED in line and "--machine" not in line for line in commands(target)), target
    for target in ("experiments", "run", "figures", "report", "readme"):
        assert all("--allow-dirty" in line for line in commands(target, "ALLOW_DIRTY=1")), target
