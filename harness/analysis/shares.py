"""Shares of an algorithm's time that products take: which stored ones hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from harness.analysis import rates
from harness.experiment import Json
from harness.store.store import Cell

# A share is of a run that waits for each product. If that took more than this many times a plain run, what it spent
# its time on is not what a plain run spends it on.
MOST_OF_A_RUN = 1.5

# Of so many sizes that are left out each is named.
MOST_NAMED = 3


def share(cell: Cell) -> float | None:
    """Return the part of its time that `cell` spends in products; None if nothing, or nothing that holds, is stored."""
    stored = cell.facts.get("share")
    total_ns = 1e9 * sum(cell.facts.get("seconds", {}).values())
    return None if stored is None or total_ns > MOST_OF_A_RUN * cell.median_ns else float(stored)


def of_slow_runs(cells: Iterable[Cell]) -> tuple[int, int]:
    """Return how many of the stored shares are of runs that were too slow to hold, and how many there are."""
    slow, stored = _slow(cells)
    return len(slow), len(stored)


def _slow(cells: Iterable[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Return the cells whose stored share does not hold, and all that have one."""
    stored = [cell for cell in rates.timed(cells) if "share" in cell.facts]
    return [cell for cell in stored if share(cell) is None], stored


def left_out(cells: list[Cell], options: Json) -> str:
    """Return which stored shares a figure does not show, by contender and the axis of the option ``x``, and why."""
    slow, stored = _slow(cells)
    if not slow:
        return ""
    names = []
    for name, own in rates.group(slow, lambda cell: cell.contender).items():
        values = list(dict.fromkeys(str(rates.axis(cell, options["x"])) for cell in own))
        few = len(values) <= MOST_NAMED
        names.append(f"{name} at " + (f"{options['x']}={', '.join(values)}" if few else f"{len(values)} sizes"))
    reason = f"waiting for each product made the run more than {MOST_OF_A_RUN:g} times as long"
    return f"Parts of the time left out, {len(slow)} of {len(stored)}: {reason} ({'; '.join(names)})"
