"""The regret of ``backend="auto"``: its time over that of the fastest backend that it could have taken. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import rates, rivals
from harness.stats.statistics import Interval
from harness.store.store import Cell


def regret(cell: Cell, cells: Sequence[Cell]) -> Interval | None:
    """Return the time of `cell` over that of the fastest other contender of its case; None: there is no other."""
    best = rivals.fastest_other(cell, cells) if cell.is_ok else None
    return None if best is None else rates.time_ratio(cell, best)


def missed(own: Sequence[Cell], cells: Sequence[Cell]) -> list[tuple[Interval, Cell]]:
    """Return the regret of those cells of `own` that did not take the best backend; where one did, nothing is lost."""
    return [(at, c) for c in own if (at := regret(c, cells)) is not None and not _took_the_best(c, cells)]


def _took_the_best(cell: Cell, cells: Sequence[Cell]) -> bool:
    best, taken = rivals.fastest_other(cell, cells), rates.chosen_backend(cell)
    return best is not None and taken != "" and taken == rates.chosen_backend(best)
