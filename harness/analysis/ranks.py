"""The model of distributed products beside what was measured: local rate and link from stored cells. Pure.

    T(P) = pairs of the largest block / rate of one rank + bytes received / bandwidth + messages x latency + a command
    data on rank 0: what rank 0 scatters and collects is added; by itself it bounds the speed-up

The rate is that of the products of one rank alone, and a command is what else a call takes there. Bandwidth and latency
are those of as many ranks, all gathering, or all reducing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from harness.analysis import rates
from harness.analysis.conditions import reading
from harness.distributed.grid import BLOCKS, FACES, Decomposition, Grid, root_bound
from harness.distributed.links import Link
from harness.distributed.model import Rates, predict
from harness.stats.statistics import Interval
from harness.store.store import Cell

FROM_ROOT = "dist-root"
TOLERANCE = 15.0  # percent by which a model may be off that a grid is chosen by
LAYOUTS = {layout.name: layout for layout in (BLOCKS, FACES)}

# Readings of a cell that are no stages.
_NO_STAGES = ("preempted", "cpu_share", "mhz")


class RankPoint(NamedTuple):
    """How much faster than one rank `ranks` of them were, were to be by the model, and may be at most."""

    cell: Cell
    ranks: int
    measured: Interval
    modelled: float  # NaN without a measured rate or link
    root_limit: float  # by the link of rank 0, if the data lie there; else infinite


def ranks_of(cell: Cell) -> int:
    """Return on how many ranks `cell` computed; of a backend without ranks its threads."""
    return int(cell.arguments.get("parameters", {}).get("ranks", cell.threads))


def decomposition(cell: Cell) -> Decomposition | None:
    """Return who computed which part of `cell`; None of a backend without ranks."""
    if "grid" not in cell.facts:
        return None
    problem, layout = cell.facts["problem"], LAYOUTS[cell.facts["layout"]]
    return Decomposition(problem["m"], problem["n"], problem["k"], Grid.parse(cell.facts["grid"]), layout)


def local_rate(one_rank: Cell) -> float | None:
    """Return the pairs in a second of the products of one rank, or None if its stages were not read."""
    compute_ns = reading(one_rank, "compute")
    return float(one_rank.facts["operations"]) / 2 / compute_ns * 1e9 if compute_ns else None


def word_bytes(cell: Cell) -> int:
    """Return the bytes of an element of what `cell` computes."""
    return int("".join(filter(str.isdigit, str(cell.facts["problem"]["dtype"])))) // 8


def link(cells: Iterable[Cell], ranks: int, device: str | None = None) -> Link | None:
    """Return the measured link between `ranks` ranks on a device, of the cells that measured it; None without them.

    Older results have no cell that reduces: the rule of `Link` stands for it.
    """
    measured = {
        c.axes["link"]: c
        for c in cells
        if c.axes.get("role") == rates.LINK and c.is_ok and ranks_of(c) == ranks and rates.axis(c, "device") == device
    }
    stages = {"bandwidth": "gather B", "latency": "gather B", "reduction": "reduce"}
    seconds = {name: (reading(cell, stages[name]) or 0.0) * 1e-9 for name, cell in measured.items()}
    if not all(seconds.get(name) for name in ("bandwidth", "latency")):
        return None
    received = {name: float(cell.facts["words"]) * word_bytes(cell) for name, cell in measured.items()}
    rate = {name: received[name] / seconds[name] for name in measured if seconds[name]}
    return Link(rate["bandwidth"], seconds["latency"] / (ranks - 1), rate.get("reduction", 0.0))


def modelled_s(cell: Cell, one_rank: Cell, cells: Iterable[Cell]) -> float:
    """Return the time of `cell` by the model, with the rate of `one_rank` and the link among `cells`; NaN without."""
    sizes, rate, ranks = decomposition(cell), local_rate(one_rank), ranks_of(cell)
    between = Link(math.inf, 0.0) if ranks == 1 else link(cells, ranks, rates.axis(cell, "device"))
    if sizes is None or rate is None or between is None:
        return math.nan
    command_s = max(0.0, (one_rank.median_ns - (reading(one_rank, "compute") or 0.0)) * 1e-9)
    panel, overlapped = int(cell.facts.get("panel", 0)), int(cell.facts.get("in_flight", 1)) > 1
    told = predict(sizes, word_bytes(cell), Rates(rate, between), panel=panel, overlapped=overlapped and panel > 0)
    return told.total_s + _scattered_s(cell, sizes, between) + command_s


def _scattered_s(cell: Cell, sizes: Decomposition, between: Link) -> float:
    """Return the seconds in which rank 0 scatters A and B and collects D, if the data of `cell` lie there."""
    if cell.arguments.get("backend") != FROM_ROOT:
        return 0.0
    whole = sizes.m * sizes.k + sizes.k * sizes.n + sizes.m * sizes.n
    own = sizes.a(0).words + sizes.b(0).words + sizes.d(0).words
    return (whole - own) * word_bytes(cell) / between.bytes_per_s


def _root_limit(cell: Cell, alone_s: float, between: Link | None) -> float:
    """Return the most speed-up over a product of `alone_s` that the link of rank 0 allows; else infinite."""
    sizes, ranks = decomposition(cell), ranks_of(cell)
    if cell.arguments.get("backend") != FROM_ROOT or sizes is None or between is None or ranks == 1:
        return math.inf
    words = root_bound(sizes.m, sizes.n, sizes.k, sizes.grid.size)
    return min(ranks, alone_s * between.bytes_per_s / (words * word_bytes(cell)))


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
    limit = _root_limit(cell, alone_s, link(cells, ranks, rates.axis(cell, "device")))
    return RankPoint(cell, ranks, rates.speed_up(cell, one_rank), alone_s / modelled_s(cell, one_rank, cells), limit)


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
