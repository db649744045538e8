"""Run experiments: connect cases, processes, the clock and the store. Prints nothing.

A case is measured by `harness.run.trial` and recorded at once, one line per contender. A contender without a time gets
a line with the reason, and the run goes on.
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.experiment import Budget, Case, Contender, Experiment, content_hash
from harness.machine import Machine, detect
from harness.run import descendants, ending, provenance, trial
from harness.run.all_cores import Gate
from harness.run.process.pool import Pool
from harness.run.trial import Entrant, Patience
from harness.store.folders import slug_of
from harness.store.store import Store
from harness.timing.host import processor_time, stolen
from harness.timing.measure import Measurement, shortfalls

# Time to start, prepare and prove a contender [s], for estimates: more where it compiles, less in a later case.
PREPARING = 0.5


class Observer:
    """Receives the progress of a run. Its methods do nothing; override those that are to show something."""

    def run_started(self, run: str, *, is_resumed: bool, cases: int, seconds: float) -> None:
        """Begin the run `run` of `cases` cases, which are expected to take `seconds`.

        If it is resumed, recorded cases are not measured again.
        """

    def experiment_started(self, experiment: str, cases: int) -> None:
        """Begin the `cases` cases of `experiment`."""

    def experiment_done(self, experiment: str) -> None:
        """Note that every case of `experiment` is in the store."""

    def case_started(self, experiment: str, case: Case) -> None:
        """Begin `case`."""

    def cell_failed(self, experiment: str, case: Case, contender: str, status: str, reason: str) -> None:
        """Note a contender without a time: it "failed", "declined", or is "missing" here, for `reason`."""

    def case_done(self, experiment: str, case: Case, *, was_recorded: bool, seconds: float) -> None:
        """Note that `case` is in the store; `was_recorded`: since before the run was resumed.

        It was expected to take `seconds`.
        """

    def notice(self, text: str) -> None:
        """Tell the user `text`."""


@dataclass(frozen=True)
class Summary:
    """The result of a run."""

    run: str
    folder: Path  # of its records
    is_resumed: bool
    counts: Mapping[str, int]  # cells measured now, by status
    recorded: int  # cells that the resumed run had recorded before


def run(
    experiments: Sequence[Experiment],
    preset: str,
    results_root: Path | str,
    observer: Observer | None = None,
    *,
    only: Collection[str] = (),
    where: Mapping[str, Collection[str]] | None = None,
    fresh: bool = False,
    patience: Patience | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Summary:
    """Run `experiments` and record every cell below `results_root`.

    If the last run on this machine was stopped before its end, and was of the same `only` and `where`, it is resumed:
    recorded cases are not measured again. A run with either replaces nothing that it does not measure
    (`harness.store.current`).

    Parameters
    ----------
    experiments : sequence of Experiment
    preset : str
    results_root : Path
    observer : Observer, optional
    only : collection of str
        Labels or backends: in each case these contenders alone are measured.
    where : mapping of str to collection of str, optional
        Values by axis, as text: only cases that stand there, as ``{"n": ["1024"]}``.
    fresh : bool
        Start a new run even if there is one to resume.
    patience : Patience, optional
    is_over : callable
        Returns whether no further case is to be begun.

    Raises
    ------
    StoreError
        If results cannot be read or written, or another run is at work on them. Recorded cells are kept.
    KeyboardInterrupt
        As usual. Recorded cells are kept; no process is left behind.
    """
    machine, part = detect(), _part(only, where or {})
    store = Store(Path(results_root) / slug_of(results_root, machine) / preset)
    plan = [
        (experiment, _restricted(experiment.of_preset(preset, machine), only, where or {}))
        for experiment in experiments
    ]
    with store.exclusive(), descendants.adopting():
        store.require_readable(experiment.name for experiment in experiments)  # before hours are spent on more of it
        resumed = None if fresh else store.unfinished_run(machine, part)
        runner = _Runner(
            store,
            machine,
            preset,
            resumed or _new_run_id(),
            observer or Observer(),
            patience or Patience(),
            is_over,
            Gate.of_preset(preset),
        )
        try:
            runner.run(plan, is_resumed=resumed is not None, part=part)
        finally:
            with ending.delayed():  # a second Ctrl-C must leave no process behind
                runner.pool.kill()
    return Summary(runner.run_id, store.folder, resumed is not None, dict(runner.counts), runner.recorded)


@dataclass
class _Runner:
    """The state of one run."""

    store: Store
    machine: Machine
    preset: str
    run_id: str
    observer: Observer
    patience: Patience
    is_over: Callable[[], bool]
    gate: Gate
    pool: Pool = field(default_factory=Pool)
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    recorded: int = 0

    def run(self, plan: list[tuple[Experiment, list[Case]]], *, is_resumed: bool, part: Mapping[str, Any]) -> None:
        """Measure the cases of all experiments; record begin and end of the run, and the experiments it completed.

        Of a `part` none is complete.
        """
        is_complete = not part
        names = [experiment.name for experiment, _ in plan]
        known = {name: self.store.keys_of_run(name, self.run_id) if is_resumed else set() for name in names}
        for text in (f"results go to {self.store.folder}", *self.store.notices):
            self.observer.notice(text)
        self.observer.run_started(
            self.run_id,
            is_resumed=is_resumed,
            cases=sum(len(cases) for _, cases in plan),
            seconds=sum(self._seconds(experiment, case) for experiment, cases in plan for case in cases),
        )
        begun = {"kind": "run", "run": self.run_id, "machine": self.machine.key, "time": _now()}
        self.store.append({**begun, "experiments": names, "part": part}, machine=self.machine)  # the folder is its own
        for experiment, cases in plan:
            self.observer.experiment_started(experiment.name, len(cases))
            for case in cases:
                if self.is_over():
                    is_complete = False
                    break
                self._case(experiment, case, known[experiment.name])
            else:
                self.observer.experiment_done(experiment.name)
        covered = names if is_complete else []
        self.store.append({"kind": "done", "run": self.run_id, "time": _now(), "experiments": covered})

    def _case(self, experiment: Experiment, case: Case, known: Collection[str]) -> None:
        """Measure and record `case`, unless all its cells are among the `known` keys."""
        keys = {c.label: self._key(experiment, case, c.label) for c in case.contenders}
        was_recorded = all(key in known for key in keys.values())
        if was_recorded:
            self.recorded += len(keys)
        else:
            self.observer.case_started(experiment.name, case)
            records = self._measured(case, experiment.budget[self.preset])
            shared = {"kind": "cell", "experiment": experiment.name, "preset": self.preset, "case": case.key}
            cells = [{**shared, "key": keys[record["contender"]], **record} for record in records]
            self.store.append(*cells, machine=self.machine)
            for record in records:
                self.counts[record["status"]] += 1
                if record["status"] != "ok":
                    label, status, reason = (record[name] for name in ("contender", "status", "reason"))
                    self.observer.cell_failed(experiment.name, case, label, status, reason)
        seconds = self._seconds(experiment, case)
        self.observer.case_done(experiment.name, case, was_recorded=was_recorded, seconds=seconds)

    def _seconds(self, experiment: Experiment, case: Case) -> float:
        """Return the expected time of `case`: that of its budget, and to prepare its contenders, in each process."""
        budget = experiment.budget[self.preset]
        return budget.processes * (budget.seconds + PREPARING * len(case.contenders))

    def _measured(self, case: Case, budget: Budget) -> list[dict[str, Any]]:
        """Measure `case`; return a record of each contender, with the load of the machine before and after."""
        load, before = [os.getloadavg()[0]], processor_time()
        entrants, measurements = trial.measure_case(case, budget, self.pool, self.patience, self.gate)
        load.append(os.getloadavg()[0])
        shared = {"load": load, "stolen": stolen(before, processor_time()), "budget": dataclasses.asdict(budget)}
        shared |= {"machine": self.machine.key, "run": self.run_id, "time": _now(), **provenance.code()}
        return [
            {**_record(case, contender, entrants[contender.label], measurements, budget), **shared}
            for contender in case.contenders
        ]

    def _key(self, experiment: Experiment, case: Case, label: str) -> str:
        """Return the hash of everything that decides the result of a cell."""
        budget = dataclasses.asdict(experiment.budget[self.preset])
        return content_hash([experiment.name, case.key, label, budget, provenance.source_digest(), self.machine.key])


def _record(
    case: Case, contender: Contender, entrant: Entrant, measurements: Sequence[Measurement], budget: Budget
) -> dict[str, Any]:
    """Return the fields of a record that tell what was measured of one contender."""
    label = contender.label
    sampled = measurements if entrant.is_ok else []
    unmet = shortfalls(sampled, label, budget, case.reference) if sampled else []
    return {
        "axes": case.axes,
        "case_arguments": case.arguments,
        "seed": case.arguments.get("seed"),
        "contender": label,
        "task": contender.task,
        "arguments": contender.arguments,
        "threads": contender.threads,
        "environment": dict(contender.environment),
        "reference": case.reference,
        "left_out": list(case.left_out),
        "status": entrant.status,
        "reason": entrant.reason,
        "series": case.series,
        "samples_ns": [[round(sample, 1) for sample in process.samples_ns[label]] for process in sampled],
        "readings": _columns([process.readings[label] for process in sampled]),
        "loops": [process.loops[label] for process in sampled],
        "warm_up_calls": [process.warm_ups[label].calls for process in sampled],
        "rounds": min(process.rounds for process in measurements),
        "unmet": "; ".join(unmet),
        "processes": len(measurements),
        "facts": entrant.facts,
        "verified": entrant.verified if entrant.is_ok else "",
        "threads_read": entrant.threads_read,
        "clock": entrant.clock,
        "all_cores": dict(entrant.all_cores),
    }


def _columns(readings: list[list[Mapping[str, float]]]) -> dict[str, list[list[float | None]]]:
    """Return the readings of the samples by name, process and sample; None where a sample has no such reading."""
    names = dict.fromkeys(name for process in readings for sample in process for name in sample)
    return {name: [[sample.get(name) for sample in process] for process in readings] for name in names}


def _part(only: Collection[str], where: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Return what a run is restricted to, as JSON in one order; empty if it measures every case as it is."""
    places = {axis: sorted({*values}) for axis, values in sorted(where.items())}
    return {**({"only": sorted({*only})} if only else {}), **({"where": places} if places else {})}


def _restricted(cases: list[Case], only: Collection[str], where: Mapping[str, Collection[str]]) -> list[Case]:
    """Return the cases at `where` that have a contender named by `only`, with those contenders alone."""
    cases = [case for case in cases if all(str(case.axes.get(axis)) in values for axis, values in where.items())]
    if not only:
        return cases
    parts = (case.of_contenders(lambda c: c.label in only or c.arguments.get("backend") in only) for case in cases)
    return [part for part in parts if part is not None]


def _new_run_id() -> str:
    """Return a name that sorts by the time at which the run began."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
