"""Can it be believed: false verdicts, spread between runs of the same cell, flagged cells, and where all comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.analysis import calibration, caveats, conditions, rates
from harness.experiment import content_hash
from harness.machine import Machine
from harness.page.recorded import Recorded
from harness.stats.statistics import median, quantiles
from harness.store import presets
from harness.store.store import Cell

NOT_CALIBRATED = "not calibrated: python -m harness calibrate finds out how often verdicts are false there"


class Spread(NamedTuple):
    """A contender in a case that several runs of the same code have measured."""

    percent: float  # the slowest run's median time over the fastest one's, less 1
    runs: int
    cell: Cell


class Flag(NamedTuple):
    """How many cells are flagged for something."""

    name: str
    cells: int
    of: int
    words: str  # with which the table finds them; empty: it has no word for it


class Belief(NamedTuple):
    """What speaks for and against the numbers of one machine."""

    machine: str
    verdicts: list[str]  # of A/A and planted cells, a sentence each
    spreads: list[Spread]  # the widest first
    spread: str  # them in a sentence, or empty
    flags: list[Flag]
    facts: dict[str, str]  # provenance


def belief(recorded: Recorded) -> Belief:
    """Return what speaks for and against the numbers of `recorded`."""
    wide, current = spreads(recorded.folder), rates.current(recorded.cells)
    facts = _facts(recorded.machine, current)
    return Belief(recorded.name, _verdicts(recorded.folder), wide, _sentence(wide), _flags(current), facts)


def spreads(folder: Path) -> list[Spread]:
    """Return the cells that several runs of the same source have measured below `folder`, the widest spread first."""
    runs: dict[str, dict[str, Cell]] = {}
    for records in presets.stores_of(folder.parent, folder.name):
        for cell in records.every_cell():
            if cell.is_ok and not rates.is_roof(cell):
                same = [cell.experiment, cell.preset, cell.case, cell.contender, cell.record.get("source", "")]
                runs.setdefault(content_hash(same), {})[cell.run] = cell
    found = []
    for cells in runs.values():
        times = [cell.median_ns for cell in cells.values()]
        if len(times) > 1:
            found.append(Spread(100 * (max(times) / min(times) - 1), len(times), next(iter(cells.values()))))
    return sorted(found, key=lambda spread: -spread.percent)


def _sentence(found: Sequence[Spread]) -> str:
    if not found:
        return ""
    values = [spread.percent for spread in found]
    (most,) = quantiles(values, (0.9,))
    return (
        f"{rates.plural(len(found), 'cell')} measured by several runs of the same code: their median times differ by "
        f"{median(values):.1f} % in the middle, by at most {most:.1f} % in nine of ten, by {values[0]:.0f} % at worst"
    )


def _verdicts(folder: Path) -> list[str]:
    summary = calibration.latest(folder)
    if summary is None:
        return [NOT_CALIBRATED]
    names = {field.name for field in dataclasses.fields(calibration.Findings)}
    fields: dict[str, Any] = {name: value for name, value in summary.items() if name in names}
    lines = (line.partition("  ") for line in calibration.sentences(calibration.Findings(**fields)))
    return [f"{head}: {text.strip()}" for head, _, text in lines]


def _flags(cells: Sequence[Cell]) -> list[Flag]:
    timed = rates.timed(cells)
    undecided, few, ratios, *_ = caveats.undecided(cells)
    disturbed = sum(bool(conditions.marks(cell.record)) for cell in timed)
    unmet = sum(bool(caveats.conditions(cell)) for cell in timed)
    flags = [
        Flag("ratio undecided: its interval contains 1", undecided - few, ratios, caveats.EVEN),
        Flag("ratio undecided: few samples", few, ratios, caveats.FEW),
        Flag("fewer samples than asked for", unmet, len(timed), "not met"),
        Flag("throttled or shared machine", disturbed, len(timed), ""),
        Flag("measured by one process", len(rates.one_process(timed)), len(timed), ""),
        Flag("without a time", len(cells) - sum(cell.is_ok for cell in cells), len(cells), ""),
    ]
    return [flag for flag in flags if flag.of]


def _facts(machine: Machine, cells: Sequence[Cell]) -> dict[str, str]:
    facts = {
        "processor": f"{machine.cpu}, {rates.plural(machine.cores, 'core')}",
        "vector extensions": " ".join(machine.simd),
        "GPU": ", ".join(f"{name} {value}" for name, value in machine.gpu.items()),
        "system": f"{machine.system}, Python {machine.python}",
        "packages": ", ".join(f"{name} {version}" for name, version in machine.packages.items()),
        "measured": " to ".join(dict.fromkeys(_ends(cell.time[:10] for cell in cells))),
        "presets": ", ".join(sorted({cell.preset for cell in cells})),
        "commits": ", ".join(sorted({str(cell.record.get("commit", "")) for cell in cells})),
        "code": caveats.of_code(cells),
    }
    return {name: value for name, value in facts.items() if value}


def _ends(values: Iterable[str]) -> tuple[str, str]:
    ordered = sorted(values)
    return ordered[0], ordered[-1]
