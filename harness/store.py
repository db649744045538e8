"""What was measured, as JSON lines, only ever appended to: ``<results>/<machine slug>/<preset>/<experiment>.jsonl``.

``runs.jsonl`` beside them says which run began (``run``) and ended (``done``). Lines of an experiment are of the kind
``machine`` (once per fingerprint) or ``cell`` (one contender in one case of one run). Readers see, for each place on an
experiment's axes, the case that was measured there last, with all its contenders: samples are comparable within a case.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import statistics
from harness.errors import StoreError
from harness.experiment import PRESETS, content_hash
from harness.journal import Journal
from harness.machine import Machine

RUNS = "runs"
STATUSES = ("ok", "failed", "declined", "missing")


@dataclass(frozen=True)
class Cell:
    """One contender in one case: what was recorded.

    Parameters
    ----------
    experiment, preset : str
    case : str
        Content hash of the case; cells with the same `case` and `run` were measured interleaved.
    axes : mapping
        Where the case stands in the experiment: ``{"n": 512}``.
    contender : str
        Its label.
    arguments : mapping
        What the contender's task was given beside the case's arguments: for a product ``backend``, ``parameters``.
    threads : int
    reference : str
        Label of the contender that paired ratios are taken to.
    status : str
        ``"ok"``, ``"failed"``, ``"declined"`` or ``"missing"``; only ``"ok"`` has samples.
    reason : str
        Why the status is not ``"ok"``; else empty.
    samples_ns : list of list of float
        Time per call [ns], by process and sample; samples of equal index were taken in the same half round.
    facts : mapping
        What the task reported: ``operations``, ``bytes_moved``, ``plan``, ``problem``.
    machine : str
        Key of the fingerprint.
    key, run, time : str
        Content hash of everything that decides the result; the run; when it was recorded (ISO 8601).
    record : mapping
        The whole line.
    """

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
    record: Mapping[str, Any] = dataclasses.field(repr=False)

    @property
    def is_ok(self) -> bool:
        """Whether it was proven right and timed."""
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


class Store:
    """The records of one preset on one machine.

    Parameters
    ----------
    folder : Path
        ``<results>/<machine slug>/<preset>``; need not exist.

    Attributes
    ----------
    notices : list of str
        What reading had to leave out, for the user to know.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.notices: list[str] = []
        self._machines_written: set[tuple[str, str]] = set()

    def cells(self, experiment: str | None = None) -> list[Cell]:
        """Return the cells of `experiment`, or of all, that are current: of each place on the axes, the latest case.

        Raises
        ------
        StoreError
            If a file is unreadable, foreign or of a newer schema.
        """
        completed = self._latest_completed()
        current = []
        for name in [experiment] if experiment else self.experiments():
            recorded = [cell for cell in self._all_cells(name) if cell.run >= completed.get(name, "")]
            current.extend(_latest(recorded))
        return current

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
        machines: dict[str, Machine] = {}
        for name in self.experiments():
            for record in self._read(name):
                if record.get("kind") == "machine":
                    machines[record["key"]] = Machine.from_json(record["machine"])
        latest = [run["machine"] for run in self._runs("run") if run["machine"] in machines]
        if not machines:
            raise StoreError(f"{self.folder}: no results", fix="make experiments")
        return machines[latest[-1]] if latest else list(machines.values())[-1]

    def append(self, *records: Mapping[str, Any], machine: Machine | None = None) -> None:
        """Append `records`, all of one experiment or all of the kinds "run" and "done", in one piece.

        With `machine`, its fingerprint goes before them unless the file has it.

        Raises
        ------
        StoreError
            If they cannot be written; the file then is as it was.
        """
        name = str(records[0]["experiment"]) if records[0]["kind"] == "cell" else RUNS
        lines = list(records)
        if machine is not None and not self._has_machine(name, machine.key):
            lines.insert(0, {"kind": "machine", "key": machine.key, "machine": machine.to_json()})
        self._journal(name).append(lines)
        if machine is not None:
            self._machines_written.add((name, machine.key))

    def unfinished_run(self, machine: Machine) -> str | None:
        """Return the run that was started last on `machine` if it has not ended, or None."""
        started = [run["run"] for run in self._runs("run") if run["machine"] == machine.key]
        ended = {run["run"] for run in self._runs("done")}
        return started[-1] if started and started[-1] not in ended else None

    def keys_of_run(self, experiment: str, run: str) -> set[str]:
        """Return the keys of the cells of `experiment` that `run` has recorded, whatever their status."""
        return {cell.key for cell in self._all_cells(experiment) if cell.run == run}

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
            raise StoreError(f"{self.folder}: cannot be written to", got=str(error)) from error
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

    def _read(self, name: str) -> list[dict[str, Any]]:
        records, notice = self._journal(name).read()
        if notice and notice not in self.notices:
            self.notices.append(notice)
        return records

    def _all_cells(self, experiment: str) -> list[Cell]:
        path = self._journal(experiment).path
        return [
            _cell(record, path, number)
            for number, record in enumerate(self._read(experiment), 1)
            if record.get("kind") != "machine"
        ]

    def _runs(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self._read(RUNS) if record.get("kind") == kind]

    def _latest_completed(self) -> dict[str, str]:
        """Return, by experiment, the latest run that recorded all its cases: what is older has been superseded."""
        completed: dict[str, str] = {}
        for done in self._runs("done"):
            for experiment in done.get("experiments", ()):
                completed[experiment] = max(done["run"], completed.get(experiment, ""))
        return completed

    def _has_machine(self, name: str, key: str) -> bool:
        return (name, key) in self._machines_written or any(
            record.get("kind") == "machine" and record.get("key") == key for record in self._read(name)
        )


