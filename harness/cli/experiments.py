"""Commands that measure experiments and show what was measured: run, plot, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.options import (
    FAILED,
    FIGURES,
    INTERRUPTED,
    RESULTS,
    Figures,
    Names,
    Results,
    Stored,
    chosen_experiments,
    complain,
    recorded,
)
from harness.errors import ExperimentError
from harness.experiment import Experiment


def run(
    experiments: Names = None,
    *,
    preset: Annotated[Literal["smoke", "quick", "full"], typer.Option(help="How much to measure.")] = "quick",
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this contender or backend only; may be repeated.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure all anew; else an interrupted run is resumed.")
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Measure experiments; resume a run that was interrupted.

    What is finished is kept at once. Interrupted by Ctrl-C or in any other way, the same command goes on from there.
    """
    from harness.cli import console
    from harness.cli.progress import Progress
    from harness.run import runner

    chosen = chosen_experiments(experiments)
    _check_only(only, chosen, preset)
    try:
        with Progress() as progress:
            summary = runner.run(chosen, preset, results, progress, only=tuple(only or ()), fresh=fresh)
    except KeyboardInterrupt:
        complain("interrupted: what is finished is kept, and the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None
    console.print_counts(progress.counts)
    console.print_lines("", f"results  {summary.folder}")
    if summary.counts.get("failed"):
        raise typer.Exit(FAILED)


def plot(
    experiments: Names = None, *, preset: Stored = None, results: Results = RESULTS, figures: Figures = FIGURES
) -> None:
    """Draw the figures of every machine from stored results alone."""
    from harness.cli import console
    from harness.report.figures import drawing

    chosen = chosen_experiments(experiments)
    for slug, cells, machine in recorded(results, preset):
        measured = {cell.experiment for cell in cells}
        drawn = [p for e in chosen if e.name in measured for p in drawing.draw(e, cells, machine, figures / slug)]
        console.print_lines(f"figures  {figures / slug}  ({len(drawn)} files)")


def report(
    *,
    preset: Stored = None,
    results: Results = RESULTS,
    figures: Figures = FIGURES,
    readme: Annotated[
        Path | None,
        typer.Option(
            help="Rewrite the tables between markers in this file too: of this machine, or of the one they name."
        ),
    ] = None,
) -> None:
    """Write a page per machine from stored results alone, and print what the ladder found.

    It shows the figures that `plot` has drawn, and goes beside the results.
    """
    from harness.cli import console
    from harness.machine import detect
    from harness.report import page, tables

    chosen = chosen_experiments(None)
    for slug, cells, machine in recorded(results, preset):
        written = page.write(chosen, cells, machine, figures / slug, results / slug)
        if slug == detect().slug:
            console.print_table(*tables.headline(cells), numeric=tables.HEADLINE_NUMBERS)
            if readme:
                page.write_tables(readme, chosen, cells)
        if readme:
            page.write_tables(readme, chosen, cells, slug)
        console.print_lines(f"report   {written}")


def _check_only(only: list[str] | None, chosen: list[Experiment], preset: str) -> None:
    """Raise if `only` names something that is a contender of no case."""
    from harness.machine import detect

    if not only:
        return
    contenders = [c for e in chosen for case in e.cases(preset, detect()) for c in case.contenders]
    known = dict.fromkeys(name for c in contenders for name in (c.label, c.arguments.get("backend")) if name)
    for name in only:
        if name not in known:
            raise ExperimentError(f"no contender {name!r} in these experiments", expected=", ".join(known))
