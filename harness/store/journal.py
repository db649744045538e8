"""An append-only file of JSON lines that survives kill -9, a full disk and concurrent writers.

An append is one write of whole lines and an fsync, under a lock. Readers drop a last line that a killed writer left
torn, and the next append cuts it off. An append for which the disk is too full is undone. No complete line is lost.
Readers take the file as long as it was between two appends, line by line, and need no lock after that.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from harness.errors import StoreError
from harness.store.schema import OLDEST, SCHEMA, Record, migrate

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=dict)
_DECODER = json.JSONDecoder()
# How every line begins. Quotes inside a JSON string are escaped, so no string contains this.
_BEGIN = '{"schema":'
# What a record has is not nested deeper: readers walk through it by recursion.
MOST_DEPTH, _BRACKET = 100, re.compile(rb"[\[{\]}]")
# A half of a character beyond 16 bits, as JSON escapes it.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Line(NamedTuple):
    """A record and where it stands: line number from 1, bytes from the beginning of the file, its text."""

    number: int
    offset: int
    text: bytes
    record: Record


@dataclass(frozen=True)
class Journal:
    """The lines of one file.

    Parameters
    ----------
    path : Path
        Need not exist: a missing file has no lines, and the first append makes it and its folders.
    """

    path: Path

    def lines(self, notify: Callable[[str], object] | None = None, *, containing: bytes = b"") -> Iterator[Line]:
        """Yield the records in the order in which they were appended, brought up to the present schema.

        Parameters
        ----------
        notify : callable, optional
            Gets a message for each line that was cut off while it was written; such a part is dropped.
        containing : bytes
            Other lines are skipped unread, except a last one without its newline, which may be torn.

        Raises
        ------
        StoreError
            If the file cannot be read, a line is no record of this harness, or a record is of another schema.
        """
        try:
            with self.path.open("rb") as file:
                end = _stable_end(file)
                offset = number = 0
                while offset < end:
                    text = file.readline(end - offset)
                    number += 1
                    if containing in text or not text.endswith(b"\n"):
                        yield from self._records(text, number, offset, notify)
                    offset += len(text)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read", got=str(error)) from error

    def at(self, offsets: Sequence[int]) -> Iterator[Record]:
        """Yield the records that begin at `offsets`, as `lines` yields them: an append changes none."""
        if not offsets:
            return
        with self.path.open("rb") as file:
            for offset in offsets:
                file.seek(offset)
                yield migrate(_whole(file.readline())[0][2])

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append `records`, each with the schema's number, all or none of them, and return when they are on the disk.

        Raises
        ------
        StoreError
            If the file cannot be written; it then is as long as it was.
        """
        # A lone surrogate, of an undecodable name in a message, is written as the escape that JSON has for it.
        self.append_lines(
            _ENCODER.encode({"schema": SCHEMA, **record}).encode(errors="backslashreplace") for record in records
        )

    def append_lines(self, lines: Iterable[bytes]) -> None:
        """Append records that already are JSON, without their newlines, as `append` does."""
        text = b"".join(line + b"\n" for line in lines)
        try:
            created = [path for path in (self.path, *self.path.parents) if not path.exists()]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                _write_at_end(file, text)
            finally:
                os.close(file)  # and with it the lock
            for path in created:
                _sync_folder(path.parent)
        except OSError as error:
            raise StoreError(
                f"{self.path}: a record cannot be written", got=str(error), fix=_fix(error.errno)
            ) from error

    def _records(self, text: bytes, number: int, offset: int, notify: Callable[[str], object] | None) -> Iterator[Line]:
        """Yield the records in one line: several where files were joined whose last line lacked its newline."""
        line = text.rstrip(b"\n")
        objects = _whole(line)
        if not objects and text.endswith(b"\n") and not line.startswith(_BEGIN.encode()):
            raise self._foreign(line, number)
        if notify and sum(end - begin for begin, end, _ in objects) < max(1, len(line.strip())):
            notify(f"{self.path}: line {number} was cut off while it was written; dropped")
        for begin, end, record in objects:
            schema = record.get("schema")
            if type(schema) is not int or schema < 1:
                raise self._foreign(line, number)
            if not OLDEST <= schema <= SCHEMA:
                age, fix = ("new", "upgrade gemm-harness") if schema > SCHEMA else ("old", "measure again")
                raise StoreError(
                    f"{self.path}: line {number} was written by a harness that is too {age}",
                    expected=f"schema {OLDEST} to {SCHEMA}",
                    got=f"schema {schema}",
                    fix=fix,
                )
            yield Line(number, offset + begin, line[begin:end], migrate(record))

    def _foreign(self, line: bytes, number: int) -> StoreError:
        return StoreError(
            f"{self.path}: line {number} is no record of this harness",
            expected='a JSON object with "schema" and "kind"',
            got=line[:60].decode(errors="replace"),
            fix="restore the file from version control, or remove that line",
        )


