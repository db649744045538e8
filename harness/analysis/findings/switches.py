"""What switches of single ideas of a ladder gain. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import rates
from harness.experiment import Json
from harness.stats.statistics import Interval
from harness.store.store import Cell


def ablated(
    cells: list[Cell], options: Json
) -> tuple[dict[str, list[Cell]], list[tuple[str, str, Interval]], Interval] | None:
    """Return the cells by rung, each idea with its rung and factor, and the whole step; None if one has no time.

    Parameters
    ----------
    cells : list of Cell
        Cases have an axis ``rung``; those on one thread count.
    options : mapping
        ``steps``: for each idea its name, the rung of its case, the contender without it and the one with it.
        ``whole``: rung, first and last contender of the path.
    """
    by_rung = rates.group(
        (cell for cell in rates.timed(cells) if cell.threads == 1),
        lambda cell: cell.axes.get("rung"),
    )
    steps = [(idea, rung, _factor(by_rung.get(rung, []), off, on)) for idea, rung, off, on in options.get("steps", ())]
    known = [(idea, rung, factor) for idea, rung, factor in steps if factor is not None]
    rung, first, last = options.get("whole", ("", "", ""))
    whole = _factor(by_rung.get(rung, []), first, last)
    return None if whole is None or len(known) < len(steps) else (by_rung, known, whole)


def _factor(cells: Sequence[Cell], off: str, on: str) -> Interval | None:
    """Return the time of the contender `off` over that of `on`, measured in turns, or None."""
    by_name = {cell.contender: cell for cell in cells}
    if off not in by_name or on not in by_name or not rates.in_turns(by_name[off], by_name[on]):
        return None
    return rates.time_ratio(by_name[off], by_name[on])
