"""What has been recorded, selected, counted and exported: against the records as they were planted."""

from __future__ import annotations

import csv
import json
import statistics
import sys
import tracemalloc
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.analysis import query
from harness.analysis.query import Selection
from harness.cli import app
from harness.errors import HarnessError, StoreError
from harness.report import export
from harness.store.store import Store
from tests._support.planted_store import MACHINE, begun, cell, done, fill

REASON = 'line 1, with "quotes"\nline 2; \u2297'


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Record two runs of two experiments on one machine, and one on another."""
    root = tmp_path / "results"
    store = Store(root / "one" / "quick")
    for run, commit in (("run1", "aaa"), ("run2", "bbb")):
        store.append(begun(run))
        records = [cell(c, n, run=run, commit=commit, time=f"2025-01-0{run[-1]}T") for n in (1, 2) for c in "ab"]
        records.append(cell("c", 2, run=run, commit=commit, status="failed", reason=REASON, samples_ns=[]))
        store.append(*records, machine=MACHINE)
        store.append(done(run))
    store.append(cell("a", 3, run="run2", experiment="other", axes={"n": 3, "share": 0.5, "flag": True, "set": [1, 2]}))
    other = cell("a", 1, preset="full", axes={"n": 1, "share": 1, "flag": "no", "dtype": None}, status="declined")
    Store(root / "two" / "full").append({**other, "samples_ns": []})
    return root


def found(results: Path, **asked: object) -> list[tuple[str, str, str, int, str]]:
    cells = Selection(**asked).cells(results)
    return [(slug, c.experiment, c.run, c.axes["n"], c.contender) for slug, c in cells]


def test_nothing_asked_for_is_all(results):
    assert len(found(results)) == 12
    assert len(found(results, is_current=True)) == 7


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"machines": ["two"]}, 1),
        ({"presets": ["quick"]}, 11),
        ({"experiments": ["other"]}, 1),
        ({"experiments": ["ladder", "other"], "machines": ["one"]}, 11),
        ({"runs": ["run1"], "machines": ["one"]}, 5),
        ({"statuses": ["failed"]}, 2),
        ({"contenders": ["b"]}, 4),
        ({"contenders": ["cpu-b", "c"]}, 6),
        ({"where": {"n": ["1"]}}, 5),
        ({"where": {"n": ["1", "3"]}}, 6),
        ({"where": {"n": ["1"], "backend": ["cpu-a"]}}, 3),
        ({"where": {"share": ["0.5"]}}, 1),
        ({"where": {"n": ["1"]}, "contenders": ["c"]}, 0),
        ({"statuses": ["failed"], "is_current": True}, 1),
    ],
)
def test_cells_are_selected_by_what_is_asked_for(results, asked, count):
    assert len(found(results, **asked)) == count


@pytest.mark.parametrize(
    ("asked", "got"), [({"machines": ["three"]}, "three"), ({"experiments": ["laddr", "ladder"]}, "laddr")]
)
def test_what_was_never_recorded_is_an_error_that_says_what_was(results, asked, got):
    with pytest.raises(StoreError) as caught:
        found(results, **asked)
    assert caught.value.got == got
    assert caught.value.expected in ("one, two", "ladder, other")


@pytest.mark.parametrize(
    ("asked", "what", "clue"),
    [
        ({"runs": ["run1", "run3"]}, "unknown run 'run3'", "run2"),
        ({"contenders": ["cpu-bb"]}, "unknown contender 'cpu-bb'", "did you mean 'cpu-b'?"),
        ({"where": {"nonsense": ["1"]}}, "unknown axis 'nonsense'", "share"),
        ({"where": {"n": ["1", "7"]}}, "no cell has n=7", "n of 1, 2, 3"),
    ],
)
def test_what_no_cell_has_is_an_error_that_says_what_they_have(results, asked, what, clue):
    with pytest.raises(StoreError) as caught:
        found(results, **asked)
    assert caught.value.what == what
    assert clue in str(caught.value)
    assert "None" not in str(caught.value)


def test_groups_are_counted(results):
    first, second, third = query.groups(Selection().cells(results), "experiment")
    assert first == {
        "machine": "one",
        "preset": "quick",
        "experiment": "ladder",
        "cells": 10,
        "current": 5,
        "ok": 8,
        "failed": 2,
        "declined": 0,
        "missing": 0,
        "first": "2025-01-01T",
        "last": "2025-01-02T",
        "runs": ["run1", "run2"],
        "commits": ["aaa", "bbb"],
    }
    assert (second["experiment"], second["cells"], second["commits"]) == ("other", 1, [])
    assert (third["machine"], third["declined"]) == ("two", 1)
    by_run = query.groups(Selection(machines=["one"]).cells(results), "run")
    assert [(group["run"], group["cells"], group["current"]) for group in by_run] == [("run1", 5, 0), ("run2", 6, 6)]


def as_dicts(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_for_each_cell(results, tmp_path):
    path = tmp_path / "new" / "cells.csv"
    with pytest.raises(StoreError, match=r"cannot be written\n.*No such file"):
        export.write(lambda: Selection().cells(results), path)
    assert not path.parent.exists(), "a folder that was mistyped"
    path.parent.mkdir()
    assert export.write(lambda: Selection().cells(results), path) == 12
    rows = as_dicts(path)
    assert len(rows) == 12
    first = rows[0]
    assert (first["machine"], first["run"], first["axes.n"], first["is_current"]) == ("one", "run1", "1", "false")
    assert float(first["median_ns"]) == statistics.median([2.0, 4.0, 3.0])
    assert (first["samples"], first["processes"], first["axes.share"]) == ("3", "2", "")
    failed = next(row for row in rows if row["status"] == "failed")
    assert (failed["reason"], failed["median_ns"], failed["samples"]) == (REASON, "", "0")
    assert {row["axes.flag"] for row in rows} == {"", "true", "no"}
    assert {row["axes.set"] for row in rows} == {"", "[1, 2]"}
    assert [path.name for path in path.parent.iterdir()] == ["cells.csv"], "no part is left behind"


def test_csv_has_a_row_for_each_sample(results, tmp_path):
    path = tmp_path / "samples.csv"
    asked = Selection(machines=["one"], experiments=["ladder"], runs=["run2"], contenders=["b"])
    assert export.write(lambda: asked.cells(results), path, samples=True) == 6
    found = [tuple(row[name] for name in ("axes.n", "process", "sample", "time_ns")) for row in as_dicts(path)]
    own = [("0", "0", "2.0"), ("0", "1", "4.0"), ("1", "0", "3.0")]
    assert found == [(n, *sample) for n in "12" for sample in own]


@pytest.mark.parametrize("samples", [False, True])
def test_parquet_has_the_same_rows_with_types(results, tmp_path, samples):
    pl = pytest.importorskip("polars")
    for name in ("table.csv", "table.parquet"):
        export.write(lambda: Selection().cells(results), tmp_path / name, samples=samples)
    frame, rows = pl.read_parquet(tmp_path / "table.parquet"), as_dicts(tmp_path / "table.csv")
    assert frame.columns == list(rows[0])
    for own, text in zip(frame.iter_rows(named=True), rows, strict=True):
        for name, value in own.items():
            if isinstance(value, float):
                assert value == float(text[name])
            elif value is None:
                assert not text[name]
            else:
                assert str(value).lower() == text[name].lower()
    expected = {"axes.n": pl.Int64, "axes.share": pl.Float64, "axes.flag": pl.String}
    expected |= {"is_current": pl.Boolean, "threads": pl.Int64, "contender": pl.String}
    assert {name: frame.schema[name] for name in expected} == expected


def test_without_polars_parquet_is_one_clear_message_and_csv_works(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(HarnessError) as caught:
        export.write(lambda: Selection().cells(results), tmp_path / "cells.parquet")
    assert "pip install polars" in caught.value.fix
    export.write(lambda: Selection().cells(results), tmp_path / "cells.csv")
    assert [path.name for path in tmp_path.glob("*.*")] == ["cells.csv"]


def test_another_format_is_refused(results, tmp_path):
    with pytest.raises(StoreError, match="unknown format") as caught:
        export.write(lambda: Selection().cells(results), tmp_path / "cells.xlsx")
    assert ".csv" in caught.value.expected


def test_an_export_that_fails_leaves_what_was_there(results, tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("before")
    with (results / "two" / "full" / "ladder.jsonl").open("a") as file:
        file.write("foreign\n")
    with pytest.raises(StoreError):
        export.write(lambda: Selection().cells(results), path)
    assert path.read_text() == "before"


def test_a_place_that_cannot_be_written_is_named(results, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/cells\.csv: cannot be written") as caught:
        export.write(lambda: Selection().cells(results), tmp_path / "file" / "cells.csv")
    assert caught.value.got in ("Not a directory", "File exists")


def test_an_export_of_many_runs_needs_no_more_memory_than_one_of_few(tmp_path):
    peaks = []
    for runs in (1, 6):
        root = tmp_path / f"{runs} runs"
        fill(root / "one" / "quick", runs=runs, cases=1, contenders=2, samples=1500)
        tracemalloc.start()
        export.write(lambda root=root: Selection().cells(root), tmp_path / "samples.csv", samples=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def command(*arguments: object) -> str:
    answer = CliRunner().invoke(app, ["results", *map(str, arguments)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_the_command_lists_and_filters(results):
    text = command("--results", results)
    heads = ["preset", "experiment", "runs"]
    assert [line.split()[:3] for line in text.splitlines()[:8]] == [
        *(["one"], heads, ["quick", "ladder", "2"], ["quick", "other", "1"], []),
        *(["two"], heads, ["full", "ladder", "1"]),
    ]
    assert "4 files" in text
    assert "bbb and 1 before" in text
    rows = json.loads(command("ladder", "--results", results, "--json", "--machine", "one", "--by", "contender"))
    assert [(row["contender"], row["cells"]) for row in rows] == [("a", 4), ("b", 4), ("c", 2)]
    rows = json.loads(command("--results", results, "--json", "--by", "cell", "--current", "--where", "n=2"))
    assert [(row["contender"], row["run"], row["axes.n"]) for row in rows] == [(c, "run2", 2) for c in "abc"]
    assert json.loads(command("--results", results, "--json", "--status", "missing")) == []
    assert "no cell has all of that" in command("--results", results, "--status", "missing")
    assert "failed" in command("--results", results, "--by", "cell", "--preset", "quick")


def test_the_command_exports_and_deletes_nothing(results, tmp_path):
    before = {path: path.read_bytes() for path in results.rglob("*.jsonl")}
    text = command("--results", results, "--export", tmp_path / "all.csv", "--contender", "cpu-b")
    assert "(4 rows)" in text
    assert len(as_dicts(tmp_path / "all.csv")) == 4
    assert {path: path.read_bytes() for path in results.rglob("*.jsonl")} == before


def test_rows_for_samples_without_a_file_are_refused(results):
    answer = CliRunner().invoke(app, ["results", "--results", str(results), "--samples"])
    assert answer.exit_code == 2
    assert "--export" in answer.output


def test_an_axis_without_a_value_is_a_mistake(results):
    with pytest.raises(HarnessError, match="--where"):
        command("--results", results, "--where", "n")
