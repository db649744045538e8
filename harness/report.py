"""What was found, from stored results alone: a page per machine, and tables between markers in README.md.

The page is ``<results>/<machine slug>/report.md``; it shows the figures by their relative path, so it reads well on a
repository's page. Nothing that has no time is left out: it is listed with its reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness import derived
from harness.errors import HarnessError
from harness.experiment import Experiment
from harness.machine import Machine
from harness.store import Cell
from harness.tables import markdown_table, table

PAGE = "report.md"

HOW_TO_READ = """\
Values are medians with their 95 % intervals in brackets (with fewer than 6 samples: the range). Contenders of a case
were timed in turns, so ratios are medians of paired ratios. Percent of peak is of the peak measured here for the same
semiring, dtype and threads. Gop/s counts two operations a pair, one (x) and one (+)."""

NOT_REPLICATED = "what differs from process to process is not in their intervals"

# A longer table is folded: the figure says it better.
LONGEST_OPEN_TABLE = 24


def write(
    experiments: Iterable[Experiment], cells: Sequence[Cell], machine: Machine, figures: Path, results: Path
) -> Path:
    """Write the page of one machine from its cells, and return where it is.

    Parameters
    ----------
    experiments : iterable of Experiment
        In the order of the page; those without cells are named at its end.
    cells : sequence of Cell
        Of one preset.
    machine : Machine
    figures : Path
        Folder of this machine's figures; those that are there are shown.
    results : Path
        Folder of this machine's results; the page goes there.
    """
    parts = [_head(cells, machine)]
    absent = []
    for experiment in experiments:
        own = [cell for cell in cells if cell.experiment == experiment.name]
        if own:
            parts.append(_section(experiment, own, cells, figures, results))
        else:
            absent.append(experiment.name)
    parts.append(_caveats(cells, absent))
    page = results / PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def write_tables(page: Path, experiments: Iterable[Experiment], cells: Sequence[Cell]) -> None:
    """Rewrite the tables in `page` that stand between the markers of an experiment.

    Raises
    ------
    HarnessError
        If a marker has no counterpart.
    """
    text = page.read_text(encoding="utf-8")
    for experiment in experiments:
        if f"<!-- {experiment.name}:" in text:
            text = update_markers(text, experiment.name, table(experiment, cells))
    page.write_text(text, encoding="utf-8")


def update_markers(text: str, name: str, content: str) -> str:
    """Return `text` with what stands between ``<!-- name:begin -->`` and ``<!-- name:end -->`` replaced by `content`.

    Raises
    ------
    HarnessError
        If the two markers do not stand in `text` exactly once, in this order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise HarnessError(
            f"the markers of {name!r} are not in place",
            expected=f"{begin} and then {end}, once each",
            got=f"{text.count(begin)} and {text.count(end)} of them",
        )
    return re.sub(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{content.strip()}\n{end}", text, flags=re.DOTALL
    )


def _head(cells: Sequence[Cell], machine: Machine) -> str:
    """Return title, machine, and how the numbers are to be read."""
    days = sorted({cell.time[:10] for cell in cells})
    presets = sorted({cell.preset for cell in cells})
    commits = sorted({str(cell.record["commit"]) for cell in cells if cell.record.get("commit")})
    caches = ", ".join(
        f"{name} {size >> 10} KiB"
        for name, size in (("L1d", machine.l1d), ("L2", machine.l2), ("L3", machine.l3))
        if size
    )
    facts = [
        ("processor", f"{machine.cpu}, {derived.plural(machine.cores, 'core')}"),
        ("data caches", caches or "not known"),
        ("vector extensions", " ".join(machine.simd) or "not known"),
        ("system", f"{machine.system}, Python {machine.python}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in machine.packages.items())),
        ("measured", f"{' to '.join(days[:: max(1, len(days) - 1)])}, preset {', '.join(presets)}"),
        ("code", ", ".join(commits) or "not under version control"),
    ]
    return "\n\n".join(
        [
            f"# Results: {machine.cpu}, {derived.plural(machine.cores, 'core')}",
            markdown_table(["what", "value"], facts),
            HOW_TO_READ,
        ]
    )


def _section(experiment: Experiment, own: Sequence[Cell], cells: Sequence[Cell], figures: Path, results: Path) -> str:
    """Return what one experiment found: question, figures, table, and what has no time."""
    shown = [
        f"![{figure.title}]({Path(os.path.relpath(figures / f'{figure.name}.svg', results)).as_posix()})"
        for figure in experiment.figures
        if (figures / f"{figure.name}.svg").exists()
    ]
    body = table(experiment, [*own, *(cell for cell in cells if cell not in own and derived.is_roof(cell))])
    count = sum(not derived.is_roof(cell) for cell in own)
    if count > LONGEST_OPEN_TABLE:
        body = f"<details><summary>All {count} cells</summary>\n\n{body}\n\n</details>"
    return "\n\n".join([f"## {experiment.name}", experiment.question, *shown, body, *_absences(own)])


def _absences(cells: Sequence[Cell]) -> list[str]:
    """Return a list of everything that has no time, with the reason, if there is any."""
    lines = []
    for status, reason, own in derived.not_measured(cells):
        who = ", ".join(dict.fromkeys(cell.contender for cell in own))
        lines.append(f"- {status}, {derived.plural(len(own), 'cell')}: {who}: {reason}")
    return ["Without a time:\n\n" + "\n".join(lines)] if lines else []


def _caveats(cells: Sequence[Cell], absent: Sequence[str]) -> str:
    """Return what a careful reader has to know of all experiments together."""
    unmet = [cell for cell in cells if cell.is_ok and cell.record.get("unmet")]
    alone = derived.one_process(cells)
    timed = sum(cell.is_ok for cell in cells)
    by_experiment = derived.group(unmet, lambda cell: (cell.experiment, str(cell.record["unmet"])))
    by_status = derived.group(cells, lambda cell: cell.status)
    tally = ", ".join(f"{len(own)} {status}" for status, own in by_status.items())
    lines = [
        f"- {derived.plural(len(cells), 'cell')}: {tally}.",
        f"- One process: {len(alone)} of {derived.plural(timed, 'timed cell')}; {NOT_REPLICATED}.",
        *(
            f"- Budget not met, {experiment}: {reason} ({derived.plural(len(own), 'cell')})"
            for (experiment, reason), own in by_experiment.items()
        ),
        *([f"- Not run: {', '.join(absent)}."] if absent else []),
    ]
    return "## What to keep in mind\n\n" + "\n".join(lines)
