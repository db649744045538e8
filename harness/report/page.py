"""The report of a machine as a page, and short tables between markers in README.md, from stored results alone.

The page is ``<results>/<machine slug>/report.md``; it shows the figures by their relative path, so it reads well on a
repository's page. Nothing is left out. Cells without a time, and doubts about times, stand below the figures of their
experiment, in their rows of the table, and within the figures.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.analysis import calibration, caveats, rates
from harness.errors import HarnessError
from harness.experiment import Experiment
from harness.machine import Machine
from harness.report.tables import markdown_table, short_table, table
from harness.store.schema import UNKNOWN
from harness.store.store import Cell

PAGE = "report.md"

HOW_TO_READ = """\
Values are medians with their 95 % intervals in brackets (with fewer than 6 samples: the range). Contenders of a case
were timed in turns, so ratios are medians of paired ratios. Percent of peak is of the peak measured here for the same
semiring, dtype and threads; on a GPU it is that of the SIMT units, which tensor cores exceed. Gop/s counts two
operations a pair, one (x) and one (+).

Below the figures of an experiment stands what they cannot show, and of how many cells; the last column of its table
says of which. *Unsure*: neither faster, slower nor the same as the reference, and the interval of the ratio contains 1;
*few samples*: it does not, but may be chance. Verdicts are corrected for the number of cells of the experiment."""

# A longer table is folded: the figure shows it better.
LONGEST_OPEN_TABLE = 24


def write(
    experiments: Iterable[Experiment],
    cells: Sequence[Cell],
    machine: Machine,
    figures: Path,
    results: Path,
    *,
    mark: str = "",
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
    mark : str
        A sentence about the code that makes the page.
    """
    parts = [_head(cells, machine)]
    absent = []
    for experiment in experiments:
        recorded = [cell for cell in cells if cell.experiment == experiment.name]
        if recorded:
            parts.append(_section(experiment, recorded, cells, figures, results))
        else:
            absent.append(experiment.name)
    parts.append(_caveats(cells, absent, results, mark))
    page = results / PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def write_tables(
    page: Path, experiments: Iterable[Experiment], cells: Sequence[Cell], slug: str = "", *, mark: str = ""
) -> None:
    """Rewrite the tables in `page` between the markers of an experiment, each with its first case and no intervals.

    Tables of experiments without cells stay as they are.

    Parameters
    ----------
    page : Path
    experiments : iterable of Experiment
    cells : sequence of Cell
        Of one machine.
    slug : str
        Only markers that name this machine, ``<!-- ladder of SLUG:begin -->``; empty: those that name none.
    mark : str
        A sentence about the code that makes the tables. It stands below each, with `caveats.of_code`.

    Raises
    ------
    HarnessError
        If a marker has no counterpart.
    """
    text, measured = page.read_text(encoding="utf-8"), {cell.experiment for cell in cells}
    for experiment in experiments:
        marker = f"{experiment.name} of {slug}" if slug else experiment.name
        if experiment.name in measured and f"<!-- {marker}:" in text:
            recorded = [cell for cell in cells if cell.experiment == experiment.name]
            notes = [f"*{note}.*" for note in (caveats.of_code(recorded), mark) if note]
            text = update_markers(text, marker, "\n\n".join([short_table(experiment, cells), *notes]))
    page.write_text(text, encoding="utf-8")


def update_markers(text: str, name: str, content: str) -> str:
    """Return `text` with `content` in place of the text between ``<!-- name:begin -->`` and ``<!-- name:end -->``.

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
    """Return title, machine, and how to read the numbers."""
    days = sorted({cell.time[:10] for cell in cells})
    presets = sorted({cell.preset for cell in cells})
    commits = sorted({str(cell.record.get("commit", UNKNOWN)) for cell in cells})
    caches = ", ".join(
        f"{name} {size >> 10} KiB"
        for name, size in (("L1d", machine.l1d), ("L2", machine.l2), ("L3", machine.l3))
        if size
    )
    facts = [
        ("processor", f"{machine.cpu}, {rates.plural(machine.cores, 'core')}"),
        ("data caches", caches or "not known"),
        ("vector extensions", " ".join(machine.simd) or "not known"),
        *([("GPU", _gpu(machine.gpu))] if machine.gpu else []),
        ("system", f"{machine.system}, Python {machine.python}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in machine.packages.items())),
        ("measured", f"{' to '.join(days[:: max(1, len(days) - 1)])}, preset {', '.join(presets)}"),
        ("code", ", ".join(commits)),
    ]
    return "\n\n".join(
        [
            f"# Results: {machine.cpu}, {rates.plural(machine.cores, 'core')}",
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
    name = facts.get("name", "not known")
    return ", ".join([f"{facts['count']} x {name}" if "count" in facts else name, *details])


def _section(
    experiment: Experiment, recorded: Sequence[Cell], cells: Sequence[Cell], figures: Path, results: Path
) -> str:
    """Return the section of one experiment: question, figures, caveats, and the table."""
    shown = [
        f"![{figure.title}]({Path(os.path.relpath(figures / f'{figure.name}.svg', results)).as_posix()})"
        for figure in experiment.figures
        if (figures / f"{figure.name}.svg").exists()
    ]
    roofs = [cell for cell in cells if cell.experiment != experiment.name and rates.is_roof(cell)]
    unsure = caveats.doubts(recorded)
    body = table(experiment, [*recorded, *roofs], unsure)
    count = len(rates.contenders(recorded))
    if count > LONGEST_OPEN_TABLE:
        body = f"<details><summary>All {count} cells</summary>\n\n{body}\n\n</details>"
    known = "\n".join(f"- {line}" for line in caveats.of_section(recorded, unsure))
    return "\n\n".join([f"## {experiment.name}", experiment.question, *shown, *([known] if known else []), body])


def _caveats(cells: Sequence[Cell], absent: Sequence[str], results: Path, mark: str) -> str:
    """Return the caveats of all experiments together."""
    by_status = rates.group(cells, lambda cell: cell.status)
    tally = ", ".join(f"{len(alike)} {status}" for status, alike in by_status.items())
    lines = [
        f"{rates.plural(len(cells), 'cell')}: {tally}.",
        *_calibration(results),
        *(f"{note}." for note in (caveats.of_code(cells), mark) if note),
        *([f"Not run: {', '.join(absent)}."] if absent else []),
    ]
    return "## What to keep in mind\n\n" + "\n".join(f"- {line}" for line in lines)


def _calibration(results: Path) -> list[str]:
    """Return the last calibration of verdicts on this machine in a sentence."""
    summary = calibration.latest(results)
    if not summary:
        return ["Not calibrated: `python -m harness calibrate` finds out how often verdicts are false on this machine."]
    rate, low, high = (100 * share for share in summary["false_rate"])
    usual, most = (100 * change for change in summary["detectable"])
    processes = rates.plural(summary["processes"], "process")
    false = (
        f"{summary['false']} of {summary['cells']} cells that compare a backend with itself are called faster or slower"
    )
    change = f"a change of {usual:.1f} % is found in the median cell, of {most:.1f} % in nine cells of ten"
    return [f"Calibrated, {processes} of each contender: {false}, {rate:.1f} % [{low:.1f}, {high:.1f}]; {change}."]
