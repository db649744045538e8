"""Two stored runs, or two contenders of one, compared cell by cell, with changes of the machine taken out. Pure.

Samples of different runs are no pairs. But both runs measured the same reference interleaved with each contender. The
ratios to it are compared, so that changes of the machine cancel. The reference itself can only be compared by its own
time, which tells whether the machine (or the reference's code) changed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.analysis import rates
from harness.analysis.contests import Contest, judge
from harness.errors import StoreError
from harness.experiment import content_hash
from harness.machine import Machine
from harness.report import tables
from harness.stats import significance, verdict
from harness.stats.verdict import Comparison, Verdict
from harness.store import store
from harness.store.journal import Journal
from harness.store.store import Cell, Store

# A reference that moved by less, or by chance with more than this probability, is no evidence: machines drift.
MACHINE_EFFECT, MACHINE_CHANCE = 0.05, 0.001

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    name: str  # as the user gave it
    cells: Mapping[Key, Cell]  # the latest ones by experiment, hash of the axes, and contender
    machines: Mapping[str, Machine]  # the fingerprints of those cells, by key


@dataclass
class CellChange(Contest):
    """A contender judged against itself in an older run, in units of the reference; or against the other contender."""

    before: tuple[Cell, Cell] | None = None  # contender and reference in the older run; None within one run

    @property
    def place(self) -> str:
        """The experiment and the coordinates of the cell, for people."""
        return f"{self.subject.experiment}: {tables.place([self.subject])}"

    @property
    def comparison(self) -> Comparison:
        """New against old, both in units of the reference; or one contender against the other."""
        if self.settled or self.before is None:
            return super().comparison
        old = (self.before[0].samples_ns, self.before[1].samples_ns)
        return verdict.compare_runs((self.subject.samples_ns, self.reference.samples_ns), old)

    @property
    def moved(self) -> float:
        """Own time, new over old; NaN within one run."""
        return self.subject.median_ns / self.before[0].median_ns if self.before else math.nan

    @property
    def machine_moved(self) -> float | None:
        """Time of the reference, new over old, if it moved beyond the drift of a machine; else None."""
        if self.before is None:
            return None
        now, then = self.reference, self.before[1]
        moved = now.median_ns / then.median_ns
        chance = significance.mann_whitney(now.all_samples_ns, then.all_samples_ns)
        is_large = not 1 / (1 + MACHINE_EFFECT) <= moved <= 1 + MACHINE_EFFECT
        return moved if is_large and chance < MACHINE_CHANCE else None

    @property
    def hint(self) -> str:
        """A sentence that says whether the machine changed; empty if it did not."""
        machine_moved, reference = self.machine_moved, self.reference.contender
        if machine_moved is None:
            return ""
        direction = "slower" if machine_moved > 1 else "faster"
        if self.verdict in (Verdict.SLOWER, Verdict.FASTER) and not _is_likewise(self.moved, machine_moved):
            return f"{reference} moved alone: x{machine_moved:.2f} ({direction})"
        return f"machine: {reference} x{machine_moved:.2f} ({direction})"

    def to_json(self) -> dict[str, Any]:
        """Return the change as a JSON object."""
        comparison = self.comparison
        return {
            "place": self.place,
            "contender": self.subject.contender,
            "reference": self.reference.contender,
            "moved": self.moved,
            "machine_moved": self.machine_moved,
            "ratio": list(comparison.ratio),
            "p_value": comparison.p_value,
            "pairs": comparison.pairs,
            "processes": comparison.processes,
            "verdict": self.verdict.value,
            "hint": self.hint,
        }


def side(name: str, results: Path, presets: Collection[str] = (), experiments: Collection[str] = ()) -> Side:
    """Return the side called `name`: a folder of results, or a machine, preset, run or commit below `results`.

    Runs and commits may be shortened. A preset, a machine or a folder stands for what is current in it.

    Raises
    ------
    StoreError
        If nothing recorded is called so, or there is no such preset or experiment.
    """
    is_folder = (Path(name) / "").is_dir() and bool(store.machines(name))
    root = Path(name) if is_folder else results
    folders = [(slug, preset) for slug in store.machines(root) for preset in store.presets(root, slug)]
    _check_known("preset", presets, {preset for _, preset in folders})
    recorded = (Store(root / slug / preset).experiments() for slug, preset in folders)
    _check_known("experiment", experiments, {experiment for names in recorded for experiment in names})
    cells, machines, runs = dict[Key, Cell](), dict[str, Machine](), set[str]()
    for slug, preset in folders:
        if presets and preset not in presets:
            continue
        names_all = is_folder or name in (slug, preset, f"{slug}/{preset}")
        records = Store(root / slug / preset)
        for experiment in records.experiments():
            if experiments and experiment not in experiments:
                continue
            for cell in records.every_cell(experiment):
                runs.add(cell.run)
                if cell.is_current if names_all else _is_called(cell, name):
                    _keep_latest(cells, cell)
            machines |= _machines(records.folder / f"{experiment}.jsonl")
    if not cells:
        raise StoreError(
            f"nothing recorded is called {name!r}",
            expected="a folder of results, or a machine, preset, run or commit in one",
            got=f"{results}: {', '.join(store.machines(results)) or 'no results'}; runs {', '.join(sorted(runs)[-5:])}",
            fix="python -m harness results --by run",
        )
    used = {cell.machine for cell in cells.values()}
    return Side(name, cells, {key: machine for key, machine in machines.items() if key in used})


def _check_known(noun: str, names: Collection[str], known: Collection[str]) -> None:
    """Raise StoreError if results hold none of one of `names`; without any results that is not what is wrong."""
    for name in names:
        if known and name not in known:
            raise StoreError.unknown(noun, name, sorted(known))


def across(old: Side, new: Side, minimum_effect: float = verdict.MINIMUM_EFFECT) -> list[CellChange]:
    """Return the change of each cell that both sides have a time of, `new` judged against `old`.

    Raises
    ------
    StoreError
        If they have no cell in common.
    """
    changes = []
    for key, cell in new.cells.items():
        reference_key = (*key[:2], cell.reference)
        before, now, then = old.cells.get(key), new.cells.get(reference_key), old.cells.get(reference_key)
        if before is None or now is None or then is None or key == reference_key:
            continue
        if before.reference == cell.reference and all(one.is_ok for one in (cell, before, now, then)):
            changes.append(CellChange(cell, now, before=(before, then)))
    if not changes:
        raise StoreError(
            f"{old.name} and {new.name} have no cell in common",
            expected="an experiment, a place on its axes, a contender and its reference that both have a time of",
        )
    judge(changes, minimum_effect=minimum_effect)
    return changes


def within(run: Side, label: str, reference: str, minimum_effect: float = verdict.MINIMUM_EFFECT) -> list[CellChange]:
    """Return the contest of each case of `run` that has a time of both contenders, `label` against `reference`.

    Raises
    ------
    StoreError
        If there is no such case, or the two are one.
    """
    if label == reference and any(contender == label for _, _, contender in run.cells):
        raise StoreError("a contender cannot be compared with itself", expected="two contenders", got=f"{label} twice")
    contests = []
    for (experiment, axes, contender), cell in run.cells.items():
        other = run.cells.get((experiment, axes, reference))
        if contender != label or other is None or not (cell.is_ok and other.is_ok):
            continue
        if (cell.run, cell.case) == (other.run, other.case):  # interleaved
            contests.append(CellChange(cell, other))
    if not contests:
        raise _never_met(run, label, reference)
    judge(contests, minimum_effect=minimum_effect)
    return contests


def _never_met(run: Side, label: str, reference: str) -> StoreError:
    """Return the error that names an unknown contender of two, and the contenders that the other one has met."""
    cases_of: dict[str, set[tuple[Any, ...]]] = {}
    for experiment, axes, contender in run.cells:
        cases_of.setdefault(contender, set()).add((experiment, axes))
    for name, other in ((label, reference), (reference, label)):
        met = [x for x, cases in sorted(cases_of.items()) if x != other and cases & cases_of.get(other, cases)]
        if name not in cases_of:
            return StoreError.unknown("contender", name, cases_of, expected=met)
    return StoreError(f"{run.name}: no case has a time of both {label!r} and {reference!r}", expected=", ".join(met))


def fingerprint_changes(old: Side, new: Side) -> list[str]:
    """Return the differences between the machines of the two sides, a line for each field; empty without any."""
    if set(old.machines) == set(new.machines):
        return []
    before, after = (_flat(one.machines.values()) for one in (old, new))
    return [
        f"{name}: {before.get(name, 'none')} -> {after.get(name, 'none')}"
        for name in sorted(before | after)
        if before.get(name) != after.get(name)
    ]


def notes(old: Side, new: Side) -> list[str]:
    """Return the notes for the reader of a comparison of two sides, a line each."""
    changes = fingerprint_changes(old, new)
    counts = [(one.name, len(set(one.cells) - set(other.cells))) for one, other in ((old, new), (new, old))]
    return [
        "ratios are of ratios to the reference, which was measured in turns with the contender in either run",
        *(["it is another machine that measured: ratios to the reference need not carry over"] if changes else []),
        *(f"  {change}" for change in changes),
        *(f"only in {name}: {rates.plural(count, 'cell')}" for name, count in counts if count),
    ]


def table(changes: Sequence[CellChange]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return heads and rows for the terminal; columns without entries are left out."""
    columns = {
        "case": [change.place for change in changes],
        "contender": [change.subject.contender for change in changes],
        "against": [change.reference.contender for change in changes],
        "time ratio": [tables.number(change.comparison.ratio) for change in changes],
        "verdict": [change.verdict.value for change in changes],
        "processes": [str(change.comparison.processes) for change in changes],
        "is it the machine?": [change.hint for change in changes],
    }
    shown = {head: entries for head, entries in columns.items() if any(entries)}
    return list(shown), list(zip(*shown.values(), strict=True))


