"""Commands that measure experiments and show the results: run, plot, report."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.errors import ExperimentError, StoreError
from harness.run import provenance
from harness.store import presets, store

if TYPE_CHECKING:
    from harness.experiment import Experiment
    from harness.machine import Machine
    from harness.store.store import Cell, Store

WHOLE_STAYS = "plot, report and compare go on showing the last cases that were measured with all contenders;"


def run(
    experiments: options.Names = None,
    *,
    preset: options.Effort = "quick",
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this contender or backend only; may be repeated.")
    ] = None,
    where: options.Where = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure all anew; else an interrupted run is resumed.")
    ] = False,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw the most prominent figures as soon as their experiment is finished.")
    ] = False,
    results: options.Results = options.RESULTS,
    figures: options.Figures = options.FIGURES,
    allow_dirty: options.AllowDirty = False,
) -> None:
    """Measure experiments; resume a run that was interrupted.

    What is finished is kept at once. Interrupted by Ctrl-C or in any other way, the same command without --fresh goes
    on from there.
    """
    from harness.cli import console
    from harness.cli.progress import Progress
    from harness.machine import detect
    from harness.run import runner
    from harness.run.ending import Terminated, status_of
    from harness.store.folders import slug_of

    chosen, places = options.chosen_experiments(experiments), options.values_by_axis(where)
    _check_only(only, chosen, preset)
    _check_where(places, chosen, preset)
    provenance.require_clean(results / slug_of(results, detect()) / preset, allow_dirty=allow_dirty)
    draw_now = _Drawing(preset, results, figures).draw if draw else None
    try:
        with Progress(on_experiment=draw_now) as progress:
            summary = runner.run(chosen, preset, results, progress, only=tuple(only or ()), where=places, fresh=fresh)
    except (KeyboardInterrupt, Terminated) as ended:
        again = "the same command without --fresh" if fresh else "the same command"
        options.complain(f"interrupted: what is finished is kept, and {again} goes on from there")
        options.complain(f"figures and report of what is finished: {_commands(preset, results, figures)}")
        raise typer.Exit(status_of(ended)) from None
    console.print_counts(progress.counts)
    console.print_lines("", f"results  {summary.folder}")
    if only:
        _print_part(chosen, store.Store(summary.folder), summary.run)
    if summary.counts.get("failed"):
        raise typer.Exit(options.FAILED)


def plot(
    experiments: options.Names = None,
    *,
    preset: options.Stored = None,
    machine: options.Machines = None,
    results: options.Results = options.RESULTS,
    figures: options.Figures = options.FIGURES,
    decided: Annotated[
        bool, typer.Option("--decided", help="Leave out figures of which a fifth of the ratios have no verdict.")
    ] = False,
    allow_dirty: options.AllowDirty = False,
) -> None:
    """Draw the figures of every machine, or of some, from stored results alone.

    Those of preset smoke go to a folder of that name: they replace no others.
    """
    from harness.cli import console

    chosen, known = options.chosen_experiments(experiments), set[str]()
    for slug, cells, owner in options.recorded(results, preset, machine or ()):
        folder = presets.folder_of(figures, slug, cells)
        provenance.require_clean(folder, allow_dirty=allow_dirty)
        known.update(cell.experiment for cell in cells)
        drawn = _drawn(chosen, cells, owner, folder, decided=decided)
        console.print_lines(f"figures  {folder}  ({len(drawn)} files)")
    absent = [name for name in experiments or () if name not in known]
    if absent:
        names = " ".join(absent)
        raise StoreError(f"{results}: no results of {', '.join(absent)}", fix=f"python -m harness run {names}")


def report(
    *,
    preset: options.Stored = None,
    machine: options.Machines = None,
    results: options.Results = options.RESULTS,
    figures: options.Figures = options.FIGURES,
    readme: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Rewrite what stands between markers in this file too, of this machine or of the one they name; "
            "may be repeated.",
        ),
    ] = None,
    allow_dirty: options.AllowDirty = False,
) -> None:
    """Write the report of each machine, or of some, from stored results alone, and print what the ladder found.

    It shows the figures that `plot` has drawn, and goes beside the results: that of preset smoke among those of smoke.
    """
    from harness.cli import console
    from harness.machine import detect
    from harness.report import machine_report, markers, tables
    from harness.store.folders import slug_of

    chosen, mark = options.chosen_experiments(None), provenance.mark()
    this = slug_of(results, detect())
    for slug, cells, owner in options.recorded(results, preset, machine or ()):
        shown, folder = (presets.folder_of(root, slug, cells) for root in (figures, results))
        provenance.require_clean(folder, *(readme or []), allow_dirty=allow_dirty)
        written = machine_report.write(chosen, cells, owner, shown, folder, mark=mark)
        if slug == this:
            ladder = next(experiment for experiment in chosen if experiment.name == tables.HEADLINE)
            console.print_table(*tables.headline(ladder, cells), numeric=tables.HEADLINE_NUMBERS)
        for other in readme or ():
            for of in ([""] if slug == this else []) + [slug]:
                markers.write_tables(other, chosen, cells, of, mark=mark)
        console.print_lines(f"report   {written}")


def _print_part(chosen: list[Experiment], store: Store, run: str) -> None:
    """Print what a run of some contenders has measured: where their whole case is known, no report shows it."""
    from harness.analysis import rates
    from harness.cli import console
    from harness.report import tables

    peaks = [cell for name in store.experiments() for cell in store.cells(name) if rates.is_peak(cell)]
    for experiment in chosen:
        if own := [cell for cell in store.every_cell(experiment.name) if cell.run == run]:
            console.print_lines("")
            console.print_table(*tables.timed(experiment, [*own, *peaks]), numeric=tables.TIMED_NUMBERS)
        if any(cell.is_of_part and not cell.is_current for cell in own):
            listing = f"{Path(sys.executable)} -m harness results {experiment.name} --by cell --run {run}"
            console.print_lines("", WHOLE_STAYS, f"these are in the store: {listing}")


def _drawn(
    chosen: list[Experiment], cells: list[Cell], owner: Machine, folder: Path, *, decided: bool = False
) -> list[Path]:
    """Draw the figures of those of `chosen` that `owner` could do anything of, and return their files."""
    from harness.analysis import rates
    from harness.report.figures import drawing

    mark = provenance.mark()
    tried = {cell.experiment for cell in rates.current(cells) if cell.status in ("ok", "failed")}
    return [
        path
        for e in chosen
        if e.name in tried
        for path in drawing.draw(e, cells, owner, folder, mark=mark, decided=decided)
    ]


class _Drawing:
    """Draws figures of this machine while other experiments are still to be measured."""

    def __init__(self, preset: str, results: Path, figures: Path) -> None:
        self._preset, self._results, self._figures = preset, results, figures

    def draw(self, name: str) -> str:
        """Draw the figures of the experiment called `name` if reports show one; return where they are, or a reason."""
        chosen = options.chosen_experiments([name])
        if not any(figure.prominence for experiment in chosen for figure in experiment.figures):
            return ""
        try:
            ((slug, cells, owner),) = options.recorded(self._results, self._preset, [options.THIS])
            drawn = _drawn(chosen, cells, owner, presets.folder_of(self._figures, slug, cells))
        except Exception as error:  # noqa: BLE001 a figure can be drawn later too, and what is not measured cannot
            return f"the figures of {name} could not be drawn: {error}"
        return "\n".join(f"figure   {path}" for path in drawn if path.suffix == ".svg")


def _commands(preset: str, results: Path, figures: Path) -> str:
    """Return the commands that draw and report what is stored of this machine."""
    chosen = {"--results": (results, options.RESULTS), "--figures": (figures, options.FIGURES)}
    given = [f"{name} {path}" for name, (path, default) in chosen.items() if path != default]
    rest = " ".join(["--preset", preset, "--machine", options.THIS, *given])
    return " && ".join(f"{Path(sys.executable)} -m harness {command} {rest}" for command in ("plot", "report"))


def _check_only(only: list[str] | None, chosen: list[Experiment], preset: str) -> None:
    """Raise if `only` names something that is a contender of no case."""
    from harness.machine import detect

    if not only:
        return
    contenders = [c for e in chosen for case in e.cases(preset, detect()) for c in case.contenders]
    known = dict.fromkeys(name for c in contenders for name in (c.label, c.arguments.get("backend")) if name)
    for name in only:
        if name not in known:
            raise ExperimentError.unknown("contender", name, known)


def _check_where(places: Mapping[str, Collection[str]], chosen: list[Experiment], preset: str) -> None:
    """Raise if no case stands at one of the values that an axis is to have."""
    from harness.machine import detect

    if not places:
        return
    cases = [case for e in chosen for case in e.cases(preset, detect())]
    for axis, values in places.items():
        known = dict.fromkeys(str(case.axes[axis]) for case in cases if axis in case.axes)
        missing = [value for value in values if value not in known]
        if missing:
            axes = dict.fromkeys(name for case in cases for name in case.axes)
            raise ExperimentError(
                f"no case has {axis}={missing[0]} in these experiments",
                expected=f"{axis} of {', '.join(known)}" if known else f"an axis of {', '.join(axes)}",
            )
