"""The regret of ``backend="auto"``: its time over that of the fastest backend that it could have taken. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import conditions, rates, rivals
from harness.experiment import Json
from harness.stats.statistics import Interval, median
from harness.store.store import Cell

# Regrets up to this are as good as none, and up to that ones of which a title speaks as such.
NONE, LITTLE = 1.02, 1.10


def regret(cell: Cell, cells: Sequence[Cell]) -> Interval | None:
    """Return the time of `cell` over that of the fastest other contender of its case; None: there is no other."""
    best = rivals.fastest_other(cell, cells) if cell.is_ok else None
    return None if best is None else rates.time_ratio(cell, best)


def missed(own: Sequence[Cell], cells: Sequence[Cell]) -> list[tuple[Interval, Cell]]:
    """Return the regret of those cells of `own` that did not take the best backend; where one did, nothing is lost."""
    return [(at, c) for c in own if (at := regret(c, cells)) is not None and not _took_the_best(c, cells)]


def finding(cells: list[Cell], options: Json) -> str:
    """Return the regret of the subject: median, worst with its place, and how many cells lose more than a little."""
    own = [cell for cell in rates.contenders(cells) if cell.contender == options["subject"]]
    found = [(at, cell) for cell in own if (at := regret(cell, cells)) is not None]
    if not found:
        return ""
    values, lost = [value.estimate for value, _ in found], missed(own, cells)
    if not lost:
        every = f"all {len(values)} products" if len(values) > 1 else "its product"
        taken = f"{options['subject']} takes the fastest backend for {every}"
        return f"{taken}, at {median(values):.2f} times its time (median)"
    first = f"{options['subject']} takes {median(values):.2f} times the time of the best backend"
    of = f"median of {rates.plural(len(values), 'product')}"
    return f"{first} ({of}){_worst(lost, len(values), cells)}"


def _worst(missed: Sequence[tuple[Interval, Cell]], count: int, cells: Sequence[Cell]) -> str:
    """Return the largest regret that is certainly more than a little; without one the largest of all.

    Of the products, `count` in all, whose best backend the subject `missed`.
    """
    largest, own = max(missed, key=lambda one: one[0].estimate)
    firm = [(at, cell) for at, cell in missed if conditions.is_firm(cell) and at.low > LITTLE]
    if not firm:
        where = "where another was best, " if len(missed) < count else ""
        samples = rates.plural(len(own.all_samples_ns), "sample")
        is_chance = f" (may be chance: {samples})" if largest.estimate > LITTLE else ""
        return f"; {where}at most {largest.estimate:.2f} times{is_chance}"
    at, own = max(firm, key=lambda one: one[0].estimate)
    best = rivals.fastest_other(own, cells)
    place = f"{rates.axis(own, 'setting')}, {rates.axis(own, 'shape')}: {best.contender if best else ''}"
    more = f"; {len(firm)} certainly above {LITTLE:.2f}" if len(firm) > 1 else ""
    return f", at worst {at.estimate:.2f} ({place}){more}"


def _took_the_best(cell: Cell, cells: Sequence[Cell]) -> bool:
    best, taken = rivals.fastest_other(cell, cells), rates.chosen_backend(cell)
    return best is not None and taken != "" and taken == rates.chosen_backend(best)


FINDINGS = {"regret": finding}
