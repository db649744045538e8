"""What switches of single ideas, and other orders in memory, have found: sentences for titles of figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.analysis import rates
from harness.experiment import Json
from harness.stats.statistics import Interval
from harness.store.store import Cell

# The product of the factors agrees with the whole step up to this part of it.
AGREES = 0.1
# An idea whose factors in two rungs differ by more than this interacts with other ideas of theirs.
DIFFERS = 1.25


def ablation(cells: list[Cell], options: Json) -> str:
    """Return the gain of all ideas, and the largest of one alone.

    Parameters
    ----------
    cells : list of Cell
        Cases have an axis ``rung``; those on one thread count.
    options : mapping
        ``steps``: for each idea its name, the rung of its case, the contender without it and the one with it.
        ``whole``: rung, first and last contender of the path.
    """
    found = ablated(cells, options)
    if found is None:
        return ""
    _, known, whole = found
    idea, _, most = max(known, key=lambda entry: entry[2].estimate)
    first = f"{options['whole'][-1]} is {whole.estimate:.3g} times as fast as the definition"
    return f"{first}, most by {idea} ({most.estimate:.2g} times)"


def factors(cells: list[Cell], options: Json) -> str:
    """Return whether the factors multiply to the gain of all, which ideas cost, and which depends on others most.

    Options are as of `ablation`.
    """
    found = ablated(cells, options)
    if found is None:
        return ""
    by_rung, known, whole = found
    product = Interval(*(math.prod(bounds) for bounds in zip(*(factor for _, _, factor in known), strict=True)))
    costs = [f"{idea} ({1 / factor.estimate:.2g} times)" for idea, _, factor in known if factor.high < 1]
    slower = f"slower by {' and '.join(costs)}" if costs else ""
    first = f"The factors of all ideas {_relation(product, whole)}"
    return "; ".join(filter(None, [first, slower, _interaction(by_rung, known)]))


def ablated(
    cells: list[Cell], options: Json
) -> tuple[dict[str, list[Cell]], list[tuple[str, str, Interval]], Interval] | None:
    """Return the cells by rung, each idea with its rung and factor, and the whole step; None if one has no time."""
    by_rung = rates.group(
        (cell for cell in rates.contenders(cells) if cell.is_ok and cell.threads == 1),
        lambda cell: cell.axes.get("rung"),
    )
    steps = [(idea, rung, _factor(by_rung.get(rung, []), off, on)) for idea, rung, off, on in options.get("steps", ())]
    known = [(idea, rung, factor) for idea, rung, factor in steps if factor is not None]
    rung, first, last = options.get("whole", ("", "", ""))
    whole = _factor(by_rung.get(rung, []), first, last)
    return None if whole is None or len(known) < len(steps) else (by_rung, known, whole)


def _relation(product: Interval, whole: Interval) -> str:
    """Return whether factors with this product make the whole step, and if only their spread allows it."""
    if abs(product.estimate / whole.estimate - 1) <= AGREES:
        return f"multiply to {product.estimate:.3g}"
    if product.low <= whole.high and whole.low <= product.high:
        return f"multiply to {product.estimate:.3g}, within the spread of the samples"
    return f"do not multiply: their product is {product.estimate:.3g}"


def _interaction(by_rung: dict[str, list[Cell]], factors: Sequence[tuple[str, str, Interval]]) -> str:
    """Return which idea, switched off in another rung than its own, has the most different factor there."""
    found = []
    for idea, own, factor in factors:
        for rung, cells in by_rung.items():
            other = _factor(cells, f"no {idea}", rung)
            if rung != own and other is not None:
                apart = abs(math.log(other.estimate / factor.estimate))
                found.append((apart, idea, own, factor.estimate, rung, other.estimate))
    if not found or (most := max(found))[0] <= math.log(DIFFERS):
        return ""
    _, idea, own, here, rung, there = most
    return f"{idea} gains {here:.2g} times in {own}, {there:.2g} times in {rung}: it depends on the other ideas"


def _factor(cells: Sequence[Cell], off: str, on: str) -> Interval | None:
    """Return the time of the contender `off` over that of `on`, measured in turns, or None."""
    by_name = {cell.contender: cell for cell in cells}
    if off not in by_name or on not in by_name or not rates.in_turns(by_name[off], by_name[on]):
        return None
    return rates.time_ratio(by_name[off], by_name[on])


def orders(cells: list[Cell], options: Json) -> str:
    """Return the speed of the best and of the worst order of the loops over that of the definition, the reference."""
    found = [
        (rates.speed_up(cell, reference).estimate, cell.contender)
        for cell in rates.contenders(cells)
        if cell.is_ok and (reference := rates.reference_of(cell, cells)) is not None and reference is not cell
    ]
    if not found:
        return ""
    (most, best), (least, worst) = max(found), min(found)
    first = f"The order {_in_brackets(best)} has {most:.2f} times the speed of the definition"
    return first if best == worst else f"{first}, {_in_brackets(worst)} {least:.2f} times"


def _in_brackets(order: str) -> str:
    """Return "kij (rank-1 updates)" of "kij: rank-1 updates"."""
    loops, colon, what = order.partition(": ")
    return f"{loops} ({what})" if colon else order


def memory_orders(cells: list[Cell], options: Json) -> str:
    """Return the most that another order costs the subject, and who loses and who gains most by one."""
    found = [
        (rates.time_ratio(cell, reference).estimate, str(rates.axis(cell, "backend")), cell.contender)
        for cell in rates.contenders(cells)
        if cell.is_ok and (reference := rates.reference_of(cell, cells)) is not None and reference is not cell
    ]
    own = [entry for entry in found if entry[1] == options.get("subject")] or found
    if not own:
        return ""
    ratio, who, order = max(own)
    sentence = f"{who} takes at most {ratio:.2f} times as long in another order ({_brief(order)})"
    if ratio <= 1:
        sentence = f"{who} takes no longer in another order"
    (most, loser, worst), (least, winner, best) = max(found), min(found)
    sentence += f", {loser} {most:.2f} times ({_brief(worst)})" if loser != who else ""
    return sentence + (f"; {winner} gains most, {1 / least:.2f} times ({_brief(best)})" if least < 1 else "")


def _brief(order: str) -> str:
    """Return an order without the letters of BLAS for it: "A by columns" of "TN: A by columns"."""
    return order.rpartition(": ")[2]


DETAILS = {"ablation": factors}
FINDINGS = {"ablation": ablation, "orders": orders, "memory_orders": memory_orders}
