"""What has been recorded, counted by experiment, run, commit or contender, for each machine and preset. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.store.schema import STATUSES
from harness.store.store import Cell

# What a row may stand for.
KINDS: dict[str, Callable[[Cell], str]] = {
    "experiment": lambda cell: cell.experiment,
    "run": lambda cell: cell.run,
    "commit": lambda cell: str(cell.record.get("commit", "")),
    "contender": lambda cell: cell.contender,
}
COUNTS = ("runs", "cells", "current", *STATUSES)
NUMBERS = (*COUNTS, "median ms")


@dataclass
class Group:
    """Cells of one machine and preset that have something in common.

    Parameters
    ----------
    first, last : str
        When the first and the last of them were recorded.
    counts : Counter
        Of all "cells", of those that are "current", and by status.
    runs : set of str
    commits : dict of str to str
        When each was measured last.
    """

    first: str
    last: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    runs: set[str] = field(default_factory=set)
    commits: dict[str, str] = field(default_factory=dict)

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
    found: dict[tuple[str, str, str], Group] = {}
    for slug, cell in cells:
        found.setdefault((slug, cell.preset, KINDS[kind](cell)), Group(cell.time)).add(cell)
    heads = ("machine", "preset", kind)
    return [{**dict(zip(heads, names, strict=True)), **group.to_json()} for names, group in found.items()]


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
                commit + (f" and {len(before)} before" if before else ""),
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
