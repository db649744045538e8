"""The file of JSON lines: what it survives, and what it refuses."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import multiprocessing
import os
import resource
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.store.journal import Journal
from harness.store.schema import SCHEMA
from tests._support.processes import python


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "file.jsonl")


def numbered(number: int, **fields: object) -> dict[str, object]:
    return {"kind": "cell", "number": number, **fields}


def line(number: int, text: str = "") -> bytes:
    """Return a whole line as it is written, made without the journal."""
    return f'{{"schema":5,"kind":"cell","number":{number},"text":"{text}"}}\n'.encode()


def read(journal: Journal) -> tuple[list[int], list[str]]:
    """Return the numbers of the records and what was said about torn lines."""
    notices: list[str] = []
    return [line.record["number"] for line in journal.lines(notices.append)], notices


def test_a_missing_file_has_no_lines(journal):
    assert read(journal) == ([], [])


def test_offsets_lead_to_the_records(journal):
    journal.append([numbered(1, text="\u2297"), numbered(2)])
    journal.append([numbered(3)])
    lines = list(journal.lines())
    assert [record["number"] for record in journal.at(line.offset for line in reversed(lines))] == [3, 2, 1]
    text = journal.path.read_bytes()
    assert all(text[line.offset :].startswith(line.text + b"\n") for line in lines)


def test_lines_that_do_not_contain_what_is_sought_are_passed_over_unread(journal):
    journal.path.write_bytes(line(1, "sought") + b"not even JSON\n" + line(2) + line(3, "sought"))
    assert [line.record["number"] for line in journal.lines(containing=b"sought")] == [1, 3]
    with journal.path.open("ab") as file:
        file.write(line(4)[:9])
    notices: list[str] = []
    assert len(list(journal.lines(notices.append, containing=b"sought"))) == 2
    assert "line 5" in notices[0]


def test_a_record_is_on_the_disk_before_append_returns(journal, monkeypatch):
    """What was not synced survives kill -9, but no power failure; so look for the calls."""
    calls: list[tuple[str, str]] = []
    write, sync = os.write, os.fsync

    def name(file: int) -> str:
        return Path(f"/proc/self/fd/{file}").readlink().name

    monkeypatch.setattr(os, "write", lambda file, text: calls.append(("write", name(file))) or write(file, text))
    monkeypatch.setattr(os, "fsync", lambda file: calls.append(("fsync", name(file))) or sync(file))
    nested = Journal(journal.path.parent / "new" / "newer" / "file.jsonl")
    nested.append([numbered(1)])
    assert calls[:2] == [("write", "file.jsonl"), ("fsync", "file.jsonl")]
    folders = {name for call, name in calls[2:] if call == "fsync"}
    assert folders == {"newer", "new", journal.path.parent.name}, "each new name is on the disk as well"
    calls.clear()
    nested.append([numbered(2)])
    assert calls == [("write", "file.jsonl"), ("fsync", "file.jsonl")]


def test_every_cut_of_a_file_can_be_read_and_appended_to(journal):
    text = b"".join(line(number, "\u2297") for number in range(3))
    ends = [index + 1 for index, byte in enumerate(text) if byte == ord("\n")]
    for length in range(len(text)):
        journal.path.write_bytes(text[:length])
        whole = list(range(sum(end - 1 <= length for end in ends)))
        is_torn = length not in (0, *ends, *(end - 1 for end in ends))
        numbers, notices = read(journal)
        assert (numbers, len(notices)) == (whole, is_torn)
        journal.append([numbered(9)])
        assert read(journal) == ([*whole, 9], [])


@pytest.mark.parametrize("size", [10, 1 << 16, 200_000, 5 << 20])
def test_a_torn_line_of_any_length_is_cut_off(journal, size):
    journal.append([numbered(1)])
    with journal.path.open("ab") as file:
        file.write(b'{"schema":5,' + b" " * size)
    assert read(journal)[0] == [1]
    journal.append([numbered(2)])
    assert read(journal) == ([1, 2], [])
    assert journal.path.stat().st_size < 200


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xff\xfe\xfa", '{"schema":5,"a":"\u2297'.encode()[:-1], b"{" * 9000])
def test_a_tail_of_anything_but_a_record_is_dropped(journal, tail):
    journal.append([numbered(1)])
    with journal.path.open("ab") as file:
        file.write(tail)
    numbers, (notice,) = read(journal)
    assert numbers == [1]
    assert "line 2 was cut off" in notice
    journal.append([numbered(2)])
    assert read(journal) == ([1, 2], [])


@pytest.mark.parametrize("end", ["", "\n"])
def test_files_joined_where_one_was_torn_keep_every_whole_record(journal, end):
    """As `cat` and version control join them."""
    whole, torn = line(1).rstrip(), line(2)[:20]
    journal.path.write_bytes(
        torn + line(3) + whole + line(4) + whole + torn + line(5) + line(6).rstrip() + end.encode()
    )
    numbers, notices = read(journal)
    assert numbers == [3, 1, 4, 1, 5, 6]
    assert [notice.split(":")[1].split()[:2] for notice in notices] == [["line", "1"], ["line", "3"]]
    offsets = [line.offset for line in journal.lines()]
    assert [record["number"] for record in journal.at(offsets)] == numbers
    journal.append([numbered(7)])
    assert read(journal)[0] == [*numbers, 7]


def test_healing_keeps_a_whole_record_in_front_of_a_torn_one(journal):
    journal.path.write_bytes(line(1) + line(2).rstrip() + line(3)[:5])
    journal.append([numbered(4)])
    assert read(journal) == ([1, 2, 4], [])


@pytest.mark.parametrize(
    "foreign", [b"<<<<<<< HEAD", b"", b"[1]", b"\xff", b"\0\0", b"[" * 100_000, b"7", b'{"kind":"cell"}']
)
def test_a_foreign_line_is_an_error_with_its_number(journal, foreign):
    journal.path.write_bytes(line(1) + foreign + b"\n" + line(2))
    with pytest.raises(StoreError, match=r"file\.jsonl: line 2 is no record"):
        read(journal)
    before = journal.path.read_bytes()
    journal.append([numbered(3)])
    assert journal.path.read_bytes().startswith(before), "what it does not understand it leaves alone"


@pytest.mark.parametrize("schema", ["true", "0", "-1", '"1"', "1.0", "null"])
def test_a_schema_that_never_was_is_foreign(journal, schema):
    journal.path.write_bytes(b'{"schema":%s,"kind":"cell"}\n' % schema.encode())
    with pytest.raises(StoreError, match="line 1 is no record"):
        read(journal)


def test_windows_line_ends_are_read(journal):
    journal.path.write_bytes((line(1) + line(2)).replace(b"\n", b"\r\n"))
    assert read(journal) == ([1, 2], [])


def test_a_text_that_is_no_unicode_is_written_as_json_has_it(journal):
    journal.append([numbered(1, text="a name that is not UTF-8: \udcff")])
    (found,) = journal.lines()
    assert found.record["text"].endswith(r": \udcff"), "what can be printed"
    assert found.text.endswith(rb': \udcff"}')
    journal.path.read_bytes().decode("utf-8", errors="strict")


def test_a_long_line_is_read_and_followed(journal):
    journal.append([numbered(1, text="x" * (8 << 20))])
    journal.append([numbered(2)])
    assert read(journal) == ([1, 2], [])


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_where_nothing_may_be_written_another_folder_is_the_remedy(journal, monkeypatch, number):
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"file\.jsonl") as caught:
        journal.append([numbered(1)])
    assert caught.value.fix == "--results FOLDER, one that can be written to"


@pytest.mark.parametrize("room", [0, 10, 300])
def test_a_full_disk_leaves_nothing_half_written(journal, monkeypatch, room):
    journal.append([numbered(1)])
    before = journal.path.read_bytes()
    left, write = [room], os.write

    def write_until_full(file: int, text: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(file, text[: left[0]])
        left[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_until_full)
        with pytest.raises(StoreError, match=r"file\.jsonl") as caught:
            journal.append([numbered(2, text="x" * 1000)])
    assert "No space left" in caught.value.got
    assert caught.value.fix.startswith("make room")
    assert journal.path.read_bytes() == before
    journal.append([numbered(2)])
    assert read(journal) == ([1, 2], [])


LIMITED = """
import resource, sys
from pathlib import Path
from harness.errors import StoreError
from harness.store.journal import Journal
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    Journal(Path(sys.argv[1])).append([{"kind": "cell", "number": 2, "text": "x" * 5000}])
except StoreError as error:
    print(error.got)
