"""Commands that measure experiments and show the results: run, plot, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.errors import ExperimentError
from harness.experiment import Experiment
from harness.run import provenance


def run(
    experiments: options.Names = None,
    *,
    preset: options.Effort = "quick",
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this contender or backend only; may be repeated.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure all anew; else an interrupted run is resumed.")
    ] = False,
    results: options.Results = options.RESULTS,
    allow_dirty: options.AllowDirty = False,
) -> None:
    """Measure experiments; resume a run that was interrupted.

    What is finished is kept at once. Interrupted by Ctrl-C or in any other way, the same command goes on from there.
    """
    from harness.cli import console
    from harness.cli.progress import Progress
    from harness.run import runner

    chosen = options.chosen_experiments(experiments)
    _check_only(only, chosen, preset)
    provenance.require_clean(results, allow_dirty=_allows(allow_dirty, preset))
    try:
        with Progress() as progress:
            summary = runner.run(chosen, preset, results, progress, only=tuple(only or ()), fresh=fresh)
    except KeyboardInterrupt:
        options.complain("interrupted: what is finished is kept, and the same command goes on from there")
        raise typer.Exit(options.INTERRUPTED) from None
    console.print_counts(progress.counts)
    console.print_lines("", f"results  {summary.folder}")
    if summary.counts.get("failed"):
        raise typer.Exit(options.FAILED)


def plot(
    experiments: options.Names = None,
    *,
    preset: options.Stored = None,
    machine: options.Machines = None,
    results: options.Results = options.RESULTS,
    figures: options.Figures = options.FIGURES,
    allow_dirty: options.AllowDirty = False,
) -> None:
    """Draw the figures of every machine, or of some, from stored results alone."""
    from harness.cli import console
    from harness.report.figures import drawing

    chosen, mark = options.chosen_experiments(experiments), provenance.mark()
    for slug, cells, owner in options.recorded(results, preset, machine or ()):
        provenance.require_clean(figures / slug, allow_dirty=_allows(allow_dirty, preset))
        measured = [experiment for experiment in chosen if any(cell.experiment == experiment.name for cell in cells)]
        drawn = [path for e in measured for path in drawing.draw(e, cells, owner, figures / slug, mark=mark)]
        console.print_lines(f"figures  {figures / slug}  ({len(drawn)} files)")


def report(
    *,
    preset: options.Stored = None,
    machine: options.Machines = None,
    results: options.Results = options.RESULTS,
    figures: options.Figures = options.FIGURES,
    readme: Annotated[
        Path | None,
        typer.Option(
            help="Rewrite the tables between markers in this file too: of this machine, or of the one they name."
        ),
    ] = None,
    allow_dirty: options.AllowDirty = False,
) -> None:
    """Write a page per machine, or for some, from stored results alone, and print what the ladder found.

    It shows the figures that `plot` has drawn, and goes beside the results.
    """
    from harness.cli import console
    from harness.machine import detect
    from harness.report import page, tables
    from harness.store.folders import slug_of

    chosen, mark = options.chosen_experiments(None), provenance.mark()
    this = slug_of(results, detect())
    for slug, cells, owner in options.recorded(results, preset, machine or ()):
        provenance.require_clean(results / slug, allow_dirty=_allows(allow_dirty, preset))
        provenance.require_clean(*([readme] if readme else []), allow_dirty=allow_dirty)
        written = page.write(chosen, cells, owner, figures / slug, results / slug, mark=mark)
        if slug == this:
            console.print_table(*tables.headline(cells), numeric=tables.HEADLINE_NUMBERS)
            if readme:
                page.write_tables(readme, chosen, cells, mark=mark)
        if readme:
            page.write_tables(readme, chosen, cells, slug, mark=mark)
        console.print_lines(f"report   {written}")


def _allows(allow_dirty: bool, preset: str | None) -> bool:
    """Return whether changed sources do not matter: preset smoke shows that everything works, and is no evidence."""
    return allow_dirty or preset == "smoke"


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
