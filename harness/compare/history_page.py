"""The history of one machine as a page in Markdown, with a figure for each experiment: readable where the code is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.analysis import rates
from harness.compare import log, plot_history
from harness.compare.history import MINIMUM_CHANGE, Series, collect, find_steps, summaries
from harness.errors import StoreError
from harness.machine import Machine
from harness.report.tables import markdown_table, number
from harness.stats import changepoints
from harness.stats.statistics import median
from harness.store import store
from harness.store.journal import Journal

PAGE = "history.md"
MOST_COMPARISONS = 30

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
    slugs = {path.parent.name for path in results_root.glob(f"*/{log.FILE}")}
    measured = store.machines(results_root)
    if not slugs | set(measured):
        raise StoreError(f"{results_root}: no results", fix="make experiments, or --results FOLDER")
    for slug in sorted(slugs | set(measured)):
        if slug in measured:
            yield slug, store.Store(results_root / slug / store.richest_preset(results_root, slug)).machine()
        else:
            lines = Journal(results_root / slug / log.FILE).lines()
            yield (
                slug,
                [Machine.from_json(line.record["fingerprint"]) for line in lines if line.record["kind"] == "begun"][-1],
            )


def write(results_root: Path, figures: Path, slug: str, machine: Machine, *, mark: str = "") -> tuple[Path, int]:
    """Write the page of the machine called `slug` and draw its figures; return where it is, and how many changes.

    Parameters
    ----------
    results_root : Path
    figures : Path
        Folder of this machine's figures.
    slug : str
    machine : Machine
        Of the latest run.
    mark : str
        What is to be said of the code that makes the page.
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
        _comparisons(Journal(results_root / slug / log.FILE)),
    ]
    for (experiment, preset), own in rates.group(totals, lambda one: (one.experiment, one.preset)).items():
        name = f"{experiment} ({preset})"
        figure = figures / f"history-{experiment}-{preset}"
        has_runs = max(len(one.points) for one in own) > 1
        if has_runs:
            plot_history.draw(name, own, machine, figure)
        parts.append(_section(name, own, figure.with_name(f"{figure.name}.svg") if has_runs else None, page.parent))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return page, sum(len(one.steps) for one in [*totals, *series])


def _changes(series: Sequence[Series]) -> str:
    """Return the table of all changes, the latest first, or why there is none."""
    rows = []
    for own in series:
        for step in own.steps:
            at = own.points[step.start]
            cause = "machine changed too" if own.is_other_machine(step) else ""
            levels = f"{math.exp(step.before):.3g} to {math.exp(step.after):.3g}"
            change = f"{100 * math.expm1(step.after - step.before):+.1f} %"
            place = (f"{own.experiment} ({own.preset})", own.where, own.contender)
            rows.append((at.day, at.commit, *place, levels, change, cause))
    enough = sum(len(own.points) >= changepoints.FEWEST_POINTS for own in series)
    judged = f"{enough} of {len(series)} series have the {changepoints.FEWEST_POINTS} runs that it takes."
    heads = ["since", "commit", "experiment", "cell", "contender", "time over reference", "change", "remark"]
    rows.sort(reverse=True)
    body = markdown_table(heads, rows, right=["change"]) if rows else "None."
    return f"## Changes\n\n{judged}\n\n{body}"


def _comparisons(journal: Journal) -> str:
    """Return the table of what `bench-compare` found, the latest first; empty if it has never run."""
    runs = rates.group(log.comparisons(line.record for line in journal.lines()), lambda one: one["run"])
    if not runs:
        return ""
    words = ("slower", "faster", "same", "unsure")
    rows = [_comparison(own, words) for own in list(runs.values())[-MOST_COMPARISONS:]]
    heads = ["measured", "base", "head", *words, "which"]
    return f"## Revisions compared\n\n{markdown_table(heads, rows[::-1], right=words)}"


def _comparison(own: Sequence[Mapping[str, Any]], words: Iterable[str]) -> list[str]:
    """Return the line of one run of `bench-compare`."""
    tally = [sum(one["verdict"] == word for one in own) for word in words]
    changed = [
        f"{one['backend']} {one['problem']['semiring']} {one['problem']['dtype']} {one['ratio'][0]:.3g}"
        for one in own
        if one["verdict"] in ("slower", "faster")
    ]
    return [own[0]["time"][:10], own[0]["base"], own[0]["head"], *map(str, tally), "; ".join(changed)]


def _section(name: str, series: Sequence[Series], figure: Path | None, folder: Path) -> str:
    """Return figure and table of one experiment in one preset."""
    rows = []
    for own in series:
        earlier = [point.ratio.estimate for point in own.points[:-1]]
        now = own.points[-1].ratio
        change = f"{100 * (now.estimate / median(earlier) - 1):+.1f} %" if earlier else ""
        before = f"{median(earlier):.3g}" if earlier else ""
        rows.append((own.contender, own.reference, own.where, str(len(own.points)), number(now), before, change))
    heads = ["contender", "reference", "over", "runs", "latest", "median before", "change"]
    shown = [f"![{name}]({Path(os.path.relpath(figure, folder)).as_posix()})"] if figure else []
    table = markdown_table(heads, rows, right=["runs", "median before", "change"])
    return "\n\n".join([f"## {name}", *shown, table])
