"""The regret of ``backend="auto"``: its time over that of the fastest backend that it could have taken. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import rates
from harness.experiment import Json
from harness.stats.statistics import Interval, median
from harness.store.store import Cell

# Regrets up to this are as good as none, and up to that ones of which a title speaks as such.
NONE, LITTLE = 1.02, 1.10


def regret(cell: Cell, cells: Sequence[Cell]) -> Interval | None:
    """Return the time of `cell` over that of the fastest other contender of its case; None: there is no other."""
    best = rates.fastest_peer(cell, cells) if cell.is_ok else None
    return None if best is None else rates.time_ratio(cell, best)


def finding(cells: list[Cell], options: Json) -> str:
    """Return the regret of the subject: median, worst with its place, and how many cells lose more than a little."""
    own = [cell for cell in rates.contenders(cells) if cell.contender == options["subject"]]
    found = [(at.estimate, cell) for cell in own if (at := regret(cell, cells)) is not None]
    if not found:
        return ""
    worst, where = max(found, key=lambda one: one[0])
    best = rates.fastest_peer(where, cells)
    assert best is not None
    values = [value for value, _ in found]
    lost = sum(value > LITTLE for value in values)
    few = f"; {lost} above {LITTLE:.2f}" if lost > 1 else ""
    place = f"{rates.axis(where, 'setting')}, {rates.axis(where, 'shape')}"
    return (
        f"{options['subject']} takes {median(values):.2f} times the time of the best backend in the median of "
        f"{len(values)} products, {worst:.2f} at worst ({place}: {best.contender}){few}"
    )


FINDINGS = {"regret": finding}
