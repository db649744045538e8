"""Two stored runs, or two contenders of one, compared cell by cell, with changes of the machine taken out. Pure.

Samples of different runs are no pairs. But either run measured the same reference, in turns with each contender: the
ratio to it is compared, so that what the machine did in between cancels. The reference itself can only be compared by
its own time, which says whether the machine (or the reference's code) changed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.analysis import rates
from harness.errors import StoreError
from harness.experiment import content_hash
from harness.machine import Machine
from harness.report import tables
from harness.stats import significance, statistics, verdict
from harness.stats.verdict import Comparison, Verdict
from harness.store import store
from harness.store.journal import Journal
from harness.store.store import Cell, Store

# A time that moved by less than this, or by chance more often than in one of a thousand cases, says nothing of the
# machine: it drifts that much all the time.
MACHINE_EFFECT, MACHINE_CHANCE = 0.05, 0.001

Place = tuple[str, str, str]


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Parameters
    ----------
    name : str
        What the user called it.
    cells : mapping
        By experiment, place on its axes, and contender: the latest that this name stands for.
    machines : mapping of str to Machine
        The fingerprints of those cells, by key.
    """

    name: str
    cells: Mapping[Place, Cell]
    machines: Mapping[str, Machine]


@dataclass
class Row:
    """One cell of the table.

    Parameters
    ----------
    place, contender, reference : str
    comparison : Comparison
        New against old, both in units of `reference`; or one contender against the other.
    moved : float
        Own time, new over old; NaN within one run.
    machine_moved : float or None
        Time of the reference, new over old, if it moved for certain; else None.
    verdict : Verdict
    """

    place: str
    contender: str
    reference: str
    comparison: Comparison
    moved: float
    machine_moved: float | None
    verdict: Verdict = Verdict.UNSURE

    @property
    def hint(self) -> str:
        """Whether it is the machine that changed, in words."""
        if self.machine_moved is None:
            return ""
        kind = "slower" if self.machine_moved > 1 else "faster"
        if self.verdict in (Verdict.SLOWER, Verdict.FASTER) and not _is_likewise(self.moved, self.machine_moved):
            return f"{self.reference} moved alone: x{self.machine_moved:.2f} ({kind})"
        return f"machine: {self.reference} x{self.machine_moved:.2f} ({kind})"

    def to_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        fields = dataclasses.asdict(self)
        return {
            **{name: fields[name] for name in ("place", "contender", "reference", "moved", "machine_moved")},
            "ratio": list(self.comparison.ratio),
            "p_value": self.comparison.p_value,
            "pairs": self.comparison.pairs,
            "processes": self.comparison.processes,
            "verdict": self.verdict.value,
            "hint": self.hint,
        }


def side(name: str, results: Path, presets: Collection[str] = (), experiments: Collection[str] = ()) -> Side:
    """Return what `name` stands for: a folder of results, or a machine, preset, run or commit below `results`.

    Runs and commits may be shortened. A preset, a machine or a folder stands for what is current in it.

    Raises
    ------
    StoreError
        If nothing recorded is called so.
    """
    is_folder = (Path(name) / "").is_dir() and bool(store.machines(name))
    root = Path(name) if is_folder else results
    cells: dict[Place, Cell] = {}
    machines: dict[str, Machine] = {}
    runs: set[str] = set()
    for slug in store.machines(root):
        for preset in store.presets(root, slug):
            if presets and preset not in presets:
                continue
            names_all = is_folder or name in (slug, preset, f"{slug}/{preset}")
            own = Store(root / slug / preset)
            for experiment in own.experiments():
                if experiments and experiment not in experiments:
                    continue
                for cell in own.every_cell(experiment):
                    runs.add(cell.run)
                    if cell.is_current if names_all else _is_called(cell, name):
                        _keep_latest(cells, cell)
                machines |= _machines(own.folder / f"{experiment}.jsonl")
    if not cells:
        raise StoreError(
            f"nothing recorded is called {name!r}",
            expected="a folder of results, or a machine, preset, run or commit in one",
            got=f"{results}: {', '.join(store.machines(results)) or 'no results'}; runs {', '.join(sorted(runs)[-5:])}",
            fix="python -m harness results --by run",
        )
    used = {cell.machine for cell in cells.values()}
    return Side(name, cells, {key: machine for key, machine in machines.items() if key in used})


def across(old: Side, new: Side, minimum_effect: float = verdict.MINIMUM_EFFECT) -> list[Row]:
    """Return a row for each cell that both sides have a time of, `new` judged against `old`.

    Raises
    ------
    StoreError
        If they have no cell in common.
    """
    rows = []
    for place, cell in new.cells.items():
        before = old.cells.get(place)
        if before is None or not (before.is_ok and cell.is_ok) or cell.contender == cell.reference:
            continue
        references = [own.cells.get((*place[:2], cell.reference)) for own in (new, old)]
        if before.reference != cell.reference or not all(r is not None and r.is_ok for r in references):
            continue
        now, then = (reference.samples_ns for reference in references if reference is not None)
        comparison = verdict.compare_runs((cell.samples_ns, now), (before.samples_ns, then))
        rows.append(
            Row(
                _place(cell),
                cell.contender,
                cell.reference,
                comparison,
                _moved(cell.samples_ns, before.samples_ns),
                _machine_moved(now, then),
            )
        )
    if not rows:
        raise StoreError(
            f"{old.name} and {new.name} have no cell in common",
            expected="an experiment, a place on its axes, a contender and its reference that both have a time of",
        )
    return _judged(rows, minimum_effect)


