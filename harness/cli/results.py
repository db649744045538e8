"""The command `results`: show, filter and export recorded cells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.options import RESULTS, AsJson, Preset, Results, Where, complain, values_by_axis

Status = Literal["ok", "failed", "declined", "missing"]
Kind = Literal["experiment", "run", "commit", "contender", "cell"]


def results(
    experiments: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Of these; by default of all.")
    ] = None,
    *,
    machine: Annotated[list[str] | None, typer.Option(help="Of this machine (its folder); may be repeated.")] = None,
    preset: Annotated[Preset | None, typer.Option(help="Of this preset.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="Of this run; may be repeated.")] = None,
    contender: Annotated[list[str] | None, typer.Option(help="Of this contender or backend; may be repeated.")] = None,
    status: Annotated[Status | None, typer.Option(help="With this status.")] = None,
    where: Where = None,
    current: Annotated[bool, typer.Option("--current", help="Only what figures and report are made of.")] = False,
    by: Annotated[Kind, typer.Option(help="What a row of the table is.")] = "experiment",
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the cells to FILE.csv or FILE.parquet instead.")
    ] = None,
    samples: Annotated[bool, typer.Option("--samples", help="With --export: a row for each sample.")] = False,
    as_json: AsJson = False,
    results: Results = RESULTS,
) -> None:
    """Show, filter and export what has been recorded; nothing is ever deleted."""
    from harness.analysis import query
    from harness.cli import console
    from harness.report import export as flat

    chosen = query.Selection(
        machines=machine or (),
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
            console.print_table(*query.cell_table(cells), numeric=query.NUMBERS)
    elif as_json:
        console.print_json(query.groups(cells, by))
    else:
        console.print_table(*query.group_table(query.groups(cells, by), by), numeric=query.NUMBERS)
        sizes = [path.stat().st_size for path in results.glob("*/*/*.jsonl")]
        console.print_lines("", f"{results}  ({len(sizes)} files, {sum(sizes) / 1e6:.1f} MB)")
