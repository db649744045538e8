"""The command that watches speed over time: bench-compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options

if TYPE_CHECKING:
    from harness.compare.revisions import RevisionContest


def bench_compare(
    base: Annotated[
        str, typer.Argument(metavar="BASE", show_default=False, help="A commit, a branch or a tag to compare with.")
    ] = "",
    *,
    preset: options.Effort = "quick",
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
    minimum_effect: Annotated[
        float, typer.Option(min=0.0, callback=options.number, help="Changes of the time below this count as none.")
    ] = 0.02,
    results: options.Results = options.RESULTS,
    as_json: options.AsJson = False,
) -> None:
    """Measure the working tree against another revision of it, and find what is slower.

    The base is checked out beside the working tree for as long as it takes. Both are measured in turns on this machine.
    Exit status 1: something is slower, or works no longer.
    """
    from harness.analysis.contests import judge
    from harness.cli import console
    from harness.cli.progress import Progress
    from harness.compare import products, revisions, source_tree
    from harness.compare.worktree import Repository
    from harness.run import runner
    from harness.run.ending import Terminated, status_of
    from harness.threads import check

    check(threads)
    chosen = [products.problem(text) for text in problems or products.PRODUCTS[preset]]
    repository = Repository.around(Path())
    commit = repository.commit(base)
    try:
        with repository.checked_out(commit) as folder, Progress() as progress:
            trees = source_tree.pair(repository, folder, commit, source)
            cases, notes = revisions.cases(*trees, chosen, backends=backends or (), threads=threads)
            experiment = revisions.experiment(cases, products.BUDGETS[preset])
            done = runner.run([experiment], revisions.REVISIONS, results, progress, fresh=True)
    except (KeyboardInterrupt, Terminated) as ended:
        options.complain("interrupted: what was measured is kept")
        raise typer.Exit(status_of(ended)) from None
    contests = next(run for run in revisions.runs(done.folder.parent) if run[0].subject.run == done.run)
    judge(contests, minimum_effect=minimum_effect)
    if as_json:
        console.print_json([contest.to_json() for contest in contests])
    else:
        _show(contests, notes, trees)
    if any(contest.is_regression for contest in contests):
        raise typer.Exit(options.FAILED)


def _show(contests: Sequence[RevisionContest], notes: Sequence[str], trees: Sequence[Any]) -> None:
    """Print the table of verdicts, and below it the contests without one."""
    from harness.analysis import rates
    from harness.cli import console
    from harness.report import tables

    base, head = trees
    console.print_lines(f"base {base.commit}, head {head.commit}: time of head over time of base, 95 % interval", "")
    timed = [contest for contest in contests if contest.is_ok]
    heads = ("cell", "base ms", "head ms", "head/base", "verdict")
    rows = [
        (
            str(contest),
            f"{1e-6 * contest.reference.median_ns:.4g}",
            f"{1e-6 * contest.subject.median_ns:.4g}",
            tables.number(contest.comparison.ratio),
            _verdict(contest),
        )
        for contest in timed
    ]
    console.print_table(heads, rows, numeric=heads[1:3])
    for contest in contests:
        if contest.status == "failed":
            console.print_lines(f"FAILED   {contest}: {contest.reason}")
    tally = rates.group(contests, _verdict)
    console.print_lines("", ", ".join(f"{len(members)} {word}" for word, members in tally.items()))
    unmet = rates.group((contest for contest in timed if contest.unmet), lambda contest: contest.unmet)
    console.print_lines(*(f"budget not met: {why}: {rates.plural(len(cells), 'cell')}" for why, cells in unmet.items()))
    console.print_lines(*notes)


def _verdict(contest: RevisionContest) -> str:
    """Return the verdict, or the status of a contest without one."""
    return contest.verdict.name if contest.is_ok else contest.status
