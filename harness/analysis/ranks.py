"""The model of distributed products beside what was measured: local rate and link from stored cells. Pure.

    T(P) = pairs of the largest block / rate of one rank + start x panels
           + bytes received / bandwidth + messages x latency + a command
    data on rank 0: what rank 0 scatters and collects is added; by itself it bounds the speed-up

The rate is that of one rank alone, of the product whose k is nearest to that of the local products: panels are short,
and a product of all of k may be slower or faster. A start is what a product of next to no pairs takes. A command is
what a call of one rank takes beside its product. Bandwidth and latency are those of as many ranks, all gathering or
reducing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
    alone: Cell  # on one rank
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


def local_rate(one_rank: Cell, start_s: float = 0.0) -> float | None:
    """Return the pairs in a second of the products of one rank, or None if its stages were not read.

    Parameters
    ----------
    one_rank : Cell
    start_s : float
        Time of a product without pairs [s], which is left out; half of the time at most.
    """
    compute_s = (reading(one_rank, "compute") or 0.0) * 1e-9
    return float(one_rank.facts["operations"]) / 2 / max(compute_s - start_s, compute_s / 2) if compute_s else None


def word_bytes(cell: Cell) -> int:
    """Return the bytes of an element of what `cell` computes."""
    return int("".join(filter(str.isdigit, str(cell.facts["problem"]["dtype"])))) // 8


def links(cells: Iterable[Cell], ranks: int, device: str | None = None) -> dict[str, Cell]:
    """Return the cells that measured the link between `ranks` ranks on a device, by what each of them measured."""
    return {
        str(cell.axes["link"]): cell
        for cell in cells
        if cell.axes.get("role") == rates.LINK
        and cell.is_ok
        and ranks_of(cell) == ranks
        and rates.axis(cell, "device") == device
    }


def link(measured: Mapping[str, Cell]) -> Link | None:
    """Return the link that `links` measured; None without its bandwidth and latency.

    Older results have no cell that reduces: the rule of `Link` stands for it.
    """
    stages = {"bandwidth": "gather B", "latency": "gather B", "reduction": "reduce"}
    seconds = {name: (reading(cell, stages[name]) or 0.0) * 1e-9 for name, cell in measured.items()}
    if not all(seconds.get(name) for name in ("bandwidth", "latency")):
        return None
    received = {name: float(cell.facts["words"]) * word_bytes(cell) for name, cell in measured.items()}
    rate = {name: received[name] / seconds[name] for name in measured if seconds[name]}
    messages = ranks_of(measured["latency"]) - 1
    return Link(rate["bandwidth"], seconds["latency"] / messages, rate.get("reduction", 0.0))


def start_s(measured: Mapping[str, Cell]) -> float:
    """Return the time of a local product without pairs, as that by which `links` measured the latency; else 0."""
    return (reading(measured["latency"], "compute") or 0.0) * 1e-9 if "latency" in measured else 0.0


def modelled_s(cell: Cell, one_rank: Cell, cells: Sequence[Cell]) -> float:
    """Return the time of `cell` by the model; NaN without a measured rate or link.

    Parameters
    ----------
    cell : Cell
    one_rank : Cell
        The case's on one rank.
    cells : sequence of Cell
        Where others on one rank, and the links, are found.
    """
    sizes, ranks = decomposition(cell), ranks_of(cell)
    measured = links(cells, ranks, rates.axis(cell, "device"))
    between = Link(math.inf, 0.0) if ranks == 1 else link(measured)
    start = start_s(measured)
    rate = local_rate(_nearest(cell, one_rank, cells), start)
    if sizes is None or rate is None or between is None:
        return math.nan
    command_s = max(0.0, (one_rank.median_ns - (reading(one_rank, "compute") or 0.0)) * 1e-9)
    panel, overlapped = int(cell.facts.get("panel", 0)), int(cell.facts.get("in_flight", 1)) > 1
    told = predict(sizes, word_bytes(cell), Rates(rate, between, start), panel=panel, overlapped=overlapped)
    return told.total_s + _scattered_s(cell, sizes, between) + command_s


def _nearest(cell: Cell, one_rank: Cell, cells: Iterable[Cell]) -> Cell:
    """Return, of what one rank computed alike, the product whose k is nearest to that of the local products of `cell`.

    Of two as near it is `one_rank`, the case's own.
    """
    wanted = _local_k(cell)
    alike = [other for other in rates.contenders(cells) if other.is_ok and _kind(other) == _kind(one_rank)]
    measured = [one_rank, *(other for other in alike if reading(other, "compute"))]
    return min(measured, key=lambda other: abs(math.log(wanted / _local_k(other))))


def _kind(cell: Cell) -> tuple[object, ...]:
    """Return what products have in common that one rate may stand for, sizes left out."""
    named = (rates.axis(cell, name) for name in ("backend", "semiring", "dtype", "device"))
    return ranks_of(cell), (cell.facts.get("plan") or {}).get("base"), *named


def _local_k(cell: Cell) -> int:
    """Return the longest k of the local products of `cell`: of a panel, or of all that a rank computes with."""
    sizes = decomposition(cell)
    if sizes is None:
        return max(1, int(cell.facts["problem"]["k"]))
    panels = sizes.panels(0, int(cell.facts.get("panel", 0)))
    return max(1, *(end - begin for begin, end in panels))


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
    limit = _root_limit(cell, alone_s, link(links(cells, ranks, rates.axis(cell, "device"))))
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