def _fix(number: int | None) -> str:
    """Return what helps against an error of the system in an append."""
    if number in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "--results FOLDER, one that can be written to"
    is_full = number in (errno.ENOSPC, errno.EDQUOT)
    return f"{'make room and ' * is_full}run again: everything recorded before is kept"


def _whole(line: bytes) -> list[tuple[int, int, Record]]:
    """Return the JSON objects in `line`, each with its first byte and the one after its last; torn ones are omitted.

    What is no character in a text, by its bytes or by an escape, is there as the text of an escape.
    """
    if _depth(line) > MOST_DEPTH:
        return []
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except ValueError:  # not UTF-8, or not JSON
        objects = _salvaged(line.decode(errors="surrogateescape"))
    else:
        objects = [(0, len(line), record)] if isinstance(record, dict) else []
        if not _SURROGATE.search(line):
            return objects
    return [(begin, end, _printable(record)) for begin, end, record in objects]


def _depth(line: bytes) -> int:
    """Return how deep the brackets of `line` are nested, those in its texts too; 0 where few can be."""
    if line.count(b"[") + line.count(b"{") <= MOST_DEPTH:
        return 0
    return max(itertools.accumulate(1 if bracket in b"[{" else -1 for bracket in _BRACKET.findall(line)))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value


def _salvaged(text: str) -> list[tuple[int, int, Record]]:
    """Return the whole objects of a line in which records are torn, or follow each other without a newline."""
    objects = []
    begin = 0 if text.startswith(_BEGIN) else -1
    while begin >= 0:
        try:
            record, end = _DECODER.raw_decode(text, begin)
            first, last = (len(text[:index].encode(errors="surrogateescape")) for index in (begin, end))
            objects.append((first, last, record))
        except ValueError:
            end = begin + 1
        begin = text.find(_BEGIN, end)
    return objects


def _stable_end(file: IO[bytes]) -> int:
    """Return the length of `file` between two appends, so that an unfinished append is not read."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
    except OSError:  # a file system without locks: a line that is being written then counts as torn
        return os.fstat(file.fileno()).st_size
    end = os.fstat(file.fileno()).st_size
    fcntl.flock(file, fcntl.LOCK_UN)
    return end


def _write_at_end(file: int, text: bytes) -> None:
    """Cut off a torn last line of the locked `file`, then append `text`; on a failure leave no part of it."""
    length = os.fstat(file).st_size
    tail = _last_line(file, length)
    if tail:
        whole = max((end for _, end, _ in _whole(tail)), default=0)
        length += whole - len(tail)
        os.ftruncate(file, length)
        text = b"\n" + text if whole else text
    os.lseek(file, length, os.SEEK_SET)
    try:
        written = 0
        while written < len(text):  # one write, unless the disk fills up or a signal comes
            written += os.write(file, text[written:])
        os.fsync(file)
    except BaseException:
        os.ftruncate(file, length)
        raise


def _last_line(file: int, length: int) -> bytes:
    """Return what follows the last newline of `file`: empty in a healthy file."""
    chunks: list[bytes] = []
    begin = length
    while begin > 0 and not (chunks and b"\n" in chunks[-1]):
        end, begin = begin, max(0, begin - (1 << 16))
        chunks.append(os.pread(file, end - begin, begin))
    return b"".join(reversed(chunks)).rpartition(b"\n")[2]


def _sync_folder(folder: Path) -> None:
    """Write the folder's entry of a new file to the disk as well."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
