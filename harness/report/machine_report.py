"""The report of a machine in Markdown, from stored results alone.

It is ``<results>/<machine slug>/report.md``. It begins with what each experiment has found. It shows the most
prominent figures by their relative path, and links to the others, if they were drawn from the cells that it speaks of.
Every cell is in ``cells.csv`` beside it. Cells without a time, and doubts about times, stand in the section of their
experiment and within the figures.
"""

from __future__ import annotations

import csv
import html
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.analysis import answers, caveats, rates
from harness.experiment import Experiment
from harness.machine import Machine
from harness.report import answers_by_place, closing, drawn, tables
from harness.report.tables import byte_size, markdown_table
from harness.store.schema import UNKNOWN
from harness.store.store import Cell
from harness.surroundings import write_whole

REPORT, CELLS = "report.md", "cells.csv"
MOST_FIGURES, MOST_ROWS = 14, 10

HOW_TO_READ = """\
Values are medians with their 95 % intervals in brackets (with fewer than 6 samples: the range). Contenders of a case
were timed in turns, so ratios are medians of paired ratios; on a ladder they are those of the rates shown. Percent of
peak is of the peak measured here for the same semiring, dtype and threads; on a GPU it is that of the SIMT units, which
tensor cores exceed. Gop/s counts two operations a pair, one (x) and one (+).

The bold sentence of a section is made from the stored times; its figure shows them. Verdicts are corrected for the
number of cells. Caveats count cells, and `cells.csv` has the remarks on each. An *undecided* ratio has no verdict: its
interval contains 1, or it has too few samples. Where the *budget* was *not met* there are fewer samples than asked for.
A *disturbed* time was taken on a throttled or shared machine. *Launch-bound*: the host takes about as long to launch a
call as the GPU to compute it. Of *one process*, what differs from process to process is not in the interval.

`docs/vocabulary.md` explains the words, `docs/experiments.md` the marks of a figure, `docs/first-hour.md` the rungs."""


class _Shown(NamedTuple):
    """Where a machine's figures are, and where its report goes."""

    figures: Path
    results: Path


def write(
    experiments: Iterable[Experiment],
    cells: Sequence[Cell],
    machine: Machine,
    figures: Path,
    results: Path,
    *,
    mark: str = "",
) -> Path:
    """Write the report of one machine from its cells, and return where it is.

    Parameters
    ----------
    experiments : iterable of Experiment
        The most prominent come first. Those without a time, or without an answer, are named at its end.
    cells : sequence of Cell
        Of one preset; with peaks that have been superseded, which hold for cells of their time.
    machine : Machine
    figures : Path
        Folder of this machine's figures; those of `cells` that are there are shown.
    results : Path
        Folder of this machine's results; the report goes there.
    mark : str
        A sentence about the code that makes the report.
    """
    known, current = list(experiments), rates.current(cells)
    measured = [e for e in known if any(cell.experiment == e.name for cell in current)]
    absent = [e.name for e in known if e not in measured]
    idle = closing.without_times(measured, cells)
    told = [experiment for experiment in measured if experiment.name not in idle]
    told.sort(key=lambda experiment: -max((figure.prominence for figure in experiment.figures), default=0))
    unsure, prominent = caveats.doubts(cells), _prominent(told, cells, figures)
    parts = [_answers(told, cells, machine), _head(current, machine)]
    parts += [_section(e, cells, unsure, prominent, _Shown(figures, results)) for e in told]
    parts.append(
        closing.section(current, [*closing.unanswered(told, cells), *closing.idle(absent, idle)], results, mark)
    )
    results.mkdir(parents=True, exist_ok=True)
    _write_cells(results / CELLS, measured, cells, unsure)
    report = results / REPORT
    write_whole(report, "\n\n".join(parts) + "\n")
    return report