"""


def test_a_limit_of_the_system_that_cuts_a_write_in_two_leaves_nothing_half_written(journal):
    """The kernel's own partial write: 1000 bytes of it are taken, and then no more."""
    journal.append([numbered(1)])
    before = journal.path.read_bytes()
    assert "too large" in python("-c", LIMITED, journal.path).stdout
    assert journal.path.read_bytes() == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


def _append(path: Path, writer: int, numbers: Iterable[int]) -> None:
    for number in numbers:
        Journal(path).append([{"kind": "cell", "writer": writer, "number": number, "text": "x" * 5000}] * 2)


def _append_together(path: Path, writer: int, numbers: Iterable[int], ready: threading.Barrier) -> None:
    ready.wait()
    _append(path, writer, numbers)


def _append_until_told(path: Path, stop: Path) -> None:
    _append(path, 0, itertools.takewhile(lambda _: not stop.exists(), itertools.count()))


def _start(target: Callable[..., None], *arguments: object) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def test_concurrent_writers_lose_nothing_and_heal_a_torn_tail_once(journal):
    journal.path.write_bytes(line(0) + line(1)[:-20])
    ready = multiprocessing.get_context("spawn").Barrier(3)
    for process in [_start(_append_together, journal.path, writer, range(20), ready) for writer in range(3)]:
        process.join()
        assert process.exitcode == 0
    records = [json.loads(text) for text in journal.path.read_bytes().splitlines()]  # every line is whole
    assert records.pop(0)["number"] == 0
    for writer in range(3):
        expected = [number for number in range(20) for _ in range(2)]
        assert [r["number"] for r in records if r["writer"] == writer] == expected


def test_a_reader_beside_a_writer_sees_whole_appends_only(journal, tmp_path):
    process, seen = _start(_append_until_told, journal.path, tmp_path / "stop"), {0}
    while len(seen) < 30:
        assert process.is_alive()
        numbers, notices = read(journal)
        assert notices == []
        assert numbers == [number for number in range(len(numbers) // 2) for _ in range(2)]
        assert len(numbers) >= max(seen)
        seen.add(len(numbers))
    (tmp_path / "stop").touch()
    process.join()
    assert process.exitcode == 0


def test_a_reader_waits_while_an_append_is_half_written(journal):
    journal.append([numbered(1)])
    found: list[tuple[list[int], list[str]]] = []
    reader = threading.Thread(target=lambda: found.append(read(journal)))
    with journal.path.open("ab", buffering=0) as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        writer.write(line(2)[:20])
        reader.start()
        reader.join(timeout=0.3)
        writer.write(line(2)[20:])
    reader.join()
    assert found == [([1, 2], [])]


def test_it_writes_the_present_schema(journal):
    journal.append([numbered(1)])
    assert json.loads(journal.path.read_text())["schema"] == SCHEMA