def within(run: Side, own: str, reference: str, minimum_effect: float = verdict.MINIMUM_EFFECT) -> list[Row]:
    """Return a row for each case of `run` that has a time of both contenders, `own` judged against `reference`.

    Raises
    ------
    StoreError
        If there is no such case.
    """
    rows = []
    for (experiment, where, contender), cell in run.cells.items():
        other = run.cells.get((experiment, where, reference))
        if contender != own or other is None or not (cell.is_ok and other.is_ok):
            continue
        if (cell.run, cell.case) == (other.run, other.case):  # measured in turns
            comparison = verdict.compare(cell.samples_ns, other.samples_ns)
            rows.append(Row(_place(cell), own, reference, comparison, math.nan, None))
    if not rows:
        known = sorted({contender for _, _, contender in run.cells})
        raise StoreError(f"{run.name}: no case has a time of both {own!r} and {reference!r}", expected=", ".join(known))
    return _judged(rows, minimum_effect)


def fingerprint_changes(old: Side, new: Side) -> list[str]:
    """Return what differs between the machines of the two sides, a line for each field; empty if nothing does."""
    if set(old.machines) == set(new.machines):
        return []
    before, after = (_flat(own.machines.values()) for own in (old, new))
    return [
        f"{name}: {before.get(name, 'none')} -> {after.get(name, 'none')}"
        for name in sorted(before | after)
        if before.get(name) != after.get(name)
    ]


def notes(old: Side, new: Side) -> list[str]:
    """Return what the reader of a comparison of two sides has to know, a line each."""
    changes = fingerprint_changes(old, new)
    counts = [(one.name, len(set(one.cells) - set(other.cells))) for one, other in ((old, new), (new, old))]
    return [
        "ratios are of ratios to the reference, which was measured in turns with the contender in either run",
        *(["it is another machine that measured: ratios to the reference need not carry over"] if changes else []),
        *(f"  {change}" for change in changes),
        *(f"only in {name}: {rates.plural(count, 'cell')}" for name, count in counts if count),
    ]


def table(rows: Sequence[Row]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return heads and rows for the terminal; without a word about the machine where there is nothing to say."""
    columns = {
        "case": [row.place for row in rows],
        "contender": [row.contender for row in rows],
        "against": [row.reference for row in rows],
        "time ratio": [tables.number(row.comparison.ratio) for row in rows],
        "verdict": [row.verdict.value for row in rows],
        "processes": [str(row.comparison.processes) for row in rows],
        "is it the machine?": [row.hint for row in rows],
    }
    shown = {head: entries for head, entries in columns.items() if any(entries)}
    return list(shown), list(zip(*shown.values(), strict=True))


def _judged(rows: list[Row], minimum_effect: float) -> list[Row]:
    """Give the rows their settled comparisons and their verdicts."""
    comparisons = [row.comparison for row in rows]
    verdicts = verdict.judge(comparisons, minimum_effect=minimum_effect)
    for row, settled, said in zip(rows, verdict.settle(comparisons), verdicts, strict=True):
        row.comparison, row.verdict = settled, said
    return rows


def _is_called(cell: Cell, name: str) -> bool:
    commit = str(cell.record.get("commit", ""))
    return len(name) >= 4 and (cell.run.startswith(name) or commit.startswith(name))


def _keep_latest(cells: dict[Place, Cell], cell: Cell) -> None:
    """Keep `cell` unless a later run measured its place."""
    place = (cell.experiment, content_hash(cell.axes), cell.contender)
    if place not in cells or cells[place].run <= cell.run:
        cells[place] = cell


def _place(cell: Cell) -> str:
    return f"{cell.experiment}: {tables.place([cell])}"


def _machines(path: Path) -> dict[str, Machine]:
    """Return the fingerprints in a file, by key."""
    lines = Journal(path).lines(containing=b'"kind":"machine"')
    return {line.record["key"]: Machine.from_json(line.record["machine"]) for line in lines}


def _flat(machines: Iterable[Machine]) -> dict[str, str]:
    """Return the fields of fingerprints as text, packages one by one."""
    found: dict[str, set[str]] = {}
    for machine in machines:
        fields = machine.to_json()
        packages = fields.pop("packages")
        for name, value in {**fields, **packages}.items():
            if name != "threads":
                found.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in found.items()}


def _moved(now: verdict.Samples, then: verdict.Samples) -> float:
    return statistics.median(_pooled(now)) / statistics.median(_pooled(then))


def _machine_moved(now: verdict.Samples, then: verdict.Samples) -> float | None:
    """Return the time of a reference, new over old, if it moved beyond what a machine drifts by."""
    moved = _moved(now, then)
    chance = significance.mann_whitney(_pooled(now), _pooled(then))
    is_large = not 1 / (1 + MACHINE_EFFECT) <= moved <= 1 + MACHINE_EFFECT
    return moved if is_large and chance < MACHINE_CHANCE else None


def _is_likewise(moved: float, reference_moved: float) -> bool:
    """Whether a contender's own time moved to the same side as the reference's, and not much less."""
    return (moved - 1) * (reference_moved - 1) > 0 and abs(moved - 1) > abs(reference_moved - 1) / 2


def _pooled(samples: verdict.Samples) -> list[float]:
    return [sample for process in samples for sample in process]
