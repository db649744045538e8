from __future__ import annotations

import dataclasses
import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness import store as stores
from harness.errors import StoreError
from harness.journal import SCHEMA, Journal
from harness.machine import Machine
from harness.store import Store

MACHINE = Machine(cpu="planted", cores=2, threads=2, l1d=1, l2=2, l3=3, simd=("avx2",), memory=4)


def cell(contender: str = "a", **changes: Any) -> dict[str, Any]:
    record = {
        "kind": "cell",
        "experiment": "ladder",
        "preset": "quick",
        "case": "case1",
        "axes": {"n": 64},
        "contender": contender,
        "arguments": {},
        "threads": 1,
        "reference": "a",
        "status": "ok",
        "reason": "",
        "samples_ns": [[2.0, 4.0], [3.0]],
        "facts": {"operations": 6},
        "machine": MACHINE.key,
        "key": f"{contender}1",
        "run": "run1",
        "time": "2025-01-01T00:00:00+00:00",
    }
    return {**record, **changes}


def begun(run: str = "run1", **changes: Any) -> dict[str, Any]:
    record = {"kind": "run", "run": run, "machine": MACHINE.key, "time": "", "experiments": ["ladder"]}
    return {**record, **changes}


def done(run: str = "run1", experiments: tuple[str, ...] = ("ladder",)) -> dict[str, Any]:
    return {"kind": "done", "run": run, "time": "", "experiments": list(experiments)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "machine" / "quick")


@pytest.fixture
def path(store: Store) -> Path:
    return store.folder / "ladder.jsonl"


def test_what_is_appended_is_read(store, path):
    record = cell(commit="abc")
    store.append(record, machine=MACHINE)
    (read,) = store.cells("ladder")
    assert (read.contender, read.axes, read.run) == ("a", {"n": 64}, "run1")
    assert read.record == {"schema": SCHEMA, **record}
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


@pytest.mark.parametrize("torn", ["{", '{"schema":1,"kind":"cell","experi', "\u00e9"[:1], '{"schema":1}'[:-1]])
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


def test_a_torn_line_longer_than_a_chunk_is_cut_off(store, path):
    store.append(cell("a"))
    with path.open("a") as file:
        file.write('{"schema":1,' + " " * 200_000)
    store.append(cell("b"))
    assert [c.contender for c in store.cells()] == ["a", "b"]


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "", "[1]", '{"kind":"cell"}', '{"schema":1,"kind":"other"}'])
def test_a_foreign_line_is_an_error_with_its_number(store, path, line):
    store.append(cell("a"))
    with path.open("a") as file:
        file.write(line + "\n")
    store.append(cell("b"))
    with pytest.raises(StoreError, match=r"ladder\.jsonl: line 2 is no"):
        store.cells()


def test_a_newer_schema_is_an_error_that_says_so(store, path):
    store.append(cell("a"))
    with path.open("a") as file:
        file.write('{"schema":99,"kind":"novelty"}\n')
    with pytest.raises(StoreError) as caught:
        store.cells()
    assert caught.value.got == "schema 99"
    assert f"schema {SCHEMA}" in caught.value.expected
    assert "upgrade" in caught.value.fix


@pytest.mark.parametrize("room", [0, 10, 300])
def test_a_full_disk_leaves_nothing_half_written(store, path, monkeypatch, room):
    store.append(cell("a"))
    before = path.read_bytes()
    left, write = [room], os.write

    def write_until_full(file: int, text: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(file, text[: left[0]])
        left[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_until_full)
        with pytest.raises(StoreError, match=r"ladder\.jsonl") as caught:
            store.append(cell("b"))
    assert "No space left" in caught.value.got
    assert path.read_bytes() == before
    store.append(cell("b"))
    assert [c.contender for c in store.cells()] == ["a", "b"]


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        Store(tmp_path / "file" / "quick").append(cell())


def _append_many(path: Path, writer: int) -> None:
    for number in range(30):
        Journal(path).append([{"kind": "cell", "writer": writer, "number": number, "text": "x" * 5000}])


def test_concurrent_writers_lose_nothing(tmp_path):
    path = tmp_path / "file.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_many, args=(path, writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    records, notice = Journal(path).read()
    assert notice is None
    for writer in range(3):
        assert [r["number"] for r in records if r["writer"] == writer] == list(range(30))


ENDLESS_WRITER = """
import os, sys
from pathlib import Path
from harness.journal import Journal
journal, number = Journal(Path(sys.argv[1])), int(sys.argv[2])
while True:
    journal.append([{"kind": "cell", "number": number, "text": "x" * 100_000}])
    os.write(1, b"%d\\n" % number)
    number += 1
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path):
    path, following = tmp_path / "file.jsonl", 0
    for attempt in range(25):
        with subprocess.Popen(
            [sys.executable, "-c", ENDLESS_WRITER, path, str(following)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            acknowledged = int(writer.stdout.readline())
            time.sleep(0.0007 * attempt)
            writer.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, writer.stdout.read().splitlines())])
        numbers = [record["number"] for record in Journal(path).read()[0]]
        assert numbers == list(range(len(numbers)))
        assert acknowledged < len(numbers)
        following = len(numbers)


def test_every_cut_of_a_file_can_be_read_and_appended_to(tmp_path):
    whole = tmp_path / "whole.jsonl"
    for number in range(3):
        Journal(whole).append([{"kind": "cell", "number": number, "text": "\u2297"}])
    text = whole.read_bytes()
    for length in range(len(text)):
        cut = Journal(tmp_path / "cut.jsonl")
        cut.path.write_bytes(text[:length])
        before = [record["number"] for record in cut.read()[0]]
        cut.append([{"kind": "cell", "number": 9}])
        after, notice = cut.read()
        assert [record["number"] for record in after] == [*before, 9]
        assert notice is None


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
    assert stores.richest_preset(tmp_path, "a") == "full"
    assert stores.richest_preset(tmp_path, "b") == "quick"
    with pytest.raises(StoreError, match="no results"):
        stores.richest_preset(tmp_path, "c")
