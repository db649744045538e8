"""Two stored runs compared: the reference cancels the machine, and what changed is said."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.compare import stored_runs
from harness.errors import StoreError
from harness.stats.verdict import Verdict
from harness.store.store import Store
from tests._support.noise import times
from tests._support.planted_store import MACHINE, begun, cell, done

SIZES = (64, 128, 256, 512)
OLD, NEW = "20250101T000000.000000Z", "20250201T000000.000000Z"


def record(
    results: Path,
    run: str,
    *,
    b: float = 1.2,
    c: float = 0.5,
    machine: float = 1.0,
    seed: int = 0,
    on=MACHINE,
    **more,
) -> None:
    """Record a run of contenders a (the reference), b and c, which take `b` and `c` times as long, on a machine."""
    store = Store(results / on.slug / "quick")
    store.append(begun(run, machine=on.key))
    a = machine * times("processes", len(SIZES), 3, 5, seed=seed, scatter=0.002)[0]
    noise = times("processes", 2 * len(SIZES), 3, 5, seed=seed + 1, scatter=0.002)[0]
    for index, n in enumerate(SIZES):
        own = {"a": a[index], "b": machine * b * noise[2 * index], "c": machine * c * noise[2 * index + 1]}
        records = [
            cell(name, n, run=run, samples_ns=samples.tolist(), machine=on.key, **more) for name, samples in own.items()
        ]
        store.append(*records, machine=on)
    store.append(done(run))


def compare(results: Path, *arguments: str):
    return CliRunner().invoke(app, ["compare", *arguments, "--results", str(results)])


def rows(results: Path, old: str = OLD, new: str = NEW) -> list[stored_runs.CellChange]:
    return stored_runs.across(stored_runs.side(old, results), stored_runs.side(new, results))


def by_contender(found: list[stored_runs.CellChange]) -> dict[str, set[Verdict]]:
    return {name: {row.verdict for row in found if row.subject.contender == name} for name in ("a", "b", "c")}


def test_only_the_contender_that_changed_is_slower(tmp_path):
    record(tmp_path, OLD)
    record(tmp_path, NEW, b=1.2 * 1.1, seed=5)
    found = rows(tmp_path)
    assert len(found) == 2 * len(SIZES)
    assert by_contender(found) == {"a": set(), "b": {Verdict.SLOWER}, "c": {Verdict.SAME}}
    assert all(not row.hint for row in found)
    assert [row.comparison.ratio.estimate for row in found if row.subject.contender == "b"] == pytest.approx(
        [1.1] * 4, rel=0.02
    )


def test_a_machine_that_became_slower_changes_no_verdict_and_is_named(tmp_path):
    record(tmp_path, OLD)
    record(tmp_path, NEW, machine=1.5, seed=5)
    found = rows(tmp_path)
    assert by_contender(found) == {"a": set(), "b": {Verdict.SAME}, "c": {Verdict.SAME}}
    assert all(row.hint.startswith(("machine: a x1.5", "machine: a x1.4")) for row in found)
    assert all(row.moved == pytest.approx(1.5, rel=0.03) for row in found)


def test_a_reference_that_moved_alone_is_said_to_have(tmp_path):
    """Its code changed: the others look faster in its units, although their own times are as they were."""
    record(tmp_path, OLD)
    record(tmp_path, NEW, machine=1.5, b=1.2 / 1.5, c=0.5 / 1.5, seed=5)
    found = rows(tmp_path)
    assert {row.verdict for row in found} == {Verdict.FASTER}
    assert all("moved alone" in row.hint for row in found)


def test_contenders_within_a_run_are_paired(tmp_path):
    record(tmp_path, OLD)
    one = stored_runs.side(OLD, tmp_path)
    assert {row.verdict for row in stored_runs.within(one, "b", "c")} == {Verdict.SLOWER}
    assert {row.verdict for row in stored_runs.within(one, "c", "b")} == {Verdict.FASTER}
    for labels in (("nope", "b"), ("b", "nope")):
        with pytest.raises(StoreError, match="unknown contender 'nope'") as caught:
            stored_runs.within(one, *labels)
        assert "b" not in caught.value.expected.split(", ")  # what b has met is no b


@pytest.mark.parametrize("name", ["20250201", "abcdef", "planted-2-cores", "quick", "planted-2-cores/quick"])
def test_runs_go_by_many_names(tmp_path, name):
    record(tmp_path, OLD, commit="123456")
    record(tmp_path, NEW, commit="abcdef012", seed=3)
    assert {own.run for own in stored_runs.side(name, tmp_path).cells.values()} == {NEW}


def test_a_folder_of_results_is_a_name(tmp_path):
    record(tmp_path / "one", OLD)
    record(tmp_path / "two", NEW, b=1.5, seed=3)
    found = rows(tmp_path / "none", str(tmp_path / "one"), str(tmp_path / "two"))
    assert by_contender(found)["b"] == {Verdict.SLOWER}


def test_what_nothing_is_called_is_refused(tmp_path):
    record(tmp_path, OLD)
    with pytest.raises(StoreError, match=OLD):
        stored_runs.side("nonsense", tmp_path)
    with pytest.raises(StoreError, match="nothing recorded"):
        stored_runs.side("2", tmp_path)  # too short to be meant
    for noun, options in (("preset", {"presets": ["ful"]}), ("experiment", {"experiments": ["nonsense"]})):
        with pytest.raises(StoreError, match=f"unknown {noun}"):
            stored_runs.side(OLD, tmp_path, **options)


def test_runs_without_a_cell_in_common_are_refused(tmp_path):
    record(tmp_path, OLD, reference="b")
    record(tmp_path, NEW)
    with pytest.raises(StoreError, match="no cell in common"):
        rows(tmp_path)


def test_another_machine_is_said_with_what_differs(tmp_path):
    other = dataclasses.replace(MACHINE, l3=99, packages={"numpy": "3.0"})
    record(tmp_path, OLD)
    record(tmp_path, NEW, on=other)
    old, new = (stored_runs.side(run, tmp_path) for run in (OLD, NEW))
    assert stored_runs.fingerprint_changes(old, new) == ["l3: 3 -> 99", "numpy: none -> 3.0"]
    assert stored_runs.fingerprint_changes(old, old) == []
    assert any("another machine" in note for note in stored_runs.notes(old, new))


def test_a_cell_without_a_time_is_not_compared(tmp_path):
    record(tmp_path, OLD)
    record(tmp_path, NEW)
    store = Store(tmp_path / MACHINE.slug / "quick")
    store.append(cell("b", 64, run=NEW, status="failed", samples_ns=[]), machine=MACHINE)
    assert all((row.subject.contender, "64") != ("b", row.place[-2:]) for row in rows(tmp_path) if "=64" in row.place)


def test_the_exit_status_says_whether_anything_is_slower(tmp_path):
    record(tmp_path, OLD)
    record(tmp_path, NEW, b=1.5, seed=4)
    slower = compare(tmp_path, OLD, NEW)
    assert slower.exit_code == 1
    assert "4 slower" in slower.stdout
    assert compare(tmp_path, NEW, OLD).exit_code == 0
    found = json.loads(compare(tmp_path, OLD, NEW, "--json").stdout)
    assert {row["verdict"] for row in found["cells"] if row["contender"] == "b"} == {"slower"}
    assert compare(tmp_path, OLD, "--contenders", "c", "b").exit_code == 0
    assert compare(tmp_path, OLD, "--contenders", "b", "c").exit_code == 1
    assert "two things are needed" in str(compare(tmp_path, OLD).exception)
    assert "compared with itself" in str(compare(tmp_path, OLD, "--contenders", "b", "b").exception)
    assert compare(tmp_path, OLD, NEW, "--minimum-effect", "0.9").exit_code == 0


def test_noise_between_two_runs_of_the_same_code_is_no_change(tmp_path):
    record(tmp_path, OLD)
    record(tmp_path, NEW, seed=9)
    assert np.mean([row.verdict is Verdict.SAME for row in rows(tmp_path)]) > 0.5
    assert not {Verdict.SLOWER, Verdict.FASTER} & {row.verdict for row in rows(tmp_path)}
