"""Commands that watch speed over time: bench-compare, history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.options import FAILED, FIGURES, INTERRUPTED, RESULTS, AllowDirty, AsJson, Figures, Results, complain

if TYPE_CHECKING:
    from harness.compare.revisions import Finding

BaseRevision = Annotated[
    str, typer.Argument(metavar="BASE", show_default=False, help="A commit, a branch or a tag to compare with.")
]


def bench_compare(
    base: BaseRevision = "",
    *,
    preset: Annotated[Literal["smoke", "quick", "full"], typer.Option(help="How much to measure.")] = "quick",
    backends: Annotated[
        list[str] | None, typer.Option("--backend", help="Compare this one only; may be repeated. All by default.")
    ] = None,
    problems: Annotated[
        list[str] | None,
        typer.Option("--problem", help='In place of the preset\'s, as "min_plus float32 512"; may be repeated.'),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each product.")] = 1,
    source: Annotated[
        str | None, typer.Option(help="Folder of the project that modules are imported from. [default: src, or .]")
    ] = None,
    minimum_effect: Annotated[float, typer.Option(min=0.0, help="A smaller change of the time is none.")] = 0.02,
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Measure the working tree against another revision of it, and find what is slower.

    The base is checked out beside the working tree for as long as it takes. Both are measured in turns on this machine.
    Exit status 1: something is slower, or works no longer.
    """
    from harness.analysis.contests import judge
    from harness.cli import console
    from harness.cli.progress import Progress
    from harness.compare import products, revisions, source_tree
    from harness.compare.worktree import Repository, Terminated
    from harness.run import runner
    from harness.threads import check

    check(threads)
    wanted = [products.problem(text) for text in problems or products.PRODUCTS[preset]]
    repository = Repository.around(Path())
    commit = repository.commit(base)
    try:
        with repository.checked_out(commit) as folder, Progress() as progress:
            trees = source_tree.pair(repository, folder, commit, source)
            cases, notes = revisions.cases(*trees, wanted, backends=backends or (), threads=threads)
            experiment = revisions.experiment(cases, products.BUDGETS[preset])
            done = runner.run([experiment], revisions.REVISIONS, results, progress, fresh=True)
    except (KeyboardInterrupt, Terminated) as signal:
        complain("interrupted: what was measured is kept")
        raise typer.Exit(128 + signal.number if isinstance(signal, Terminated) else INTERRUPTED) from None
    findings = next(found for found in revisions.runs(done.folder.parent) if found[0].own.run == done.run)
    judge(findings, minimum_effect=minimum_effect)
    if as_json:
        console.print_json([finding.to_json() for finding in findings])
    else:
        _show(findings, notes, trees)
    if any(finding.is_regression for finding in findings):
        raise typer.Exit(FAILED)


def history(*, results: Results = RESULTS, figures: Figures = FIGURES, allow_dirty: AllowDirty = False) -> None:
    """Write a page per machine with the ratios of all stored runs, and where they changed.

    It goes beside the results, its figures to the others.
    """
    from harness.analysis import rates
    from harness.cli import console
    from harness.compare import history_page
    from harness.run import provenance

    for slug, machine in history_page.machines(results):
        provenance.require_clean(results / slug, figures / slug, allow_dirty=allow_dirty)
        page, changes = history_page.write(results, figures / slug, slug, machine, mark=provenance.mark())
        console.print_lines(f"history  {page}  ({rates.plural(changes, 'change')})")


def _show(findings: Sequence[Finding], notes: Sequence[str], trees: Sequence[Any]) -> None:
    """Print the table of verdicts, and below it whatever has none."""
    from harness.analysis import rates
    from harness.cli import console
    from harness.report import tables

    base, head = trees
    console.print_lines(f"base {base.commit}, head {head.commit}: time of head over time of base, 95 % interval", "")
    timed = [finding for finding in findings if finding.is_ok]
    heads = ("cell", "base ms", "head ms", "head/base", "verdict")
    rows = [
        (
            str(finding),
            f"{1e-6 * finding.reference.median_ns:.4g}",
            f"{1e-6 * finding.own.median_ns:.4g}",
            tables.number(finding.comparison.ratio),
            _verdict(finding),
        )
        for finding in timed
    ]
    console.print_table(heads, rows, numeric=heads[1:3])
    for finding in findings:
        if finding.status == "failed":
            console.print_lines(f"FAILED   {finding}: {finding.reason}")
    tally = rates.group(findings, _verdict)
    console.print_lines("", ", ".join(f"{len(own)} {word}" for word, own in tally.items()))
    unmet = rates.group((finding for finding in timed if finding.unmet), lambda finding: finding.unmet)
    console.print_lines(*(f"budget not met: {why}: {rates.plural(len(own), 'cell')}" for why, own in unmet.items()))
    console.print_lines(*notes)


def _verdict(finding: Finding) -> str:
    """Return the verdict, or why there is none."""
    return finding.verdict.name if finding.is_ok else finding.status
