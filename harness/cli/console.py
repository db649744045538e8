"""Output of the commands: tables on stdout, complaints on stderr. No colours or cut lines without a terminal."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.proof.contract import Finding
from harness.registry import Entry

# Where nothing tells how wide the output may be: a pipe, a file, a log of continuous integration.
PLAIN_WIDTH = 160

COLOURS = {
    "ok": "green",
    "yes": "green",
    "failed": "bold red",
    "missing": "yellow",
    "declined": "yellow",
    "no": "yellow",
}


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


def complain(text: object) -> None:
    """Print what the user has to know on stderr, in full."""
    make_console(stderr=True).print(Text(str(text)), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print `value` as JSON on stdout."""
    print_lines(json.dumps(value, indent=2, default=str))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[str] = ()) -> None:
    """Print rows under their heads; a word that is a status is coloured, columns named in `numeric` stand right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, head in enumerate(heads):
        table.add_column(
            head, justify="right" if head in numeric else "left", no_wrap=index == 0, overflow="fold", min_width=4
        )
    for row in rows:
        table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    console = make_console()
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def describe(entry: Entry) -> dict[str, Any]:
    """Return what is known of a backend, as a JSON object."""
    backend = entry.backend
    return {
        "name": entry.name,
        "step": backend.step if backend else None,
        "idea": backend.idea if backend else None,
        "source": backend.source if backend else None,
        "origin": entry.origin,
        "available": entry.unavailable() is None,
        "missing": entry.unavailable(),
    }


def print_backends(entries: Iterable[Entry]) -> None:
    """Print the backends as a table, those that failed to load last."""
    rows = []
    for record in map(describe, entries):
        said = record["missing"] or "yes"
        if record["step"] is None:
            said = f"failed: {said}"
        rows.append((record["name"], str(record["step"] or ""), said, record["idea"] or "", record["source"] or ""))
    print_table(("name", "step", "available", "idea", "source"), rows, numeric=("step",))


def print_findings(name: str, findings: Iterable[Finding], *, as_json: bool, verbose: bool) -> int:
    """Print what a check of the backend called `name` finds, as it comes; return how many findings are defects."""
    counts: collections.Counter[str] = collections.Counter()
    reasons: dict[str, None] = {}
    for finding in findings:
        counts[finding.status] += 1
        if finding.status == "declined":
            reasons.setdefault(finding.detail)
        if as_json:
            print_lines(json.dumps(dataclasses.asdict(finding)))
        elif verbose or finding.status == "failed":
            print_lines(f"{finding.status:<9} {finding.what}: {finding.detail}".replace("\n", "\n          "))
    if not as_json:
        print_lines(f"{name}: {counts['ok']} ok, {counts['failed']} failed, {counts['declined']} declined")
        print_lines(*(f"  declined: {reason}" for reason in reasons))
    return counts["failed"]


def print_counts(counts: Mapping[str, Mapping[str, int]]) -> None:
    """Print how many cells of each experiment were measured, and what became of the others."""
    heads = ("ok", "failed", "declined", "missing", "recorded")
    rows = [(name, *(str(own.get(head, 0) or "") for head in heads)) for name, own in counts.items()]
    print_table(
        ("experiment", "measured", *heads[1:-1], "recorded before"),
        rows,
        numeric=("measured", *heads[1:-1], "recorded before"),
    )
