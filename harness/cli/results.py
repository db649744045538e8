"""The command `results`: show, filter and export recorded cells."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.options import (
    AsJson,
    Machines,
    Preset,
    ToRead,
    Where,
    complain,
    file_path,
    folders_of,
    values_by_axis,
)
from harness.store import places

Status = Literal["ok", "failed", "declined", "missing"]
Kind = Literal["experiment", "run", "commit", "contender", "cell"]


def results(
    experiments: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Of these; by default of all.")
    ] = None,
    *,
    machine: Machines = None,
    preset: Annotated[Preset | None, typer.Option(help="Only of this preset.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="Only of this run; may be repeated.")] = None,
    contender: Annotated[
        list[str] | None, typer.Option(help="Only of this contender or backend; may be repeated.")
    ] = None,
    status: Annotated[Status | None, typer.Option(help="Only with this status.")] = None,
    where: Where = None,
    current: Annotated[bool, typer.Option("--current", help="Only what figures and report are made of.")] = False,
    by: Annotated[Kind, typer.Option(help="What a row of the table is.")] = "experiment",
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=file_path, help="Write the cells to FILE.csv or FILE.parquet instead."),
    ] = None,
    samples: Annotated[bool, typer.Option("--samples", help="With --export: a row for each sample.")] = False,
    as_json: AsJson = False,
    results: ToRead = None,
) -> None:
    """Show, filter and export what has been recorded; nothing is ever deleted."""
    from harness.analysis import query
    from harness.cli import console
    from harness.report import export as flat

    if samples and not export:
        raise typer.BadParameter("--samples is for --export FILE: a table on a terminal has no row for each sample")
    if as_json and export:
        raise typer.BadParameter("--json is what is printed, and --export FILE prints no cells: give one of them")
    results = results or places.to_read()
    chosen = query.Selection(
        machines=folders_of(results, machine or ()),
        presets=[preset] if preset else (),
        experiments=experiments or (),
        runs=run or (),
        statuses=[status] if status else (),
        contenders=contender or (),
        where=values_by_axis(where),
        is_current=current,
    )
    if export:
        count = flat.write(lambda: chosen.cells(results), export, samples=samples)
        console.print_lines(f"{export}  ({count} rows)")
        return
    cells = chosen.cells(results, complain)
    if by == "cell":
        if as_json:
            console.print_json(list(flat.rows(cells)))
        else:
            _print_by_machine(*query.cell_table(cells))
    elif as_json:
        console.print_json(query.groups(cells, by))
    else:
        _print_by_machine(*query.group_table(query.groups(cells, by), by))
        sizes = [path.stat().st_size for path in results.glob("*/*/*.jsonl")]
        console.print_lines(f"{results}  ({len(sizes)} files, {sum(sizes) / 1e6:.1f} MB)")


def _print_by_machine(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of each machine under its name, which is the first column: beside it the others would be folded."""
    from harness.analysis import query
    from harness.cli import console

    machines = [(slug, [row[1:] for row in of_it]) for slug, of_it in itertools.groupby(rows, operator.itemgetter(0))]
    for slug, of_machine in machines:
        console.print_lines(slug)
        console.print_table(heads[1:], of_machine, numeric=query.NUMBERS)
        console.print_lines("")
    if not machines:
        console.print_lines("no cell has all of that", "")
