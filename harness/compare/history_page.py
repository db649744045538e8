"""The history of one machine as a page in Markdown, with a figure for each experiment: readable where the code is."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.analysis import rates
from harness.analysis.contests import judge
from harness.compare import revisions
from harness.compare.history import MINIMUM_CHANGE, Series, collect, find_steps, summaries
from harness.compare.revisions import RevisionContest
from harness.errors import StoreError
from harness.machine import Machine
from harness.report.figures.looks import GREY, INK, Looks
from harness.report.figures.sheet import Sheet, styled
from harness.report.tables import markdown_table, number
from harness.stats import changepoints
from harness.stats.statistics import median
from harness.stats.verdict import Verdict
from harness.store import store
from harness.surroundings import write_whole

PAGE = "history.md"
MOST_COMPARISONS = 30
MOST_LABELS = 14
# The most contenders in a figure: those that changed most are drawn, and the table has all.
MOST_LINES = 10
VERDICTS = (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNSURE)

HOW_TO_READ = f"""\
A value is the time of a contender over the time of the reference that it was measured interleaved with, so that what
the machine did to both is not in it; below 1 is faster. A change is shown if shuffled runs rarely show one as large,
with a false discovery rate of 5 % over all series of this page, and if it is above {100 * MINIMUM_CHANGE:.0f} %; that
takes {changepoints.FEWEST_POINTS} runs. Where the fingerprint of the machine (processor, memory, versions of
packages) changed with the level, that is said: the code need not be the cause."""


def machines(results_root: Path) -> Iterator[tuple[str, Machine]]:
    """Yield the slug and the latest fingerprint of each machine that has recorded anything.

    Raises
    ------
    StoreError
        If none has.
    """
    compared = {path.parent.name for path in results_root.glob(f"*/{revisions.REVISIONS}")}
    measured = store.machines(results_root)
    if not compared | set(measured):
        raise StoreError(f"{results_root}: no results", fix="make experiments, or --results FOLDER")
    for slug in sorted(compared | set(measured)):
        folder = store.richest_preset(results_root, slug) if slug in measured else revisions.REVISIONS
        yield slug, store.Store(results_root / slug / folder).machine()


def write(results_root: Path, figures: Path, slug: str, machine: Machine, *, mark: str = "") -> tuple[Path, int]:
    """Write the page of the machine called `slug` and draw its figures; return its path and the number of changes.

    Parameters
    ----------
    results_root : Path
    figures : Path
        Folder of this machine's figures.
    slug : str
    machine : Machine
        Of the latest run.
    mark : str
        The sentence about the code that makes the page.
    """
    series = collect(results_root, slug)
    totals = summaries(series)
    find_steps(series)
    find_steps(totals)
    page = results_root / slug / PAGE
    parts = [
        f"# History: {machine.cpu}, {rates.plural(machine.cores, 'core')}",
        HOW_TO_READ,
        mark and f"{mark}.",
        _changes([*totals, *series]),
        _comparisons(deque(revisions.runs(results_root / slug), MOST_COMPARISONS)),
    ]
    for (experiment, preset), members in rates.group(totals, lambda one: (one.experiment, one.preset)).items():
        name = f"{experiment} ({preset})"
        figure = figures / f"history-{experiment}-{preset}"
        has_runs = max(len(one.points) for one in members) > 1
        if has_runs:
            draw(name, members, machine, figure)
        parts.append(_section(name, members, figure.with_name(f"{figure.name}.svg") if has_runs else None, page.parent))
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, "\n\n".join(part for part in parts if part) + "\n")
    return page, sum(len(one.steps) for one in [*totals, *series])


def _changes(series: Sequence[Series]) -> str:
    """Return the table of all changes, the latest first, with the number of series that could have one."""
    rows = []
    for one in series:
        for step in one.steps:
            at = one.points[step.start]
            cause = "machine changed too" if one.is_other_machine(step) else ""
            levels = f"{math.exp(step.before):.3g} to {math.exp(step.after):.3g}"
            change = f"{100 * math.expm1(step.after - step.before):+.1f} %"
            names = (f"{one.experiment} ({one.preset})", one.where, one.contender)
            rows.append((at.day, at.commit, *names, levels, change, cause))
    enough = sum(len(one.points) >= changepoints.FEWEST_POINTS for one in series)
    judged = f"{enough} of {len(series)} series have the {changepoints.FEWEST_POINTS} runs that it takes."
    heads = ["since", "commit", "experiment", "cell", "contender", "time over reference", "change", "remark"]
    rows.sort(reverse=True)
    body = markdown_table(heads, rows, right=["change"]) if rows else "None."
    return f"## Changes\n\n{judged}\n\n{body}"


def _comparisons(runs: Sequence[Sequence[RevisionContest]]) -> str:
    """Return the table of these runs of `bench-compare`, the latest first; empty without any."""
    if not runs:
        return ""
    words = [verdict.value for verdict in VERDICTS]
    rows = [_comparison(contests) for contests in runs]
    heads = ["measured", "base", "head", *words, "which"]
    return f"## Revisions compared\n\n{markdown_table(heads, rows[::-1], right=words)}"


def _comparison(contests: Sequence[RevisionContest]) -> list[str]:
    """Return the line of one run of `bench-compare`."""
    judge(contests)
    timed = [contest for contest in contests if contest.is_ok]
    tally = [sum(contest.verdict is verdict for contest in timed) for verdict in VERDICTS]
    changed = [
        f"{contest} {contest.comparison.ratio.estimate:.3g}"
        for contest in timed
        if contest.verdict in (Verdict.SLOWER, Verdict.FASTER)
    ]
    head = contests[0].subject
    return [head.time[:10], head.axes["base"], head.axes["head"], *map(str, tally), "; ".join(changed)]


def _section(name: str, series: Sequence[Series], figure: Path | None, folder: Path) -> str:
    """Return figure and table of one experiment in one preset."""
    rows = []
    for one in series:
        earlier = [point.ratio.estimate for point in one.points[:-1]]
        now = one.points[-1].ratio
        change = f"{100 * (now.estimate / median(earlier) - 1):+.1f} %" if earlier else ""
        before = f"{median(earlier):.3g}" if earlier else ""
        rows.append((one.contender, one.reference, one.where, str(len(one.points)), number(now), before, change))
    heads = ["contender", "reference", "over", "runs", "latest", "median before", "change"]
    shown = [f"![{name}]({Path(os.path.relpath(figure, folder)).as_posix()})"] if figure else []
    table = markdown_table(heads, rows, right=["runs", "median before", "change"])
    return "\n\n".join([f"## {name}", *shown, table])


def draw(name: str, series: Sequence[Series], machine: Machine, path: Path) -> list[Path]:
    """Draw the summaries of one experiment as ``path.svg`` and ``path.png``: a line a contender, above 0 is slower.

    Parameters
    ----------
    name : str
        Of the experiment and its preset, for the title.
    series : sequence of Series
        With their steps.
    machine : Machine
    path : Path
    """
    with styled():
        sheet = Sheet(f"{name}: run by run")
        shown = sorted(series, key=lambda one: (-len(one.steps), min(one.logs) - max(one.logs)))[:MOST_LINES]
        runs = sorted({point.run: point for one in shown for point in one.points}.values())
        position = {point.run: index for index, point in enumerate(runs)}
        (panel,) = sheet.panels(height=3.6)
        looks = Looks([one.specimen for one in shown])
        for one in shown:
            look = looks.of(one.contender)
            x, usual = [position[point.run] for point in one.points], median([p.ratio.estimate for p in one.points])
            estimates, lows, highs = (
                [100 * (bound / usual - 1) for bound in bounds]
                for bounds in zip(*(point.ratio for point in one.points), strict=True)
            )
            panel.fill_between(x, lows, highs, color=look["color"], alpha=0.15, linewidth=0)
            panel.plot(x, estimates, **look)
            sheet.add_to_legend(one.contender, **look)
            for step in one.steps:
                panel.axvline(x[step.start] - 0.5, color=look["color"], linestyle=":", linewidth=1.4)
        panel.axhline(0, color=INK, linewidth=1.0)
        panel.set_ylabel("time over the reference,\n% off its median over all runs")
        stride = -(-len(runs) // MOST_LABELS)
        panel.set_xticks(range(0, len(runs), stride))
        panel.set_xticklabels([f"{p.day[2:]}\n{p.commit[:7]}" for p in runs[::stride]], size=8, color=GREY)
        panel.set_xlim(-0.6, len(runs) - 0.4)
        references = ", ".join(sorted({one.reference for one in series}))
        sheet.notes.append(
            f"Reference: {references}. A dotted line: the level of that colour's contender changes there."
        )
        if len(series) > len(shown):
            sheet.notes.append(f"{len(shown)} of {len(series)} contenders, those that changed most.")
        cores = rates.plural(machine.cores, "core")
        return sheet.save(path, f"{machine.cpu}, {cores} · {rates.plural(len(runs), 'run')} · 95 % interval")
