"""The end of a machine's report: what was not measured and why, what has no answer, and the calibration of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.analysis import answers, calibration, caveats, peaks, rates
from harness.experiment import Experiment
from harness.store.store import Cell


def without_times(experiments: Sequence[Experiment], cells: Sequence[Cell]) -> dict[str, str]:
    """Return by experiment without any time why: "Not possible here (CuPy is not installed)", or "Failed (...)"."""
    reasons = {}
    for experiment in experiments:
        own = rates.contenders(cell for cell in cells if cell.experiment == experiment.name)
        if own and not any(cell.is_ok for cell in own):
            failed = [cell for cell in own if cell.status == "failed"]
            reason = (failed or own)[0].reason.strip().partition("\n")[0]
            reasons[experiment.name] = f"{'Failed' if failed else 'Not possible here'} ({reason})"
    return reasons


def unanswered(experiments: Sequence[Experiment], cells: Sequence[Cell]) -> list[str]:
    """Return in a sentence what was measured without an answer, and what was missing for one; mostly nothing."""
    names = []
    for experiment in experiments:
        if not answers.of_experiment(experiment, cells):
            own = [cell for cell in cells if cell.experiment == experiment.name and cell.status == "missing"]
            missing = ", ".join(dict.fromkeys(cell.contender for cell in own))
            names.append(experiment.name + (f" (missing: {missing})" if missing else ""))
    return [f"Measured without an answer: {', '.join(names)}."] if names else []


def idle(absent: Sequence[str], reasons: Mapping[str, str]) -> list[str]:
    """Return in sentences which experiments have no times: not run, not possible, or failed."""
    return [
        *([f"Not run: {', '.join(absent)}."] if absent else []),
        *(f"{reason}: {', '.join(names)}." for reason, names in rates.group(reasons, reasons.__getitem__).items()),
    ]


def section(cells: Sequence[Cell], more: Sequence[str], results: Path, mark: str) -> str:
    """Return the caveats of all experiments together, then `more` of them."""
    by_status = rates.group(cells, lambda cell: cell.status)
    tally = ", ".join(f"{len(alike)} {status}" for status, alike in by_status.items())
    lines = [
        f"{rates.plural(len(cells), 'cell')}: {tally}.",
        *_missed_peaks(cells),
        *_calibration(results),
        *(f"{note}." for note in (caveats.of_code(cells), mark) if note),
        *more,
    ]
    return "## What to keep in mind\n\n" + "\n".join(f"- {line}" for line in lines)


def _missed_peaks(cells: Sequence[Cell]) -> list[str]:
    """Return in a sentence which peaks products have beaten; mostly nothing."""
    missed = {
        f"{cell.axes['semiring']} {cell.axes['dtype']} on {rates.plural(cell.threads, 'thread')}": words
        for cell in cells
        for words in cell.facts.get(peaks.MISSED, {}).values()
    }
    described = "; ".join(f"{peak} ({words})" for peak, words in missed.items())
    return [f"Peaks that were missed, and are not used: {described}."] if missed else []


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
