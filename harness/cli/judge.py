"""Commands that judge: calibrate, compare."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import DONE, FAILED, INTERRUPTED, RESULTS, AsJson, Results, ToRead, complain, number
from harness.errors import ExperimentError
from harness.store import places

if TYPE_CHECKING:
    from harness.compare.stored_runs import Side
    from harness.experiment import Experiment

ONLY = "Only of this; may be repeated."
MOST = 10_000  # cells, processes or rounds: more take days
Effect = Annotated[
    float, typer.Option(min=0.0, callback=number, help="Changes of the time below this count as none: 0.02 is 2 %.")
]


def calibrate(
    *,
    cells: Annotated[int, typer.Option(min=1, max=MOST, help="A/A cells: the same backend under two names.")] = 40,
    planted: Annotated[int, typer.Option(min=0, max=MOST, help="Cells in which one of the two really is slower.")] = 20,
    slowdown: Annotated[
        float,
        typer.Option(min=0.0, max=100.0, callback=number, help="How much slower the planted ones are: 0.05 is 5 %."),
    ] = 0.05,
    minutes: Annotated[float, typer.Option(min=0.0, callback=number, help="Begin no cell after this time.")] = 30.0,
    processes: Annotated[int, typer.Option(min=1, max=MOST, help="Fresh processes of each contender and cell.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, max=MOST, help="Rounds in each process, at least.")] = 10,
    precision: Annotated[
        float,
        typer.Option(
            min=0.0,
            callback=number,
            help="Sample until each process knows the ratio to this, 4 s at most; 0: only the rounds.",
        ),
    ] = 0.01,
    backends: Annotated[
        list[str] | None,
        typer.Option("--backend", help="Calibrate by this backend; may be repeated. [cpu-simd, cpu-numpy]"),
    ] = None,
    as_json: AsJson = False,
    results: Results = RESULTS,
) -> None:
    """Find out how far verdicts can be trusted on this machine: how many are false, and what change is found.

    Each cell is kept as soon as it is done; Ctrl-C ends the calibration and shows what it has found so far.
    """
    from harness import registry
    from harness.analysis import calibration as findings
    from harness.cli import console
    from harness.compare import calibration
    from harness.machine import detect
    from harness.store.folders import slug_of
    from harness.store.journal import Journal

    names = backends or calibration.BACKENDS
    for name in names:
        registry.find(name)
    cases = calibration.interleaved(
        calibration.cases(cells, 0.0, names), calibration.cases(planted, slowdown, names) if slowdown else []
    )
    settings: dict[str, Any] = {"processes": processes, "rounds": rounds, "precision": precision}
    experiment = calibration.experiment(cases, dataclasses.replace(calibration.BUDGET, **settings))
    run, is_interrupted = _run_within(minutes, experiment, findings.CALIBRATION, results)
    folder = results / slug_of(results, detect())
    trials = calibration.trials(folder, run)
    result = findings.findings(trials)
    summary = {**result.to_json(), **settings, "machine": detect().key}
    if trials:
        Journal(folder / findings.FILE).append([summary])
    if as_json:
        console.print_json(summary)
    else:
        console.print_table(*findings.table(trials), numeric=findings.NUMBERS)
        console.print_lines("", *findings.sentences(result), "", f"stored   {folder / findings.CALIBRATION}")
    for trial in trials:
        if not trial.is_ok:
            complain(f"no time: {trial.backend} {trial.problem}: {trial.reason}")
    if is_interrupted:
        complain("interrupted: what is finished is kept")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if result.failed else DONE)


def _run_within(minutes: float, experiment: Experiment, preset: str, results: Path) -> tuple[str, bool]:
    """Measure until the time is up or the user interrupts; return the run, and whether it was interrupted."""
    from harness.cli.progress import Progress
    from harness.run import runner

    end = time.monotonic() + 60 * minutes
    with Progress() as progress:
        try:
            runner.run([experiment], preset, results, progress, fresh=True, is_over=lambda: time.monotonic() > end)
        except KeyboardInterrupt:
            return progress.run, True
    return progress.run, False


def compare(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A folder of results, or a machine, preset, run or commit in one.")
    ],
    new: Annotated[str, typer.Argument(metavar="[NEW]", help="What is judged against it; not with --contenders.")] = "",
    *,
    contenders: Annotated[
        tuple[str, str] | None, typer.Option(help="Within OLD: judge the first contender against the second.")
    ] = None,
    goals: Annotated[
        bool, typer.Option("--goals", help="Within OLD: judge what experiments ask of contenders.")
    ] = False,
    experiments: Annotated[list[str] | None, typer.Option("--experiment", help=ONLY)] = None,
    presets: Annotated[list[str] | None, typer.Option("--preset", help=ONLY)] = None,
    minimum_effect: Effect = 0.02,
    as_json: AsJson = False,
    results: ToRead = None,
) -> None:
    """Compare two stored runs, or two contenders of one: which is faster, by how much, and whether it is the machine.

    Exit status: 1 if something is slower or misses its goal, 2 if the request cannot be carried out, else 0.
    """
    from harness.analysis import rates
    from harness.cli import console
    from harness.compare import stored_runs as comparing
    from harness.stats.verdict import Verdict

    if bool(new) + bool(contenders) + goals != 1:
        expected = "OLD NEW, OLD --contenders OWN REFERENCE, or OLD --goals"
        raise ExperimentError("two things are needed to compare", expected=expected)
    results = results or places.to_read()
    before = comparing.side(old, results, presets or (), experiments or ())
    if goals:
        _print_goals(before, minimum_effect, as_json=as_json)
        return
    notes: list[str] = []
    if contenders:
        changes = comparing.within(before, *contenders, minimum_effect)
    else:
        after = comparing.side(new, results, presets or (), experiments or ())
        changes = comparing.across(before, after, minimum_effect)
        notes = comparing.notes(before, after)
    if as_json:
        console.print_json({"cells": [change.to_json() for change in changes], "notes": notes})
    else:
        console.print_table(*comparing.table(changes), numeric=("processes",))
        counts = ", ".join(f"{sum(change.verdict is v for change in changes)} {v.value}" for v in Verdict)
        console.print_lines("", f"{rates.plural(len(changes), 'cell')}, judged together: {counts}", *notes)
    raise typer.Exit(FAILED if any(change.verdict is Verdict.SLOWER for change in changes) else DONE)


def _print_goals(run: Side, minimum_effect: float, *, as_json: bool) -> None:
    """Print what experiments ask of the contenders of `run`, with verdicts; exit with status 1 if a goal is missed."""
    from harness.catalogue import load_all
    from harness.cli import console
    from harness.compare import goals

    asked = goals.judged(run, load_all().values(), minimum_effect)
    if as_json:
        console.print_json({"goals": [one.to_json() for one in asked]})
    else:
        console.print_table(*goals.table(asked), numeric=("asked",))
        console.print_lines("", goals.counted(asked))
    raise typer.Exit(FAILED if any(one.verdict == goals.MISSES for one in asked) else DONE)