def _head(cells: Sequence[Cell], machine: Machine) -> str:
    """Return the machine, and how to read the numbers."""
    days = sorted({cell.time[:10] for cell in cells})
    presets = sorted({cell.preset for cell in cells})
    commits = sorted({str(cell.record.get("commit", UNKNOWN)) for cell in cells})
    caches = ", ".join(
        f"{name} {byte_size(size)}"
        for name, size in (("L1d", machine.l1d), ("L2", machine.l2), ("L3", machine.l3))
        if size
    )
    facts = [
        ("processor", f"{machine.processor}, {rates.plural(machine.cores, 'core')}"),
        ("data caches", caches or "not known"),
        ("vector extensions", " ".join(machine.simd) or "not known"),
        *([("GPU", _gpu(machine.gpu))] if machine.gpu else []),
        ("system", f"{machine.system}, Python {machine.python}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in machine.packages.items())),
        ("measured", f"{' to '.join(days[:: max(1, len(days) - 1)])}, preset {', '.join(presets)}"),
        ("code", commits[0] if len(commits) == 1 else f"{len(commits)} commits, see `{CELLS}`"),
    ]
    return "\n\n".join(
        [
            "## How to read",
            markdown_table(["what", "value"], facts),
            HOW_TO_READ,
        ]
    )


def _gpu(facts: Mapping[str, str]) -> str:
    """Return the GPU of a machine in a line: name, and known facts of driver, memory, clock and power."""
    known = (
        ("driver", "driver {}"),
        ("memory_mib", "{} MiB"),
        ("max_mhz", "at most {} MHz"),
        ("power_limit_w", "power limit {} W"),
    )
    details = (text.format(facts[key]) for key, text in known if key in facts)
    return ", ".join([_name(facts), *details])


def _name(facts: Mapping[str, str]) -> str:
    """Return how many GPUs of which name: "NVIDIA H200", "2 x NVIDIA H200"."""
    name = facts.get("name", "GPU not known")
    return f"{facts['count']} x {name}" if "count" in facts else name


def _answers(experiments: Sequence[Experiment], cells: Sequence[Cell], machine: Machine) -> str:
    """Return the title, and what each experiment has found in a sentence that leads to its section."""
    found = {experiment.name: answers.of_experiment(experiment, cells) for experiment in experiments}
    unsettled = [name for name, sentence in found.items() if caveats.is_unsettled(sentence)]
    told = {name: sentence for name, sentence in found.items() if sentence and name not in unsettled}
    anchors = {experiment.name: answers_by_place.anchor(experiment.question) for experiment in experiments}
    parts = answers_by_place.lines(told, anchors)
    if unsettled:
        parts.append(f"Undecided yet: {', '.join(f'[{name}](#{anchors[name]})' for name in unsettled)}")
    title = f"# Results: {machine.processor}, {rates.plural(machine.cores, 'core')}"
    title += f", {_name(machine.gpu)}" if machine.gpu else ""
    doubts = [_undecided(cells)] if any(map(caveats.speaks_of_doubt, found.values())) else []
    return "\n\n".join([title, "## What came out", *doubts, *parts])


def _undecided(cells: Sequence[Cell]) -> str:
    """Return what the mark of doubt means, and what would remove it."""
    is_full = any(cell.preset == "full" for cell in cells)
    more = "" if is_full else " `python -m harness run --preset full` takes more samples."
    return (
        '"Undecided": the samples are too few, or too far apart, to call the ratios of the sentence faster, slower or '
        f"the same.{more}"
    )


def _section(
    experiment: Experiment,
    cells: Sequence[Cell],
    unsure: Mapping[caveats.Key, str],
    prominent: Collection[str],
    shown: _Shown,
) -> str:
    """Return the section of one experiment: finding, question, prominent figures, links, caveats; rows without any."""
    recorded = [cell for cell in rates.current(cells) if cell.experiment == experiment.name]
    pictures, links, left_out, outdated = [], [], [], []
    for figure in experiment.figures:
        path = Path(os.path.relpath(shown.figures / f"{figure.name}.svg", shown.results)).as_posix()
        of = answers.shown(figure, experiment.name, cells)
        if not drawn.is_drawn(shown.figures, figure):
            left_out += [figure.title + doubt] if (doubt := answers.doubt(figure, of)) else []
        elif not drawn.is_current(shown.figures, figure, of):
            outdated.append(figure.title)
        elif figure.name in prominent:
            finding = answers.of_figure(figure, of)
            pictures.append(f"![{finding or figure.title}]({path})")
        else:
            links.append(f"[{figure.title}]({path})")
    rows = tables.rows_of(experiment, [*recorded, *_roofs(experiment, cells)], unsure)
    more = ", ".join([*links, f"[{rates.plural(len(rows), 'cell')}]({CELLS})"])
    known = caveats.of_section(recorded, unsure, _roofs(experiment, cells))
    body = pictures or ([] if links or left_out else [tables.table(experiment, _some(rows))])
    finding = answers.by_name(experiment, cells, answers.with_range)[experiment.name]
    details = [answers.details_of_figure(f, answers.shown(f, experiment.name, cells)) for f in experiment.figures]
    return "\n\n".join(
        [
            f"## {experiment.question}",
            "\n".join(
                [
                    *([f"**{finding}.**"] if finding else []),
                    *(f"{detail}." for detail in details if detail),
                    f"Experiment `{experiment.name}`. See also: {more}."
                    + (f" Not drawn: {', '.join(left_out)}." if left_out else "")
                    + (_told_outdated(experiment, outdated) if outdated else "")
                    + (f" {_folded(known)}" if known else ""),
                ]
            ),
            *body,
        ]
    )


def _told_outdated(experiment: Experiment, titles: Sequence[str]) -> str:
    command = f"`python -m harness plot {experiment.name}`"
    return f" Drawn from other cells, so not shown: {', '.join(titles)} ({command} draws anew)."


def _folded(sentences: Sequence[str]) -> str:
    """Return caveats that a reader unfolds, as one line of HTML, in which Markdown is not read."""
    text = "<br>".join(html.escape(sentence, quote=False) for sentence in sentences)
    for mark, tag in (("**", "b"), ("`", "code")):
        text = re.sub(rf"{re.escape(mark)}(.+?){re.escape(mark)}", rf"<{tag}>\1</{tag}>", text)
    return f"<details><summary>Caveats</summary>{text}</details>"


def _roofs(experiment: Experiment, cells: Sequence[Cell]) -> list[Cell]:
    """Return the roofs that other experiments measured, and earlier runs of this one."""
    of_others = (cell for cell in cells if cell.experiment != experiment.name or not cell.is_current)
    return [cell for cell in of_others if rates.is_roof(cell)]


def _some(rows: Sequence[tables.TableRow]) -> list[tables.TableRow]:
    """Return all rows if they are few, else those with the highest, the middle and the lowest ratio to a reference."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    done = [row for row in rows if row.over_reference and row.cell.contender != row.cell.reference]
    done = sorted(done or [row for row in rows if row.rate], key=lambda row: -_worth(row))
    return [done[index] for index in sorted({0, len(done) // 2, len(done) - 1})] if done else list(rows[:1])


def _worth(row: tables.TableRow) -> float:
    value = row.over_reference or row.rate
    return value.estimate if value else 0.0


def _write_cells(
    path: Path, experiments: Sequence[Experiment], cells: Sequence[Cell], unsure: Mapping[caveats.Key, str]
) -> None:
    """Write what the tables would show of every cell, as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        heads: list[str] = []
        for experiment in experiments:
            recorded = [cell for cell in rates.current(cells) if cell.experiment == experiment.name]
            rows = tables.rows_of(experiment, [*recorded, *_roofs(experiment, cells)], unsure)
            columns = tables.table_columns(experiment, rows)
            columns |= {head: entries or [""] * len(rows) for head, entries in columns.items()}
            if not heads:
                heads = list(columns)
                writer.writerow(["experiment", *heads, "measured", "commit"])
            for row, entries in zip(rows, zip(*columns.values(), strict=True), strict=True):
                writer.writerow([experiment.name, *entries, row.cell.time[:19], row.cell.record.get("commit", "")])


def _prominent(experiments: Sequence[Experiment], cells: Sequence[Cell], figures: Path) -> set[str]:
    """Return the names of the figures that the report shows: those of the highest prominence that say something."""
    there = [
        figure
        for experiment in experiments
        for figure in experiment.figures
        if figure.prominence
        for of in [answers.shown(figure, experiment.name, cells)]
        if drawn.is_current(figures, figure, of) and answers.of_figure(figure, of)
    ]
    return {figure.name for figure in sorted(there, key=lambda figure: -figure.prominence)[:MOST_FIGURES]}
