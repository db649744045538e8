"""A file of JSON lines that is only ever appended to, and that survives kill -9, a full disk and concurrent writers.

An append is one write of whole lines and an fsync, under a lock. What a killed writer left of a last line is dropped by
readers and cut off by the next append; what a full disk took half of is taken back. No line that was there is lost.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import StoreError

SCHEMA = 1
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=dict)


@dataclass(frozen=True)
class Journal:
    """The lines of one file.

    Parameters
    ----------
    path : Path
        Need not exist: a missing file has no lines, and the first append makes it and its folders.
    """

    path: Path

    def read(self) -> tuple[list[dict[str, Any]], str | None]:
        """Return the records in the order in which they were appended, and a notice if a torn last line was dropped.

        Raises
        ------
        StoreError
            If the file cannot be read, a line is no record of this harness, or a record is of a newer schema.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return [], None
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read", got=str(error)) from error
        lines = text.split(b"\n")
        tail = lines.pop()
        notice = None
        if tail and _parse(tail) is not None:
            lines.append(tail)  # whole, but for its newline
        elif tail:
            notice = f"{self.path}: line {len(lines) + 1} was cut off while it was written; dropped"
        return [self._record(line, number) for number, line in enumerate(lines, 1)], notice

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append `records`, each with the schema's number, all or none of them, and return when they are on the disk.

        Raises
        ------
        StoreError
            If the file cannot be written; it then is as long as it was.
        """
        text = "".join(_ENCODER.encode({"schema": SCHEMA, **record}) + "\n" for record in records).encode()
        try:
            is_new = not self.path.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                _write_at_end(file, text)
            finally:
                os.close(file)  # and with it the lock
            if is_new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise StoreError(
                f"{self.path}: a record cannot be written",
                got=str(error),
                fix="make room and run again: everything recorded before is kept",
            ) from error

    def _record(self, line: bytes, number: int) -> dict[str, Any]:
        record = _parse(line)
        if record is None or not isinstance(record.get("schema"), int):
            raise StoreError(
                f"{self.path}: line {number} is no record of this harness",
                expected='a JSON object with "schema" and "kind"',
                got=line[:60].decode(errors="replace"),
                fix="restore the file from version control, or remove that line",
            )
        if record["schema"] > SCHEMA:
            raise StoreError(
                f"{self.path}: line {number} was written by a newer version of this harness",
                expected=f"schema {SCHEMA} or older",
                got=f"schema {record['schema']}",
                fix="upgrade gemm-harness",
            )
        return record


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in `line`, or None."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _write_at_end(file: int, text: bytes) -> None:
    """Heal the end of the locked `file`, then write `text` there; on a failure leave no part of it."""
    length = os.fstat(file).st_size
    tail = _last_line(file, length)
    if tail and _parse(tail) is not None:
        text = b"\n" + text
    elif tail:
        length -= len(tail)
        os.ftruncate(file, length)
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
    chunk, tail, start = 1 << 16, b"", length
    while start > 0 and b"\n" not in tail:
        begin = max(0, start - chunk)
        tail = os.pread(file, start - begin, begin) + tail
        start = begin
    return tail.rpartition(b"\n")[2]


def _sync_folder(folder: Path) -> None:
    """Put the new file's name on the disk as well."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
