"""Select recorded cells by machine, preset, experiment, run, contender, status and axes. Streams.

Cells are a stream: one is held at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.analysis import rates
from harness.errors import StoreError
from harness.store import store
from harness.store.schema import STATUSES
from harness.store.store import Cell, Store

# Properties of cells that a row may stand for.
KINDS: dict[str, Callable[[Cell], str]] = {
    "experiment": lambda cell: cell.experiment,
    "run": lambda cell: cell.run,
    "commit": lambda cell: str(cell.record.get("commit", "")),
    "contender": lambda cell: cell.contender,
}
COUNTS = ("runs", "cells", "current", *STATUSES)
NUMBERS = (*COUNTS, "median ms")
# Runs that a message about an unknown one lists: the last.
LISTED_RUNS = 5


@dataclass(frozen=True)
class Selection:
    """Conditions on cells; an empty collection accepts all."""

    machines: Collection[str] = ()  # names of folders, as presets are
    presets: Collection[str] = ()
    experiments: Collection[str] = ()  # names of files
    runs: Collection[str] = ()
    statuses: Collection[str] = ()
    contenders: Collection[str] = ()  # labels or backends
    where: Mapping[str, Collection[str]] = field(default_factory=dict)  # by axis, as text: {"n": ["512", "1024"]}
    is_current: bool = False  # only cells that figures and report are made of

    def cells(self, results: Path, notify: Callable[[str], object] | None = None) -> Iterator[tuple[str, Cell]]:
        """Yield the slug of a machine and one of its cells, for each selected cell of the results below `results`.

        `notify` gets a message for everything that could not be read.

        Raises
        ------
        StoreError
            If there are no results, or none of a machine or experiment that is asked for; at the end of the stream, if
            no cell has a run, a contender, an axis or a value that is asked for.
        """
        stores = [
            (slug, Store(results / slug / preset))
            for slug in store.machines(results)
            for preset in store.presets(results, slug)
            if slug in (self.machines or [slug]) and preset in (self.presets or [preset])
        ]
        _require(self.machines, store.machines(results), f"{results}: no such machine")
        recorded = {name for _, records in stores for name in records.experiments()}
        _require(self.experiments, recorded, f"{results}: not recorded")
        if not stores:
            raise StoreError(f"{results}: no results", fix="python -m harness run, or --results FOLDER")
        met = _Met(self)
        for slug, records in stores:
            for name in records.experiments():
                if name in (self.experiments or [name]):
                    yield from ((slug, cell) for cell in map(met.add, records.every_cell(name)) if self.accepts(cell))
            for notice in records.notices:
                if notify:
                    notify(notice)
        met.require()

    def accepts(self, cell: Cell) -> bool:
        """Return whether `cell` meets the conditions, wherever it was recorded."""
        names = {cell.contender, cell.arguments.get("backend")}
        return (
            (cell.is_current or not self.is_current)
            and cell.run in (self.runs or [cell.run])
            and cell.status in (self.statuses or [cell.status])
            and not (self.contenders and names.isdisjoint(self.contenders))
            and all(str(rates.axis(cell, axis)) in values for axis, values in self.where.items())
        )


class _Met:
    """The runs, contenders and values that cells of a stream have: what a selection names beside them is a mistake."""

    def __init__(self, selection: Selection) -> None:
        self._asked = selection
        self._runs: set[str] = set()
        self._contenders: set[str] = set()
        self._axes: set[str] = set()
        self._values: dict[str, set[str]] = {axis: set() for axis in selection.where}

    def add(self, cell: Cell) -> Cell:
        """Note what `cell` has, and return it."""
        self._runs.add(cell.run)
        self._contenders.update(filter(None, (cell.contender, cell.arguments.get("backend"))))
        self._axes.update(cell.axes)
        for axis, values in self._values.items():
            values.add(str(rates.axis(cell, axis)))
        return cell

    def require(self) -> None:
        """Raise StoreError if a run, a contender, an axis or a value is asked for that no cell has."""
        for name in self._asked.runs:
            if name not in self._runs:
                raise StoreError.unknown("run", name, sorted(self._runs), expected=sorted(self._runs)[-LISTED_RUNS:])
        for name in self._asked.contenders:
            if name not in self._contenders:
                raise StoreError.unknown("contender", name, sorted(self._contenders))
        for axis, asked in self._asked.where.items():
            values = self._values[axis]
            missing = [value for value in asked if value not in values]
            if missing and values <= {str(None)}:
                raise StoreError.unknown("axis", axis, sorted(self._axes))
            if missing:
                listed = ", ".join(sorted(values - {str(None)}, key=lambda value: (len(value), value)))
                raise StoreError(f"no cell has {axis}={missing[0]}", expected=f"{axis} of {listed}")


def _require(names: Collection[str], known: Collection[str], message: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise StoreError(message, expected=", ".join(sorted(known)), got=", ".join(unknown))


@dataclass
class Group:
    """Counts of the cells of one machine and preset that have something in common."""

    first: str  # when the first of them was recorded, and when the last
    last: str = ""
    counts: Counter[str] = field(default_factory=Counter)  # all "cells", the "current" ones, and by status
    runs: set[str] = field(default_factory=set)
    commits: dict[str, str] = field(default_factory=dict)  # when each was measured last

    def add(self, cell: Cell) -> None:
        """Count `cell`."""
        self.first, self.last = min(self.first, cell.time), max(self.last, cell.time)
        self.counts.update(["cells", cell.status, *(["current"] if cell.is_current else [])])
        self.runs.add(cell.run)
        commit = str(cell.record.get("commit", ""))
        self.commits[commit] = max(cell.time, self.commits.get(commit, ""))

    def to_json(self) -> dict[str, Any]:
        """Return the counts, times, runs and commits, these from the first to the last, as a JSON object."""
        counts = {name: self.counts[name] for name in COUNTS if name != "runs"}
        commits = sorted(filter(None, self.commits), key=lambda commit: self.commits[commit])
        return {**counts, "first": self.first, "last": self.last, "runs": sorted(self.runs), "commits": commits}


def groups(cells: Iterable[tuple[str, Cell]], kind: str) -> list[dict[str, Any]]:
    """Return a JSON object for each of `KINDS` that `cells`, with the slugs of their machines, belong to."""
    by_name: dict[tuple[str, str, str], Group] = {}
    for slug, cell in cells:
        by_name.setdefault((slug, cell.preset, KINDS[kind](cell)), Group(cell.time)).add(cell)
    heads = ("machine", "preset", kind)
    return [{**dict(zip(heads, names, strict=True)), **group.to_json()} for names, group in by_name.items()]


def group_table(groups: Iterable[Mapping[str, Any]], kind: str) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the heads and rows of a table of `groups` for the terminal: of their commits it shows the last."""
    names = ("machine", "preset", kind)
    rows: list[Sequence[str]] = []
    for group in groups:
        *before, commit = group["commits"] or [""]
        rows.append(
            (
                *(group[name] for name in names),
                *(str(len(group[name]) if name == "runs" else group[name] or "") for name in COUNTS),
                group["first"][:10],
                group["last"][:10],
                commit[:12] + (f" and {len(before)} before" if before else ""),
            )
        )
    return (*names, *COUNTS, "first", "last", "last commit"), rows


def cell_table(cells: Iterable[tuple[str, Cell]]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the heads and rows of a table of `cells`, with the slugs of their machines, for the terminal."""
    rows: list[Sequence[str]] = [
        (
            slug,
            cell.preset,
            cell.experiment,
            cell.run,
            cell.contender,
            ", ".join(f"{name}={value}" for name, value in cell.axes.items()),
            cell.status,
            f"{cell.median_ns / 1e6:.4g}" if cell.is_ok else "",
            cell.reason.partition("\n")[0],
        )
        for slug, cell in cells
    ]
    return ("machine", "preset", "experiment", "run", "contender", "where", "status", "median ms", "reason"), rows
