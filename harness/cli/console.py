"""Output of the commands: tables, lines and JSON. No colours or cut lines without a terminal."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.errors import here

if TYPE_CHECKING:  # `list` is quicker without the contract
    from harness.proof.contract import Finding
    from harness.registry import Entry

# Columns of an output without a known width: a pipe, a file, a log of continuous integration.
PLAIN_WIDTH = 160
MOST_NAMED = 3  # of what is declined for one reason; `verbose` names all
LONGEST_WHOLE = 28  # characters of a cell that is never wrapped: a ratio with its interval, a name

COLOURS = {"ok": "green", "yes": "green", "failed": "bold red"}
COLOURS |= dict.fromkeys(("missing", "declined", "no"), "yellow")


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that leaves brackets and numbers in texts alone."""
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def print_lines(*lines: str) -> None:
    """Print lines on stdout as they are."""
    for line in lines:
        typer.echo(line)


def shown(path: Path) -> str:
    """Return a path as one types it here: relative to the working directory if it is below it."""
    here = Path.cwd()
    absolute = path.absolute()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else path)


def print_json(value: Any) -> None:
    """Print `value` as JSON on stdout."""
    print_lines(json.dumps(value, indent=2, default=str))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[str] = ()) -> None:
    """Print rows under their heads; statuses are coloured, columns named in `numeric` are right-aligned.

    Where the terminal is too narrow, long texts are wrapped: names, numbers and verdicts stay whole.
    """
    rows = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, head in enumerate(heads):
        is_short = max(len(cells[index]) for cells in (heads, *rows)) <= LONGEST_WHOLE
        table.add_column(
            head, justify="right" if head in numeric else "left", no_wrap=is_short, overflow="fold", min_width=4
        )
    for row in rows:
        table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    console = make_console()
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def describe(entry: Entry) -> dict[str, Any]:
    """Return the facts of a backend, as a JSON object."""
    return {
        "name": entry.name,
        **{name: getattr(entry.backend, name, None) for name in ("step", "idea", "source")},
        "origin": entry.origin,
        "available": entry.unavailable() is None,
        "missing": entry.unavailable(),
    }


def print_backends(entries: Iterable[Entry]) -> None:
    """Print the backends as a table, those that failed to load last."""
    rows = []
    for record in map(describe, entries):
        step, available = record["step"], here(record["missing"] or "yes")
        if step is None:
            available = f"failed: {available}"
        rows.append((record["name"], str(step or ""), available, record["idea"] or "", record["source"] or ""))
    print_table(("name", "step", "available", "idea", "source"), rows, numeric=("step",))


def print_findings(name: str, findings: Iterable[Finding], *, as_json: bool, verbose: bool) -> int:
    """Print the findings on the backend called `name` as they come; return the number of defects.

    A line for each kernel with the number of its aspects that are right, a line for each defect, and in the end what
    was declined, the first few of each reason. `verbose` prints a line for each aspect, and `as_json` an object.
    """
    counts: collections.Counter[str] = collections.Counter()
    declined: dict[str, list[str]] = {}
    for kernel, of_kernel in itertools.groupby(findings, key=lambda finding: finding.what.partition(": ")[0]):
        right = 0
        for finding in of_kernel:
            counts[finding.status] += 1
            right += finding.status == "ok"
            if finding.status == "declined":
                declined.setdefault(finding.detail, []).append(finding.what)
            if as_json:
                print_lines(json.dumps(dataclasses.asdict(finding)))
            elif verbose or finding.status == "failed":
                print_lines(f"{finding.status:<9} {finding.what}: {finding.detail}".replace("\n", "\n          "))
        if right and not (as_json or verbose):
            print_lines(f"{'ok':<9} {kernel}: {right} aspect{'s' * (right > 1)}")
    if not as_json:
        print_lines(f"{name}: {counts['ok']} ok, {counts['failed']} failed, {counts['declined']} declined")
        for reason, what in declined.items():
            more = f" and {len(what) - MOST_NAMED} more" if len(what) > MOST_NAMED else ""
            print_lines(f"  declined: {', '.join(what[:MOST_NAMED])}{more}: {reason}")
    return counts["failed"]


def print_counts(counts: Mapping[str, Mapping[str, int]]) -> None:
    """Print the numbers of cells of each experiment: measured, without a time by status, and recorded before."""
    statuses = ("ok", "failed", "declined", "missing", "recorded")
    rows = [(name, *(str(tally.get(status, 0) or "") for status in statuses)) for name, tally in counts.items()]
    numeric = ("measured", *statuses[1:-1], "recorded before")
    print_table(("experiment", *numeric), rows, numeric=numeric)
