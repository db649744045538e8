"""Measured cells as JSON lines in append-only files: ``<results>/<machine slug>/<preset>/<experiment>.jsonl``.

``runs.jsonl`` beside them says which run began (``run``) and ended (``done``). Lines of an experiment are of the kind
``machine`` (once per fingerprint) or ``cell`` (one contender in one case of one run). Readers see, for each point on an
experiment's axes, the last case that was measured there as a whole: samples are comparable within a case.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.experiment import PRESETS
from harness.machine import Machine
from harness.stats import statistics
from harness.store import current as store_current
from harness.store import schema
from harness.store.current import IndexEntry
from harness.store.journal import Journal, Line
from harness.store.schema import Record

RUNS = "runs"
_RUN_KINDS, _CELL_KINDS = ("run", "done", "machine"), ("cell", "machine")

# Occurs in every line with a fingerprint, and hardly in any other: only such lines are parsed to find fingerprints.
_IN_MACHINES = b'"cores"'


@dataclass(frozen=True)
class Cell:
    """The record of one contender in one case. `harness.store.schema.CELL` describes the fields."""

    experiment: str
    preset: str
    case: str
    axes: Mapping[str, Any]
    contender: str
    arguments: Mapping[str, Any]
    threads: int
    reference: str
    status: str
    reason: str
    samples_ns: list[list[float]]
    facts: Mapping[str, Any]
    machine: str
    key: str
    run: str
    time: str
    record: Mapping[str, Any] = dataclasses.field(repr=False)  # the whole line, brought up to the present schema
    is_current: bool = True  # figures and report are made of it, by `harness.store.current`

    @property
    def is_of_part(self) -> bool:
        """True if the run left out other contenders of the case."""
        return bool(self.record.get("left_out"))

    @property
    def is_ok(self) -> bool:
        """True if it was proven right and timed."""
        return self.status == "ok"

    @property
    def all_samples_ns(self) -> list[float]:
        """The samples of all processes [ns per call], one after the other."""
        return [sample for process in self.samples_ns for sample in process]

    @property
    def median_ns(self) -> float:
        """Median time of a call [ns]; NaN without samples."""
        samples = self.all_samples_ns
        return statistics.median(samples) if samples else float("nan")

    @property
    def rate(self) -> float:
        """Operations per nanosecond, which is G operations per second; NaN without samples or operations."""
        return float(self.facts.get("operations", float("nan"))) / self.median_ns


# The fields of a record that a cell has as attributes.
_RECORDED = [field.name for field in dataclasses.fields(Cell) if field.name not in ("record", "is_current")]


class Store:
    """The records of one preset on one machine.

    Parameters
    ----------
    folder : Path
        ``<results>/<machine slug>/<preset>``; need not exist.

    Attributes
    ----------
    notices : list of str
        Messages for the user about records that could not be read.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.notices: list[str] = []
        self._machines_written: set[tuple[str, str, str]] = set()

    def cells(self, experiment: str | None = None) -> list[Cell]:
        """Return the current cells of `experiment`, or of all: for each point on the axes, the latest whole case.

        Raises
        ------
        StoreError
            If a file is unreadable, foreign or of a newer schema.
        """
        completed = self._latest_completed()
        names = [experiment] if experiment else self.experiments()
        return [
            cell
            for name in names
            for cell in self._load(name, store_current.current(self._entries(name), completed.get(name, "")))
        ]

    def every_cell(self, experiment: str | None = None) -> Iterator[Cell]:
        """Yield the cells of all runs, the first run first; for each run and point the latest case.

        Holds one cell at a time. Raises as `cells` does.
        """
        completed = self._latest_completed()
        for name in [experiment] if experiment else self.experiments():
            entries = self._entries(name)
            current = {entry.offset for entry in store_current.current(entries, completed.get(name, ""))}
            chosen = store_current.of_each_run(entries)
            for entry, cell in zip(chosen, self._load(name, chosen), strict=True):
                yield cell if entry.offset in current else dataclasses.replace(cell, is_current=False)

    def cells_containing(self, text: bytes) -> Iterator[Cell]:
        """Yield the cells of all runs whose records contain `text`; for each run and point the latest case.

        Other records are not parsed. Raises as `cells` does.
        """
        for name in self.experiments():
            entries = [IndexEntry.of(line.record, line.offset) for line in self._lines(name, text) if _is_cell(line)]
            yield from self._load(name, store_current.of_each_run(entries))

    def require_readable(self, experiments: Iterable[str]) -> None:
        """Raise StoreError, as `cells` does, if what is recorded of `experiments` and of runs cannot be read."""
        for name in (RUNS, *experiments):
            for _ in self._lines(name):
                pass

    def experiments(self) -> list[str]:
        """Return the names of the experiments that have a file here, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl") if path.stem != RUNS)

    def machine(self) -> Machine:
        """Return the machine of the latest run.

        Raises
        ------
        StoreError
            If nothing has been recorded here.
        """
        machines = {record["key"]: record for record in self._fingerprints()}
        if not machines:
            raise StoreError(f"{self.folder}: no results", fix="python -m harness run")
        runs = [(run["run"], run["machine"]) for run in self._records(RUNS, "run") if run["machine"] in machines]
        return Machine.from_json(machines[max(runs)[1] if runs else max(machines)]["machine"])

    def machines(self) -> list[Machine]:
        """Return every fingerprint here; none where nothing has been recorded."""
        return [Machine.from_json(record["machine"]) for record in self._fingerprints()]

    def append(self, *records: Mapping[str, Any], machine: Machine | None = None) -> None:
        """Append `records`, all of one experiment or all of the kinds "run" and "done", in one piece.

        Cells that are appended together are a batch (`harness.store.current`), in the order in which they are given.
        With `machine`, its fingerprint goes before them unless the file has it.

        Raises
        ------
        StoreError
            If they cannot be written; the file then is as it was.
        """
        name, lines = RUNS, list(records)
        if records[0]["kind"] == "cell":
            name, now = str(records[0]["experiment"]), datetime.now(UTC).isoformat()
            lines = [{**record, "appended": now, "position": index} for index, record in enumerate(records)]
        if machine is not None and not self._has_machine(name, machine):
            lines.insert(0, {"kind": "machine", "key": machine.key, "machine": machine.to_json()})
        for line in lines:
            assert not schema.lacking(line), f"{line['kind']} without {schema.lacking(line)}"
        self._journal(name).append(lines)
        if machine is not None:
            self._machines_written.add((name, machine.key, machine.host))

    def unfinished_run(self, machine: Machine, part: Mapping[str, Any] | None = None) -> str | None:
        """Return the run that was started last on `machine` if it was of the same `part`, and has not ended; or None.

        `part` is what the run was restricted to; without, nothing.
        """
        begun = [run for run in self._records(RUNS, "run") if run["machine"] == machine.key]
        last = max(begun, key=lambda run: str(run["run"]), default=None)
        if last is None or last.get("part", {}) != (part or {}):
            return None
        return None if last["run"] in {run["run"] for run in self._records(RUNS, "done")} else str(last["run"])

    def keys_of_run(self, experiment: str, run: str) -> set[str]:
        """Return the keys of the cells of `experiment` that `run` has recorded, whatever their status."""
        return {cell["key"] for cell in self._records(experiment, "cell", run.encode()) if cell["run"] == run}

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep every other run away from this folder: two at once would disturb each other's times.

        Raises
        ------
        StoreError
            If another run is at work here, or the folder cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.folder, os.O_RDONLY)
        except OSError as error:
            raise StoreError(
                f"{self.folder}: cannot be written to",
                got=error.strerror or str(error),
                fix="--results FOLDER, one that can be written to",
            ) from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise StoreError(
                f"{self.folder}: another run is at work here", fix="wait for it, or stop it and run again to resume"
            ) from error
        finally:
            os.close(folder)  # and with it the lock

    def _journal(self, name: str) -> Journal:
        return Journal(self.folder / f"{name}.jsonl")

    def _lines(self, name: str, containing: bytes = b"") -> Iterator[Line]:
        journal = self._journal(name)
        for line in journal.lines(self._notice, containing=containing):
            _check(line, journal.path, _RUN_KINDS if name == RUNS else _CELL_KINDS)
            yield line

    def _records(self, name: str, kind: str, containing: bytes = b"") -> Iterator[Record]:
        return (line.record for line in self._lines(name, containing) if line.record["kind"] == kind)

    def _machines(self, name: str) -> Iterator[Record]:
        return self._records(name, "machine", _IN_MACHINES)

    def _notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    def _entries(self, name: str) -> list[IndexEntry]:
        return [IndexEntry.of(line.record, line.offset) for line in self._lines(name) if _is_cell(line)]

    def _load(self, name: str, entries: Sequence[IndexEntry]) -> Iterator[Cell]:
        for record in self._journal(name).at([entry.offset for entry in entries]):
            yield Cell(**{name: record[name] for name in _RECORDED}, record=record)

    def _latest_completed(self) -> dict[str, str]:
        """Return, by experiment, the latest run that recorded all its cases: what is older has been superseded."""
        completed: dict[str, str] = {}
        for done in self._records(RUNS, "done"):
            for experiment in done.get("experiments", ()):
                completed[experiment] = max(done["run"], completed.get(experiment, ""))
        return completed

    def _fingerprints(self) -> Iterator[Record]:
        return (record for name in (RUNS, *self.experiments()) for record in self._machines(name))

    def _has_machine(self, name: str, machine: Machine) -> bool:
        written = (name, machine.key, machine.host)
        return written in self._machines_written or any(
            written == (name, record["key"], record["machine"].get("host", "")) for record in self._machines(name)
        )


def machines(results_root: Path | str) -> list[str]:
    """Return the slugs of the machines that have results below `results_root`, sorted."""
    root = Path(results_root)
    return sorted(folder.name for folder in root.glob("*") if presets(root, folder.name))


def presets(results_root: Path | str, slug: str) -> list[str]:
    """Return the presets in which the machine called `slug` has results, the smallest first."""
    folder = Path(results_root) / slug
    return [preset for preset in PRESETS if Store(folder / preset).experiments()]


def _is_cell(line: Line) -> bool:
    return bool(line.record["kind"] == "cell")


def _check(line: Line, path: Path, kinds: tuple[str, ...]) -> None:
    """Raise unless `line` of the file at `path` is a valid record of one of `kinds`."""
    kind = line.record.get("kind")
    flaw = schema.flaw(line.record) if kind in kinds else f"kind {kind!r}"
    if flaw:
        raise StoreError(
            f"{path}: line {line.number} is no {kinds[0]}",
            expected=f"a record of the kind {' or '.join(map(repr, kinds))}",
            got=flaw,
            fix="restore the file from version control, or remove that line",
        )