def machines(results_root: Path | str) -> list[str]:
    """Return the slugs of the machines that have results below `results_root`, sorted."""
    root = Path(results_root)
    return sorted(folder.name for folder in root.glob("*") if presets(root, folder.name))


def presets(results_root: Path | str, slug: str) -> list[str]:
    """Return the presets in which the machine called `slug` has results, the smallest first."""
    folder = Path(results_root) / slug
    return [preset for preset in PRESETS if Store(folder / preset).experiments()]


def richest_preset(results_root: Path | str, slug: str) -> str:
    """Return the largest preset in which the machine called `slug` has results.

    Raises
    ------
    StoreError
        If it has none.
    """
    found = presets(results_root, slug)
    if not found:
        raise StoreError(
            f"{Path(results_root) / slug}: no results",
            expected=f"one of {machines(results_root)}",
            fix="make experiments",
        )
    return found[-1]


def _cell(record: Mapping[str, Any], path: Path, number: int) -> Cell:
    names = [field.name for field in dataclasses.fields(Cell) if field.name != "record"]
    lacking = [name for name in names if name not in record]
    if record.get("kind") != "cell" or lacking or record["status"] not in STATUSES:
        raise StoreError(
            f"{path}: line {number} is no cell",
            expected="a record of the kind 'cell' or 'machine'",
            got=f"kind {record.get('kind')!r}" + (f" without {', '.join(lacking)}" if lacking else ""),
            fix="restore the file from version control, or remove that line",
        )
    return Cell(**{name: record[name] for name in names}, record=record)


def _latest(cells: list[Cell]) -> list[Cell]:
    """Return, for each place on the axes, the cells of the case of the latest run there; later records win."""
    places: dict[str, list[Cell]] = {}
    for cell in cells:
        places.setdefault(content_hash(cell.axes), []).append(cell)
    current: list[Cell] = []
    for recorded in places.values():
        newest = max(enumerate(recorded), key=lambda entry: (entry[1].run, entry[0]))[1]
        same_case = [cell for cell in recorded if (cell.run, cell.case) == (newest.run, newest.case)]
        current.extend({cell.contender: cell for cell in same_case}.values())
    return current
