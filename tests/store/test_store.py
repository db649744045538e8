"""The store: which cells are read, whatever became of the runs that wrote them and of the files."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shlex
import shutil
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from harness.cli import app
from harness.errors import StoreError
from harness.store import schema
from harness.store import store as stores
from harness.store.schema import OLDEST, SCHEMA
from harness.store.store import Cell, Store
from tests._support import tracked
from tests._support.planted_store import MACHINE, begun, cell, done, fill
from tests._support.processes import ROOT, run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "machine" / "quick")


@pytest.fixture
def path(store: Store) -> Path:
    return store.folder / "ladder.jsonl"


FINGERPRINT = {"kind": "machine", "key": MACHINE.key, "machine": MACHINE.to_json()}


def planted_machine(**changes: object) -> dict[str, object]:
    return {**FINGERPRINT, "machine": {**MACHINE.to_json(), **changes}}


def test_what_is_appended_is_read(store, path):
    record = cell(commit="abc")
    store.append(record, machine=MACHINE)
    (read,) = store.cells("ladder")
    assert (read.contender, read.axes, read.run) == ("a", {"n": 64}, "run1")
    assert read.record.items() >= {"schema": SCHEMA, **record}.items()
    assert read.all_samples_ns == [2.0, 4.0, 3.0]
    assert (read.median_ns, read.rate) == (3.0, 2.0)
    assert store.machine() == MACHINE
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["machine", "cell"]


def test_the_machine_is_written_once_per_file_and_fingerprint(store, path):
    upgraded = dataclasses.replace(MACHINE, packages={"numpy": "3.0"})
    for machine in (MACHINE, MACHINE, upgraded, MACHINE):
        store.append(cell(), machine=machine)
    Store(store.folder).append(cell(), machine=MACHINE)
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds.count("machine") == 2
    assert kinds.count("cell") == 5


def test_without_samples_there_is_no_time_and_no_rate(store):
    store.append(cell(status="failed", reason="broke", samples_ns=[]))
    (read,) = store.cells()
    assert not read.is_ok
    assert read.median_ns != read.median_ns
    assert read.rate != read.rate


def test_an_empty_store_has_no_cells_and_no_machine(store):
    assert store.cells() == []
    with pytest.raises(StoreError, match="no results"):
        store.machine()


def test_the_latest_run_at_a_place_wins_with_all_its_contenders(store):
    store.append(cell("a"), cell("b"), cell("a", axes={"n": 128}, case="case2"))
    store.append(cell("a", run="run2", case="case3"), cell("c", run="run2", case="case3"))
    found = {(c.contender, c.axes["n"], c.run) for c in store.cells()}
    assert found == {("a", 64, "run2"), ("c", 64, "run2"), ("a", 128, "run1")}


def test_the_later_record_of_a_cell_wins(store):
    store.append(cell(samples_ns=[[1.0]]))
    store.append(cell(samples_ns=[[9.0]]))
    assert [c.median_ns for c in store.cells()] == [9.0]


def test_a_completed_run_supersedes_places_that_it_no_longer_has(store):
    store.append(cell(axes={"n": 1}))
    store.append(cell(axes={"n": 2}, run="run2", case="case2"))
    store.append(begun("run2"))
    assert {c.axes["n"] for c in store.cells()} == {1, 2}
    store.append(done("run2"))
    assert {c.axes["n"] for c in store.cells()} == {2}


def test_a_part_of_a_case_replaces_nothing_and_stands_only_where_no_whole_one_is(store):
    store.append(*(sampled(c, n, 1.0) for n in (1, 2) for c in "abc"))
    store.append(done("run1"))
    whole = [("run1", n, c, "source1", 1.0) for n in (1, 2) for c in "abc"]
    part = {"run": "run2", "case": "part", "left_out": ["b"]}
    store.append(*(sampled(c, 1, 2.0, **part) for c in "ac"))
    store.append(*(sampled(c, 3, 2.0, **part) for c in "ac"))
    store.append(begun("run2"), done("run2", "another"))
    of_part = [("run2", 3, c, "source1", 2.0) for c in "ac"]
    assert named(store.cells()) == [*whole, *of_part]
    assert [c.is_of_part for c in store.cells()] == [False] * 6 + [True] * 2
    assert {(c.run, c.axes["n"], c.is_current) for c in store.every_cell()} == {
        *(("run1", n, True) for n in (1, 2)),
        *(("run2", n, n == 3) for n in (1, 3)),
    }, "what was measured is still there"
    store.append(sampled("a", 3, 3.0, run="run3", case="less", left_out=["b", "c"]))
    assert named(store.cells()) == [*whole, ("run3", 3, "a", "source1", 3.0)], "the last part, where there is no whole"
    store.append(*(sampled(c, 3, 4.0, run="run4") for c in "abc"))
    assert named(store.cells()) == [*whole, *(("run4", 3, c, "source1", 4.0) for c in "abc")]


def test_whole_cases_at_some_points_replace_those_and_no_others(store):
    store.append(*(sampled(c, n, 1.0) for n in (1, 2) for c in "ab"))
    store.append(done("run1"))
    store.append(sampled("a", 2, 2.0, run="run2", case="without b"))
    assert [(c.run, c.axes["n"]) for c in store.cells()] == [("run1", 1), ("run1", 1), ("run2", 2)]


def test_records_that_do_not_say_what_was_left_out_are_of_whole_cases(store, path):
    store.append(*(sampled(c, 1, 1.0) for c in "ab"))
    old = {**sampled("a", 1, 2.0, run="run2", case="part", schema=4), "appended": "later", "position": 0}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({name: value for name, value in old.items() if name != "left_out"}) + "\n")
    assert named(store.cells()) == [("run2", 1, "a", "source1", 2.0)]


def test_only_a_run_of_the_same_part_is_resumed(store):
    part = {"only": ["a"], "where": {"n": ["1", "2"]}}
    store.append(begun("run1"))
    assert store.unfinished_run(MACHINE, part) is None
    store.append(begun("run2", part=part))
    assert store.unfinished_run(MACHINE, part) == "run2"
    assert store.unfinished_run(MACHINE, {"only": ["a"]}) is None
    assert store.unfinished_run(MACHINE) is None


def test_a_run_is_unfinished_until_it_is_done(store):
    assert store.unfinished_run(MACHINE) is None
    store.append(begun("run1"))
    assert store.unfinished_run(MACHINE) == "run1"
    assert store.unfinished_run(dataclasses.replace(MACHINE, l3=99)) is None
    store.append(done("run1"))
    assert store.unfinished_run(MACHINE) is None


def test_a_run_that_was_given_up_for_a_fresh_one_is_not_resumed(store):
    store.append(begun("run1"))
    store.append(begun("run2"))
    store.append(done("run2"))
    assert store.unfinished_run(MACHINE) is None


def test_the_machine_is_that_of_the_latest_run(store):
    upgraded = dataclasses.replace(MACHINE, packages={"numpy": "3.0"})
    store.append(cell(), machine=upgraded)
    store.append(cell(experiment="other"), machine=MACHINE)
    store.append(begun("run1", machine=MACHINE.key))
    assert store.machine() == MACHINE
    store.append(begun("run2", machine=upgraded.key))
    assert store.machine() == upgraded


@pytest.mark.parametrize("torn", ["{", '{"schema":5,"kind":"cell","experi', "\u00e9"[:1], '{"schema":5}'[:-1]])
def test_a_torn_last_line_is_dropped_with_a_notice_and_cut_off_by_the_next_append(store, path, torn):
    store.append(cell("a"), cell("b"))
    with path.open("a") as file:
        file.write(torn)
    assert [c.contender for c in store.cells()] == ["a", "b"]
    (notice,) = store.notices
    assert "line 3" in notice
    store.append(cell("c"))
    healed = Store(store.folder)
    assert [c.contender for c in healed.cells()] == ["a", "b", "c"]
    assert healed.notices == []


def test_a_whole_last_line_that_only_lacks_its_newline_is_kept(store, path):
    store.append(cell("a"), cell("b"))
    path.write_bytes(path.read_bytes()[:-1])
    assert [c.contender for c in store.cells()] == ["a", "b"]
    store.append(cell("c"))
    assert [c.contender for c in store.cells()] == ["a", "b", "c"]
    assert store.notices == []


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "", "[1]", '{"kind":"cell"}', '{"schema":5,"kind":"other"}'])
def test_a_foreign_line_is_an_error_with_its_number(store, path, line):
    store.append(cell("a"))
    with path.open("a") as file:
        file.write(line + "\n")
    store.append(cell("b"))
    with pytest.raises(StoreError, match=r"ladder\.jsonl: line 2 is no"):
        store.cells()


@pytest.mark.parametrize(("number", "age"), [(99, "new"), (OLDEST - 1, "old")])
def test_another_schema_is_an_error_that_says_so(store, path, number, age):
    store.append(cell("a"))
    with path.open("a") as file:
        file.write(f'{{"schema":{number},"kind":"novelty"}}\n')
    with pytest.raises(StoreError, match=f"too {age}") as caught:
        store.cells()
    assert caught.value.got == f"schema {number}"
    assert caught.value.expected == f"schema {OLDEST} to {SCHEMA}"
    assert ("upgrade" in caught.value.fix) == (age == "new")


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        Store(tmp_path / "file" / "quick").append(cell())


def test_one_run_at_a_time(store):
    with store.exclusive(), pytest.raises(StoreError, match="another run"), Store(store.folder).exclusive():
        pass
    with store.exclusive():
        pass


def test_machines_and_presets_are_listed(tmp_path):
    for slug, preset in (("b", "smoke"), ("b", "quick"), ("a", "full"), ("a", "smoke")):
        Store(tmp_path / slug / preset).append(cell())
    (tmp_path / "empty" / "quick").mkdir(parents=True)
    assert stores.machines(tmp_path) == ["a", "b"]
    assert stores.presets(tmp_path, "b") == ["smoke", "quick"]
    assert stores.presets(tmp_path, "c") == []


def named(cells: list[Cell]) -> list[tuple]:
    """Return what tells cells apart."""
    return [(c.run, c.axes["n"], c.contender, c.record["source"], c.samples_ns[0][0]) for c in cells]


def sampled(contender: str, n: int, sample: float, **changes: object) -> dict[str, object]:
    return cell(contender, n, samples_ns=[[sample]], **changes)


def test_a_case_of_which_an_append_was_cut_off_is_replaced_by_its_repetition(store):
    store.append(sampled("a", 1, 1.0), sampled("b", 1, 1.0))  # and "c", which was lost
    store.append(sampled("a", 1, 2.0))  # and the rest, which was lost again
    assert named(store.cells()) == [("run1", 1, "a", "source1", 2.0)], "only these were measured interleaved"
    store.append(*(sampled(contender, 1, 3.0) for contender in "abc"))
    assert [(c.contender, c.median_ns) for c in store.cells()] == [("a", 3.0), ("b", 3.0), ("c", 3.0)]


def test_contenders_may_be_appended_one_by_one(store):
    for contender in "cab":
        store.append(cell(contender))
    assert [c.contender for c in store.cells()] == ["c", "a", "b"]


def test_what_a_run_measured_with_other_code_is_never_mixed_with_the_rest(store):
    """Interrupted, changed, resumed, and killed in the middle of an append."""
    store.append(begun())
    for n in (1, 2):
        store.append(*(sampled(contender, n, 1.0) for contender in "ab"))
    store.append(begun())
    store.append(sampled("a", 1, 2.0, source="source2"))
    assert named(store.cells()) == [
        ("run1", 1, "a", "source2", 2.0),
        ("run1", 2, "a", "source1", 1.0),
        ("run1", 2, "b", "source1", 1.0),
    ]
    assert store.keys_of_run("ladder", "run1") == {
        "a 1 source1",
        "b 1 source1",
        "a 2 source1",
        "b 2 source1",
        "a 1 source2",
    }
    store.append(done())
    assert named(store.cells()) == [("run1", 1, "a", "source2", 2.0)], "a completed run is of one state of the code"


def test_cells_of_two_machines_in_one_folder_are_never_mixed(store):
    store.append(sampled("a", 1, 1.0))
    store.append(sampled("b", 1, 2.0, machine="another"))
    assert [(c.contender, c.machine) for c in store.cells()] == [("b", "another")]


def test_every_run_is_still_there(store):
    store.append(cell("a", 1), cell("b", 1), cell("a", 2))
    store.append(cell("a", 1, run="run2"))
    store.append(done("run2"))
    found = [(c.run, c.axes["n"], c.contender, c.is_current) for c in store.every_cell()]
    assert found == [("run1", 1, "a", False), ("run1", 1, "b", False), ("run1", 2, "a", False), ("run2", 1, "a", True)]
    assert [c for c in store.every_cell() if c.is_current] == store.cells()
    assert list(store.every_cell("another")) == []


def test_the_order_of_places_is_that_in_which_they_were_first_measured(store):
    for n in (3, 1, 2):
        store.append(cell("a", n))
    store.append(cell("a", 1, run="run2"))
    assert [c.axes["n"] for c in store.cells()] == [3, 1, 2]


def test_the_attributes_of_a_cell_are_fields_of_the_schema():
    attributes = {field.name for field in dataclasses.fields(Cell)}
    assert attributes - {"record", "is_current"} <= schema.FIELDS["cell"].keys()


def json_type(field: schema.Field) -> str:
    """Return the type of a field as the documentation says it."""
    names = {"text": "", "object": {}, "list": [], "number": 0.5, "integer": 0}
    name = next(name for name, value in names.items() if isinstance(value, field.type))
    return f"{name} or null" if isinstance(None, field.type) else name


def test_the_documentation_lists_every_field_of_the_schema():
    heads = ("field", "JSON", "unit", "meaning")
    rows = [(f"`{f.name}`", json_type(f), f.unit, f.meaning) for f in schema.CELL]
    lines = ["| " + " | ".join(row) + " |" for row in (heads, ("---",) * len(heads), *rows)]
    assert "\n".join(lines) in (ROOT / "docs" / "store.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("field", schema.CELL, ids=lambda field: field.name)
def test_a_record_without_a_field_or_with_another_type_is_an_error_that_names_it(store, path, field):
    whole = {"schema": SCHEMA, "appended": "", "position": 0, **cell()}
    store.folder.mkdir(parents=True)
    lacking = {name: value for name, value in whole.items() if name != field.name}
    wrong = {**whole, field.name: "text" if isinstance([], field.type) else []}
    for record, clue in ((lacking, "without"), (wrong, "not of type")):
        path.write_text(json.dumps(record) + "\n")
        with pytest.raises(StoreError) as caught:
            store.cells()
        assert clue in caught.value.got
        assert field.name in caught.value.got


@pytest.mark.parametrize(
    "samples",
    [
        None,
        [["a"]],
        [[0.0, 1.0]],
        [[1.0, -2.0]],
        [[math.inf]],
        [[1.0, math.nan]],
        [[10**400]],
        [[5e-324]],
        [3.0],
        ["3.0"],
        [[None]],
    ],
)
@pytest.mark.parametrize("version", [OLDEST, SCHEMA])
def test_samples_that_are_no_times_are_an_error_that_names_the_line(store, path, samples, version):
    record = {
        "schema": version,
        "appended": "",
        "position": 0,
        **cell(),
        "samples_ns": samples,
    }
    store.folder.mkdir(parents=True)
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(StoreError, match=r"line 1 is no cell(.|\n)*got +samples_ns"):
        store.cells()


@pytest.mark.parametrize(
    ("name", "record", "clue"),
    [
        ("runs", {**done(), "experiments": -1}, "experiments '-1', not of type list"),
        ("runs", {**begun(), "experiments": [{}]}, "experiments.* '{}', not of type str"),
        ("ladder", cell(facts={"plan": 3}), "facts.plan '3', not of type"),
        ("ladder", cell(facts={"problem": "x"}), "facts.problem 'x', not of type"),
        ("ladder", cell(facts={"operations": "many"}), "facts.operations 'many', not of type"),
        ("ladder", cell(axes={"n": {}}), "axes.* '{}', not of type"),
        ("ladder", cell(axes={"n": [3]}), "axes.n '[3]', not of type"),
        ("ladder", cell(readings={"mhz": 3}), "readings.* '3', not of type list"),
        ("ladder", cell(readings={"mhz": [3]}), "readings.*.* '3', not of type list"),
        ("ladder", cell(readings={"mhz": [[1.0, "x"]]}), "readings.mhz"),
        ("ladder", cell(all_cores={"threads": 2, "gain": "x"}), "all_cores.* 'x', not of type"),
        ("ladder", cell(clock={"nominal_mhz": []}), "clock.nominal_mhz '[]', not of type"),
        ("ladder", cell(load=["x"]), "load.* 'x', not of type"),
        ("ladder", {**FINGERPRINT, "machine": {}}, "machine without cpu, cores"),
        ("ladder", planted_machine(simd=7), "machine.simd '7', not of type list"),
        ("ladder", planted_machine(gpu=[]), "machine.gpu '[]', not of type dict"),
        ("ladder", planted_machine(gpu={"count": 2}), "machine.gpu.* '2', not of type str"),
        ("ladder", planted_machine(cores="2"), "machine.cores '2', not of type int"),
        ("ladder", planted_machine(memory=10**400), "machine.memory '1000"),
        ("ladder", cell(facts={"operations": 10**400}), "facts.operations '1000"),
        ("ladder", cell(axes={"n": -(10**400)}), "axes.* '-1000"),
        ("ladder", {**cell(), "threads": 10**400}, "threads '1000"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_of_another_type_inside_a_record_is_an_error_that_names_the_line(store, name, record, clue):
    store.append(cell(), machine=MACHINE)
    store.append(begun())
    with (store.folder / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps({"schema": SCHEMA, "appended": "", "position": 0, **record}) + "\n")
    with pytest.raises(StoreError, match=rf"{name}\.jsonl: line \d is no ") as caught:
        store.require_readable(["ladder"])
    assert clue in caught.value.got


LONE = json.dumps("a\ud800b")[1:-1].encode()


@pytest.mark.parametrize("field", ["contender", "reason", "run", "case", "commit", "reference", "experiment"])
@pytest.mark.parametrize(
    ("inside", "read"), [(LONE, r"a\ud800b"), (b"a\xffb", r"a\udcffb"), (b"a\xed\xa0\x80b", r"a\udced")]
)
def test_what_is_no_character_is_read_as_its_escape(store, path, field, inside, read):
    """An undecodable name in a message comes that way; what reads it prints and writes it as UTF-8."""
    store.append(cell("first"), machine=MACHINE)
    store.append({**cell("second"), field: "@"} if field != "experiment" else cell("@"))
    path.write_bytes(path.read_bytes().replace(b"@", inside))
    found = [c.record for c in store.every_cell()]
    texts = [str(value) for record in found for value in record.values() if isinstance(value, str)]
    assert any(read in text for text in texts)
    assert json.dumps(found, ensure_ascii=False).encode()
    answer = CliRunner().invoke(app, ["results", "--by", "cell", "--results", str(store.folder.parents[1])])
    assert answer.exit_code == 0
    assert read.strip("ab") in re.sub(r"\s", "", answer.stdout) or field in ("case", "commit", "reference", "reason")
    target = store.folder / "cells.csv"
    command = ["results", "--export", str(target), "--samples", "--results", str(store.folder.parents[1])]
    assert CliRunner().invoke(app, command).exit_code == 0


@pytest.mark.parametrize("depth", [300, 3000, 300_000])
def test_a_record_that_is_nested_without_end_is_dropped_and_told(store, path, depth):
    store.append(cell("first"))
    for where in ("arguments", "axes", "extra"):
        record = json.dumps({"schema": SCHEMA, **cell(), where: "@"}).replace(
            '"@"', '{"x":' * depth + "1" + "}" * depth
        )
        path.write_text(path.read_text() + record + "\n")
    store.append(cell("last"))
    assert [c.contender for c in store.cells()] == ["first", "last"]
    assert len(store.notices) == 3
    assert "line 2" in store.notices[0]


def test_a_file_of_another_encoding_is_an_error_that_names_the_line(store, path):
    store.append(cell())
    text = path.read_text()
    path.write_text(text, encoding="utf-16")
    with pytest.raises(StoreError, match=r"line 1 is no record of this harness"):
        store.cells()
    path.write_text(text, encoding="utf-8-sig")  # as editors on Windows leave it
    assert [c.contender for c in store.cells()] == ["a"]


STORED = ["/".join(name.split("/")[-3:]) for name in tracked.names(f"{tracked.RESULTS}/*/*/*.jsonl")]


@pytest.mark.deep(but=30)
@pytest.mark.parametrize("name", STORED)
def test_every_stored_result_is_still_read(stored_results, name):
    path = stored_results / name
    lines = path.read_bytes().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    reading = Store(path.parent)
    assert [line.record["kind"] for line in reading._lines(path.stem)] == kinds
    assert all(line.record["schema"] == SCHEMA for line in reading._lines(path.stem))
    if path.stem != stores.RUNS:
        places = {(cell.run, json.dumps(cell.axes)) for cell in reading.every_cell(path.stem)}
        recorded = [json.loads(line) for line in lines if b'"kind":"cell"' in line]
        assert len(recorded) == kinds.count("cell") > 0
        assert places == {(one["run"], json.dumps(one["axes"])) for one in recorded}
    assert reading.notices == []


def test_unknown_fields_are_kept(store):
    store.append(cell(series="cold", processor_ns=[[1.0]]))
    (read,) = store.cells()
    assert (read.record["series"], read.record["processor_ns"]) == ("cold", [[1.0]])


def history(folder: Path) -> Store:
    """Record runs that were completed, resumed with other code, cut off, and partial."""
    store = Store(folder)
    store.append(begun("run1"))
    store.append(*(sampled(c, n, 1.0, run="run1") for n in (1, 2, 3) for c in "cab"), machine=MACHINE)
    store.append(done("run1"))
    store.append(begun("run2"))
    store.append(*(sampled(c, n, 2.0, run="run2") for n in (1, 2) for c in "cab"), machine=MACHINE)
    store.append(sampled("c", 3, 2.1, run="run2", source="source2"), machine=MACHINE)
    store.append(*(sampled(c, n, 2.2, run="run2", source="source2") for n in (3, 2) for c in "cab"), machine=MACHINE)
    store.append(done("run2"))
    store.append(begun("run3"))
    store.append(*(sampled(c, 4, 3.0, run="run3") for c in "ac"), machine=MACHINE)
    for n in (2, 4):
        part = {"run": "run3", "case": f"part{n}", "left_out": ["b"]}
        store.append(*(sampled(c, n, 3.1, **part) for c in "ca"), machine=MACHINE)
    return store


HISTORY = [
    *(("run2", n, contender, "source2", 2.2) for n in (3, 2) for contender in "cab"),
    *(("run3", 4, contender, "source1", 3.0) for contender in "ac"),
]


def test_what_is_current_after_such_a_history(tmp_path):
    assert named(history(tmp_path).cells()) == HISTORY


@settings(max_examples=12)
@given(noise=st.randoms(use_true_random=True))
def test_order_and_duplicates_of_lines_and_where_they_came_from_do_not_matter(tmp_path_factory, noise):
    root = tmp_path_factory.mktemp("stores")
    whole = history(root / "whole" / "machine" / "quick")
    parts = [root / name / "machine" / "quick" for name in ("one", "two")]
    for name in ("ladder", "runs"):
        lines = (whole.folder / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
        shuffled = lines + noise.choices(lines, k=noise.randrange(9))
        noise.shuffle(shuffled)
        cut = noise.randrange(len(shuffled) + 1)
        for folder, own in zip(parts, (shuffled[:cut], shuffled[cut:]), strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            if own:
                (folder / f"{name}.jsonl").write_bytes(b"".join(own))
    if not any(parts[1].glob("ladder.jsonl")):
        parts.reverse()
    before = [path.read_bytes() for path in sorted(parts[1].iterdir())]
    for _ in range(2):
        join(parts[1].parents[1], parts[0].parents[1])
        merged = Store(parts[0])
        assert named(merged.cells()) == HISTORY
        assert [c.record for c in merged.every_cell()] == [c.record for c in whole.every_cell()]
        assert merged.machine() == MACHINE
        assert merged.unfinished_run(MACHINE) == "run3"
    assert [path.read_bytes() for path in sorted(parts[1].iterdir())] == before


@given(order=st.permutations(range(6)))
def test_the_order_of_lines_without_a_time_of_their_batch_does_not_matter(tmp_path_factory, order):
    folder = tmp_path_factory.mktemp("store")
    untimed = {"schema": SCHEMA, "appended": "", "position": 0}
    records = [
        {**sampled(c, 1, float(second), time=f"2025-01-01T00:00:0{second}"), **untimed}
        for second in (1, 2)
        for c in "abc"
    ]
    (folder / "ladder.jsonl").write_text("".join(json.dumps(records[index]) + "\n" for index in order))
    assert sorted((c.contender, c.median_ns) for c in Store(folder).cells()) == [("a", 2.0), ("b", 2.0), ("c", 2.0)]


def join(theirs: Path, ours: Path) -> None:
    """Add the results of another checkout by the command that the documentation gives."""
    (command,) = re.findall(r"^find .*jsonl.*$", (ROOT / "docs" / "store.md").read_text(), re.MULTILINE)
    command = command.replace('"$OLDPWD/measured/results"', shlex.quote(str(ours)))
    run("sh", "-c", command, cwd=theirs)


def test_results_of_another_checkout_can_be_appended_again_and_again(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    history(ours / "machine" / "quick")
    shutil.copytree(ours, theirs)
    Store(theirs / "machine" / "quick").append(cell("a", 9))
    torn = Store(theirs / "another" / "full")
    torn.append(cell("a", 9), cell("b", 9), machine=MACHINE)
    path = torn.folder / "ladder.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    for _ in range(2):
        join(theirs, ours)
        assert stores.machines(ours) == ["another", "machine"]
        assert len(list(Store(ours / "machine" / "quick").every_cell())) == len(
            list(Store(theirs / "machine" / "quick").every_cell())
        )
        (whole,) = Store(ours / "another" / "full").cells()
        assert whole.contender == "a"


def test_version_control_joins_what_two_branches_have_appended(tmp_path):
    """With the attributes of this repository; both branches go on from one file, one after a kill -9."""

    def git(*arguments: str) -> None:
        own = [
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@x",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
        ]
        run("git", *own, *arguments, cwd=tmp_path)

    folder = tmp_path / "experiments" / "results" / "machine" / "quick"
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    Store(folder).append(cell("a", 1))
    git("init")
    git("add", ".")
    git("commit", "-m", "base")
    git("checkout", "-b", "other")
    Store(folder).append(cell("a", 2), machine=MACHINE)
    (folder / "ladder.jsonl").write_bytes((folder / "ladder.jsonl").read_bytes() + b'{"schema":5,"kind":"ce')
    git("commit", "-am", "other")
    git("checkout", "main")
    Store(folder).append(cell("a", 3), machine=MACHINE)
    git("commit", "-am", "ours")
    git("merge", "other")
    assert [c.axes["n"] for c in Store(folder).cells()] == [1, 2, 3]


def peak_bytes(function, *arguments) -> int:
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_for_what_is_current_and_not_for_what_is_stored(tmp_path):
    size = {"cases": 5, "contenders": 4, "samples": 300}
    once, often = fill(tmp_path / "once", runs=1, **size), fill(tmp_path / "often", runs=6, **size)
    assert sum(1 for _ in often.every_cell()) == 6 * len(often.cells())
    assert peak_bytes(often.cells) < 1.5 * peak_bytes(once.cells)
    one_by_one = peak_bytes(lambda: sum(1 for _ in often.every_cell()))
    assert one_by_one < 0.5 * peak_bytes(once.cells), "all runs, but one cell at a time"
    assert peak_bytes(often.machine) < 0.3 * peak_bytes(once.cells)  # a file's buffer has 128 KiB since Python 3.15
    assert peak_bytes(often.keys_of_run, "ladder", "run000") < 0.5 * peak_bytes(once.cells)
