"""The command line: ``gemm-harness list | info | check | run | plot | report | tune``.

What a command needs beyond NumPy is imported inside it, so that ``--help`` and mistakes answer at once.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.errors import ExperimentError, HarnessError, StoreError
from harness.experiment import Experiment
from harness.machine import Machine
from harness.store import Cell

DONE, FAILED, USER_ERROR, INTERRUPTED = 0, 1, 2, 130

EXIT_STATUS = """Exit status: 0 all is well; 1 something that was tried failed (a cell of a run, a check);
2 the request cannot be carried out as it stands; 130 interrupted."""

app = typer.Typer(
    name="gemm-harness",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Compare ways to compute matrix products over semirings: prove them right, time them, draw and report.",
    epilog=EXIT_STATUS,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# A checkout keeps its results; an installed package must not write beside its own code.
_CHECKOUT = Path(__file__).resolve().parent.parent
EXPERIMENTS = (_CHECKOUT if (_CHECKOUT / "pyproject.toml").exists() else Path()) / "experiments"
RESULTS, FIGURES = EXPERIMENTS / "results", EXPERIMENTS / "figures"

Results = Annotated[Path, typer.Option("--results", help="Folder of the stored results.")]
Figures = Annotated[Path, typer.Option("--figures", help="Folder that figures go to, one folder per machine.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Stored = Annotated[
    Literal["smoke", "quick", "full"] | None, typer.Option("--preset", help="By default the largest a machine has.")
]
Names = Annotated[list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="All of them by default.")]


def main() -> None:
    """Run the command line. A mistake of the user is a message on stderr and status 2, never a traceback."""
    try:
        app()
    except HarnessError as error:
        _complain(error)
        sys.exit(USER_ERROR)
    except OSError as error:  # a full disk, a folder that may not be written
        _complain(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
        sys.exit(USER_ERROR)


@app.command("list")
def list_backends(*, as_json: AsJson = False) -> None:
    """List every backend, and why it cannot run here."""
    from harness import console, registry

    entries = registry.discover()
    if as_json:
        console.print_json([console.describe(entry) for entry in entries])
    else:
        console.print_backends(entries)


@app.command()
def info(
    *,
    as_json: AsJson = False,
    peaks: Annotated[
        bool, typer.Option("--peaks", help="Measure what registers alone can do, for each semiring and dtype.")
    ] = False,
) -> None:
    """Describe this machine, as results record it."""
    from harness import console, information
    from harness.peaks import measure_peaks, table
    from harness.semiring import DTYPES

    facts = information.collect()
    found = list(measure_peaks()) if peaks else []
    if as_json:
        measured = [{"semiring": name, "dtype": dtype, "gpairs_per_s": rate} for name, dtype, rate in found]
        console.print_json({**facts, "peaks": measured} if peaks else facts)
        return
    console.print_table(("what", "value"), information.rows(facts))
    if peaks:
        console.print_table(("peak of one core, 1e9 pairs/s", *(dtype.name for dtype in DTYPES)), table(found))


@app.command()
def check(
    backends: Annotated[
        list[str] | None, typer.Argument(metavar="[BACKEND]...", help="All that can run here by default.")
    ] = None,
    *,
    depth: Annotated[Literal["quick", "full"], typer.Option(help="How many combinations to try.")] = "quick",
    patience: Annotated[float, typer.Option(min=0.1, help="Seconds without a finding that count as a hang.")] = 120.0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what is right as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line and finding.")] = False,
    in_process: Annotated[bool, typer.Option("--in-process", help="In this process: for a debugger.")] = False,
) -> None:
    """Prove backends right against the definition of the product.

    Each runs in a process of its own, so that a crash or a hang is reported like any other defect.
    """
    from harness import check_process, console, registry
    from harness.check import check_backend

    names = backends or [entry.name for entry in registry.discover() if not entry.unavailable()]
    failed = 0
    for backend in [registry.find(name) for name in names]:  # a mistake in any name is said before work begins
        if in_process:
            findings = check_backend(backend, depth=depth)
        else:
            findings = check_process.findings(backend.name, depth, patience)
        failed += console.print_findings(backend.name, findings, as_json=as_json, verbose=verbose)
    if failed:
        raise typer.Exit(FAILED)


@app.command()
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
    from harness import console, runner
    from harness.progress import Progress

    chosen = _experiments(experiments)
    _check_only(only, chosen, preset)
    try:
        with Progress() as progress:
            summary = runner.run(chosen, preset, results, progress, only=tuple(only or ()), fresh=fresh)
    except KeyboardInterrupt:
        _complain("interrupted: what is finished is kept, and the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None
    console.print_counts(progress.counts)
    console.print_lines("", f"results  {summary.folder}")
    if summary.counts.get("failed"):
        raise typer.Exit(FAILED)


@app.command()
def plot(
    experiments: Names = None, *, preset: Stored = None, results: Results = RESULTS, figures: Figures = FIGURES
) -> None:
    """Draw the figures of every machine from stored results alone."""
    from harness import console, plots

    chosen = _experiments(experiments)
    for slug, cells, machine in _recorded(results, preset):
        measured = {cell.experiment for cell in cells}
        drawn = [p for e in chosen if e.name in measured for p in plots.draw(e, cells, machine, figures / slug)]
        console.print_lines(f"figures  {figures / slug}  ({len(drawn)} files)")


@app.command()
def report(
    *,
    preset: Stored = None,
    results: Results = RESULTS,
    figures: Figures = FIGURES,
    readme: Annotated[
        Path | None,
        typer.Option(help="Rewrite the tables between markers in this file too, from this machine's results."),
    ] = None,
) -> None:
    """Write a page per machine from stored results alone, and print what the ladder found.

    It shows the figures that `plot` has drawn, and goes beside the results.
    """
    from harness import console, tables
    from harness import report as page
    from harness.machine import detect

    chosen = _experiments(None)
    for slug, cells, machine in _recorded(results, preset):
        written = page.write(chosen, cells, machine, figures / slug, results / slug)
        if slug == detect().slug:
            console.print_table(*tables.headline(cells), numeric=tables.HEADLINE_NUMBERS)
            if readme:
                page.write_tables(readme, chosen, cells)
        console.print_lines(f"report   {written}")


@app.command()
def tune(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure and print, store nothing.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what is stored for this machine.")] = False,
) -> None:
    """Measure the block sizes of cpu-simd on this machine, and use what is better than the model's from then on.

    It takes less than five minutes. What is found is stored at once, and kept if the command is interrupted.
    """
    from harness import console, registry, tuned, tuner
    from harness.machine import detect
    from harness.progress import Progress

    if forget:
        gone = tuned.forget(detect())
        console.print_lines(f"removed  {gone}" if gone else "nothing is stored for this machine")
        return
    place = None if dry_run else tuned.writable(detect())
    findings: list[tuner.Finding] = []
    is_interrupted = False
    try:
        with Progress() as progress:
            work = tuner.Tuner(registry.find(tuner.BACKEND), observer=progress, is_stored=not dry_run)
            findings.extend(work.tune())
    except KeyboardInterrupt:
        is_interrupted, findings = True, work.findings
    console.print_table(*tuner.table(findings), numeric=("gain",))
    console.print_lines("", f"stored   {place}" if place and findings else "nothing was stored")
    if is_interrupted:
        _complain("interrupted: what is finished is kept")
        raise typer.Exit(INTERRUPTED)


def _experiments(names: list[str] | None) -> list[Experiment]:
    """Return the experiments called `names`, or all."""
    from harness.experiment import load_all

    known = load_all()
    for name in names or ():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise ExperimentError(
                f"unknown experiment {name!r}",
                expected=", ".join(known),
                fix=f"did you mean {close[0]!r}?" if close else "",
            )
    return [known[name] for name in names or known]


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


def _recorded(results: Path, preset: str | None) -> Iterator[tuple[str, list[Cell], Machine]]:
    """Yield each machine's slug, the cells of `preset` or of the largest that it has, and its fingerprint."""
    from harness import store

    slugs = [slug for slug in store.machines(results) if preset is None or (results / slug / preset).exists()]
    if not slugs:
        kind = f" of preset {preset}" if preset else ""
        raise StoreError(f"{results}: no results{kind}", fix="make experiments, or --results FOLDER")
    for slug in slugs:
        records = store.Store(results / slug / (preset or store.richest_preset(results, slug)))
        cells, machine = records.cells(), records.machine()
        for notice in records.notices:
            _complain(notice)
        yield slug, cells, machine


def _complain(text: object) -> None:
    from harness.console import complain

    complain(f"gemm-harness: {text}")