def _is_called(cell: Cell, name: str) -> bool:
    commit = str(cell.record.get("commit", ""))
    return len(name) >= 4 and (cell.run.startswith(name) or commit.startswith(name))


def _keep_latest(cells: dict[Key, Cell], cell: Cell) -> None:
    """Keep `cell` unless a later run measured it."""
    key = (cell.experiment, content_hash(cell.axes), cell.contender)
    if key not in cells or cells[key].run <= cell.run:
        cells[key] = cell


def _machines(path: Path) -> dict[str, Machine]:
    """Return the fingerprints in a file, by key."""
    lines = Journal(path).lines(containing=b'"kind":"machine"')
    return {line.record["key"]: Machine.from_json(line.record["machine"]) for line in lines}


def _flat(machines: Iterable[Machine]) -> dict[str, str]:
    """Return the fields of fingerprints as text, packages one by one."""
    values: dict[str, set[str]] = {}
    for machine in machines:
        fields = machine.to_json()
        packages = fields.pop("packages")
        for name, value in {**fields, **packages}.items():
            if name != "threads":
                values.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(texts)) for name, texts in values.items()}


def _is_likewise(moved: float, reference_moved: float) -> bool:
    """Return whether a contender's own time moved to the same side as the reference's, and not much less."""
    return (moved - 1) * (reference_moved - 1) > 0 and abs(moved - 1) > abs(reference_moved - 1) / 2
