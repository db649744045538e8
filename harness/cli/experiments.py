"""Commands that measure experiments and show the results: run, plot, report."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
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

# What an experiment has found that has times and no finding.
NO_ANSWER = "measured, without an answer"
# After a report: the last line.
NEXT = f"next     open the report; {Path(sys.executable)} -m harness page shows it beside the published machines"
WHOLE_STAYS = "plot, report and compare go on showing the last cases that were measured with all contenders;"


def run(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EXPERIMENT]...", help="By default those that the preset asks of this machine."),
    ] = None,
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
        bool | None,
        typer.Option(
            "--draw/--no-draw",
            help="Draw the figures in the end, and the most prominent as soon as their experiment is finished. "
            "[default: unless --results is given without --figures]",
        ),
    ] = None,
    results: options.Results = options.RESULTS,
    figures: options.Figures = options.FIGURES,
    allow_dirty: options.AllowDirty = False,
) -> None:
    """Measure experiments, and say what came out; resume a run that was interrupted.

    What is finished is kept at once. Interrupted by Ctrl-C or in any other way, the same command without --fresh goes
    on from there.
    """
    from harness.cli import console
    from harness.cli.progress import Progress
    from harness.machine import detect
    from harness.run import machine_info, runner
    from harness.run.ending import Terminated, status_of
    from harness.store.folders import slug_of

    chosen, places, here = options.chosen_experiments(experiments), options.values_by_axis(where), detect()
    unasked = [] if experiments else [e.name for e in chosen if not e.is_asked(preset, here)]
    chosen = [experiment for experiment in chosen if experiment.name not in unasked]
    _check_only(only, chosen, preset)
    _check_where(places, chosen, preset)
    provenance.require_clean(results / slug_of(results, here) / preset, allow_dirty=allow_dirty)
    if draw is None:  # results that are kept elsewhere would be drawn among others
        draw = results == options.RESULTS or figures != options.FIGURES
    drawing = _Drawing(preset, results, figures) if draw else None
    try:
        with Progress(draw=drawing.draw if drawing else None) as progress:
            summary = runner.run(chosen, preset, results, progress, only=tuple(only or ()), where=places, fresh=fresh)
    except (KeyboardInterrupt, Terminated) as ended:
        again = "the same command without --fresh" if fresh else "the same command"
        options.complain(f"interrupted: what is finished is kept, and {again} goes on from there")
        options.complain(f"figures and report of what is finished: {_commands(preset, results, figures)}")
        raise typer.Exit(status_of(ended)) from None
    console.print_counts(progress.counts)
    if only:
        _print_part(chosen, store.Store(summary.folder), summary.run)
    console.print_lines("")
    if store.Store(summary.folder).experiments():  # a machine may have no case of any
        _print_outcome(chosen, preset, results, drawing)
    if unasked:
        console.print_lines(f"not asked of this machine by {preset}, but by name: {', '.join(unasked)}")
    next_step = _commands(preset, results, figures, ["report"] if draw else ["plot", "report"])
    if unseen := machine_info.unseen():
        console.print_lines(f"not seen here, so that no verdict knows of it: {', '.join(unseen)}")
    console.print_lines(f"results  {console.shown(summary.folder)}", f"next     {next_step}")
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
        console.print_lines(*_outcomes(chosen, cells, drawn), _figures(folder, drawn))
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
        for ladder in (experiment for experiment in chosen if slug == this and experiment.name == tables.HEADLINE):
            console.print_table(*tables.headline(ladder, cells), numeric=tables.HEADLINE_NUMBERS)
        for other in readme or ():
            for of in ([""] if slug == this else []) + [slug]:
                markers.write_tables(other, chosen, cells, of, mark=mark)
        console.print_lines(f"report   {console.shown(written)}")
        if slug == this:
            console.print_lines(f"figures  {console.shown(shown)}", NEXT)


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


def _tried(chosen: list[Experiment], cells: list[Cell]) -> list[Experiment]:
    """Return those of `chosen` that the machine of `cells` could do anything of."""
    from harness.analysis import rates

    tried = {cell.experiment for cell in rates.current(cells) if cell.status in ("ok", "failed")}
    return [experiment for experiment in chosen if experiment.name in tried]


def _drawn(
    chosen: list[Experiment],
    cells: list[Cell],
    owner: Machine,
    folder: Path,
    *,
    decided: bool = False,
    known: dict[Path, str] | None = None,
) -> list[Path]:
    """Draw the figures of those of `chosen` that `owner` could do anything of, and return their files."""
    from harness.report.figures import drawing

    mark = provenance.mark()
    return [
        path
        for experiment in _tried(chosen, cells)
        for path in drawing.draw(experiment, cells, owner, folder, mark=mark, decided=decided, known=known)
    ]


def _outcomes(chosen: list[Experiment], cells: list[Cell], drawn: Collection[Path]) -> list[str]:
    """Return what each of `chosen` has found, and below it the file to open: the figure that tells it, if drawn."""
    from harness.analysis import answers
    from harness.cli import console

    files = {path.stem: path for path in drawn}
    lines = []
    for experiment in _tried(chosen, cells):
        found = answers.by_name(experiment, cells)
        lines.append(f"{experiment.name}: {found[experiment.name] or NO_ANSWER}")
        names = sorted((figure.name for figure in experiment.figures), key=lambda name: not found[name])
        lines += [f"  {console.shown(files[name])}" for name in names if name in files][:1]
    return lines


def _print_outcome(chosen: list[Experiment], preset: str, results: Path, drawing: _Drawing | None) -> None:
    """Print what this machine has found by experiments, and have their figures drawn."""
    from harness.cli import console

    ((slug, cells, owner),) = options.recorded(results, preset, [options.THIS])
    if drawing is None:
        console.print_lines(*_outcomes(chosen, cells, ()))
        return
    folder = presets.folder_of(drawing.figures, slug, cells)
    drawn = _drawn(chosen, cells, owner, folder, known=drawing.known)
    console.print_lines(*_outcomes(chosen, cells, drawn), _figures(folder, drawn))


def _figures(folder: Path, drawn: Collection[Path]) -> str:
    from harness.analysis import rates
    from harness.cli import console

    return f"figures  {console.shown(folder)}  ({rates.plural(len(drawn), 'file')})"


class _Drawing:
    """Draws figures of this machine while other experiments are still to be measured, and keeps what it has drawn."""

    def __init__(self, preset: str, results: Path, figures: Path) -> None:
        self._preset, self._results, self.figures = preset, results, figures
        self.known: dict[Path, str] = {}

    def draw(self, name: str) -> str:
        """Draw the figures of the experiment called `name` if reports show one; return where they are, or a reason."""
        from harness.catalogue import load_all

        chosen = [load_all()[name]]
        if not any(figure.prominence for experiment in chosen for figure in experiment.figures):
            return ""
        try:
            ((slug, cells, owner),) = options.recorded(self._results, self._preset, [options.THIS])
            drawn = _drawn(chosen, cells, owner, presets.folder_of(self.figures, slug, cells), known=self.known)
        except Exception as error:  # noqa: BLE001 a figure can be drawn later too, and what is not measured cannot
            return f"the figures of {name} could not be drawn: {error}"
        return "\n".join(f"figure   {path}" for path in drawn)


def _commands(preset: str, results: Path, figures: Path, names: Sequence[str] = ("plot", "report")) -> str:
    """Return the commands called `names`, of what is stored of this machine: by default to draw and to report it."""
    chosen = {"--results": (results, options.RESULTS), "--figures": (figures, options.FIGURES)}
    given = [f"{name} {path}" for name, (path, default) in chosen.items() if path != default]
    rest = " ".join(["--preset", preset, "--machine", options.THIS, *given])
    return " && ".join(f"{Path(sys.executable)} -m harness {command} {rest}" for command in names)


def _check_only(only: list[str] | None, chosen: list[Experiment], preset: str) -> None:
    """Raise if `only` names something that is a contender of no case."""
    from harness.machine import detect

    if not only:
        return
    contenders = [c for e in chosen for case in e.of_preset(preset, detect()) for c in case.contenders]
    known = dict.fromkeys(name for c in contenders for name in (c.label, c.arguments.get("backend")) if name)
    for name in only:
        if name not in known:
            raise ExperimentError.unknown("contender", name, known)


def _check_where(places: Mapping[str, Collection[str]], chosen: list[Experiment], preset: str) -> None:
    """Raise if no case stands at one of the values that an axis is to have."""
    from harness.machine import detect

    if not places:
        return
    cases = [case for e in chosen for case in e.of_preset(preset, detect())]
    for axis, values in places.items():
        known = dict.fromkeys(str(case.axes[axis]) for case in cases if axis in case.axes)
        missing = [value for value in values if value not in known]
        if missing:
            axes = dict.fromkeys(name for case in cases for name in case.axes)
            raise ExperimentError(
                f"no case has {axis}={missing[0]} in these experiments",
                expected=f"{axis} of {', '.join(known)}" if known else f"an axis of {', '.join(axes)}",
            )
