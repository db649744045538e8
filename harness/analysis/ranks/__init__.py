"""Products on ranks beside one rank and beside the model, and the stages of their calls. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.analysis import rates
from harness.analysis.conditions import reading
from harness.analysis.ranks.model import FROM_ROOT, decomposition, modelled_s, ranks_of, root_s
from harness.stats.statistics import Interval
from harness.store.store import Cell

TOLERANCE = 15.0  # percent by which a model may be off that a grid is chosen by

# Readings of a cell that are no stages.
_NO_STAGES = ("preempted", "cpu_share", "mhz")


class RankPoint(NamedTuple):
    """How much faster than one rank `ranks` of them were, were to be by the model, and may be at most."""

    cell: Cell
    alone: Cell  # on one rank
    ranks: int
    measured: Interval
    modelled: float  # NaN without a measured rate or link
    root_limit: float  # by what rank 0 sends and receives, if the data lie there; else infinite


def products(cells: list[Cell]) -> dict[str, list[Cell]]:
    """Return the cells of each product by its name, sizes those at one rank, each with the links that were measured."""
    links = [cell for cell in cells if rates.is_roof(cell)]
    return {title: [*own, *links] for title, own in rates.group(rates.contenders(cells), _product).items()}


def _product(cell: Cell) -> str:
    """Return what a panel shows: a size, or on GPUs all of them, each a method of its own."""
    place = rates.words(cell, "device") if rates.is_on_device(cell) else size_of(cell)
    return f"{rates.axis(cell, 'problem')}, {place}"


def size_of(cell: Cell) -> str:
    """Return the size at one rank, "n=512" or "512 x 512 x 64"."""
    sizes = [rates.axis(cell, name) for name in "mnk"]
    return f"n={sizes[0]}" if len(set(sizes)) == 1 else " x ".join(map(str, sizes))


def curves(cells: list[Cell]) -> dict[str, list[RankPoint]]:
    """Return, by method, the points of the cases of a product whose contenders are numbers of ranks from 1 on."""
    found: dict[str, list[RankPoint]] = {}
    for own in rates.group(rates.contenders(cells), lambda c: (c.case, c.run)).values():
        done = sorted((cell for cell in own if cell.is_ok), key=ranks_of)
        if done and ranks_of(done[0]) == 1:
            found[str(rates.axis(done[0], "method"))] = [_point(cell, done[0], cells) for cell in done]
    return found


def _point(cell: Cell, one_rank: Cell, cells: list[Cell]) -> RankPoint:
    work = cell.facts["operations"] / one_rank.facts["operations"]
    alone_s, ranks = work * one_rank.median_ns * 1e-9, ranks_of(cell)
    sent_s = root_s(cell, cells) if ranks > 1 else None
    limit = min(ranks, alone_s / sent_s) if sent_s and math.isfinite(sent_s) else math.inf
    modelled = alone_s / modelled_s(cell, one_rank, cells)
    return RankPoint(cell, one_rank, ranks, rates.speed_up(cell, one_rank), modelled, limit)


def model_errors(cells: list[Cell]) -> list[tuple[Cell, float]]:
    """Return each cell of several ranks with the time of the model over the measured one, minus 1, in percent."""
    links = [cell for cell in cells if rates.is_roof(cell)]
    return [
        (point.cell, 100 * (point.measured.estimate / point.modelled - 1))
        for mode in rates.group(rates.contenders(cells), lambda cell: cell.axes.get("mode")).values()
        for own in products([*mode, *links]).values()
        for points in curves(own).values()
        for point in points
        if point.ranks > 1 and math.isfinite(point.modelled)
    ]


def unsteadiness(cells: list[Cell]) -> float | None:
    """Return by how much a product on one rank took longer in one case than in another, at most [percent].

    All strategies but that from rank 0 compute alike on one rank. None if no product was measured twice.
    """
    alone = [c for c in rates.timed(cells) if ranks_of(c) == 1 and decomposition(c) is not None]
    own = [cell for cell in alone if cell.arguments["backend"] != FROM_ROOT]
    times = [[cell.median_ns for cell in alike] for alike in rates.group(own, _problem).values()]
    return max((100 * (max(each) / min(each) - 1) for each in times if len(each) > 1), default=None)


def _problem(cell: Cell) -> tuple[object, ...]:
    return tuple(sorted(cell.facts["problem"].items())), rates.axis(cell, "device")


def warm_stages(cell: Cell) -> dict[str, float]:
    """Return milliseconds by stage of a warm call; they add up to the median time. Empty if stages were not read."""
    names = [name for name in cell.record.get("readings") or {} if name not in _NO_STAGES]
    medians = {name: value / 1e6 for name in names if (value := reading(cell, name))}
    if "compute" not in medians:
        return {}
    known = {name: value for name, value in medians.items() if name != "rest"}
    return {**known, "rest": max(0.0, cell.median_ns / 1e6 - sum(known.values()))}


def first_stages(cell: Cell) -> dict[str, float]:
    """Return milliseconds by stage of the first call, the start of the ranks included; empty if it was not timed."""
    return {stage: 1e3 * seconds for stage, seconds in (cell.facts.get("first_call_s") or {}).items()}
