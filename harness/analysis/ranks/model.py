"""The time of a product on ranks by the model, from cells that were measured on as many ranks. Pure.

    T(P) = pairs of the largest block / rate of a rank while all compute + start x panels
           + bytes received / bandwidth + messages x latency + a command
    data on rank 0: a time + words of A, B and D x time of one, instead of what is received

* **Rate.** That of one rank alone with the product of the case. In panels it is that of the product whose k is nearest
  to theirs: one of all of k may be slower or faster.
* **While all compute.** Ranks share processors, caches and memory, they wait for the slowest, and small blocks have
  more words to a pair. So it was measured how long all ranks take for blocks of two sizes, of which they receive next
  to nothing. By what a pair of such a block takes longer than one of one rank alone, the rate is less. Blocks in
  between are interpolated by words to a pair. GPUs share little: there the rate is that of one.
* **Start.** What a product of next to no pairs takes on the ranks.
* **Command.** What a call takes beside what its ranks do.
* **Bandwidth and latency.** Of as many ranks, all gathering or reducing.
* **Words of rank 0.** What two smaller products from there take beside computing, and the line through them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.analysis import rates
from harness.analysis.conditions import reading
from harness.distributed.choice.model import Rates, predict
from harness.distributed.choice.volumes import root_bound
from harness.distributed.grid import BLOCKS, FACES, Decomposition, Grid
from harness.distributed.links import Link
from harness.store.store import Cell

FROM_ROOT = "dist-root"
LAYOUTS = {layout.name: layout for layout in (BLOCKS, FACES)}
# Cells that measure the link by what they measured; those of blocks and from rank 0 have a size in their name too.
BANDWIDTH, LATENCY, REDUCTION, ROOT, BLOCK = "bandwidth", "latency", "reduction", "root", "block"
# The stage that is the link's, and those in which a rank receives.
_STAGES = {BANDWIDTH: "gather B", LATENCY: "gather B", REDUCTION: "reduce"}
_RECEIVES = ("gather A", "gather B")


def ranks_of(cell: Cell) -> int:
    """Return on how many ranks `cell` computed; of a backend without ranks its threads."""
    return int(cell.arguments.get("parameters", {}).get("ranks", cell.threads))


def decomposition(cell: Cell) -> Decomposition | None:
    """Return who computed which part of `cell`; None of a backend without ranks."""
    if "grid" not in cell.facts:
        return None
    problem, layout = cell.facts["problem"], LAYOUTS[cell.facts["layout"]]
    return Decomposition(problem["m"], problem["n"], problem["k"], Grid.parse(cell.facts["grid"]), layout)


def word_bytes(cell: Cell) -> int:
    """Return the bytes of an element of what `cell` computes."""
    return int("".join(filter(str.isdigit, str(cell.facts["problem"]["dtype"])))) // 8


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
    sizes = decomposition(cell)
    if sizes is not None and cell is one_rank:
        return cell.median_ns * 1e-9
    measured = links(cells, ranks_of(cell), rates.axis(cell, "device"))
    between, start, alone = link(measured), start_s(measured), _nearest(cell, one_rank, cells)
    rate = local_rate(alone, start)
    if sizes is None or rate is None or between is None:
        return math.nan
    panel, overlapped = int(cell.facts.get("panel", 0)), int(cell.facts.get("in_flight", 1)) > 1
    together = Rates(rate / slowdown(cell, alone, cells), between, start)
    told = predict(sizes, word_bytes(cell), together, panel=panel, overlapped=overlapped)
    moved = root_s(cell, cells)
    working_s = told.total_s if moved is None else told.compute_s + moved
    return working_s + _command_s(one_rank)


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
    cells = {name: measured[name] for name in _STAGES if name in measured}
    seconds = {name: (reading(cell, _STAGES[name]) or 0.0) * 1e-9 for name, cell in cells.items()}
    if not all(seconds.get(name) for name in (BANDWIDTH, LATENCY)):
        return None
    received = {name: float(cell.facts["words"]) * word_bytes(cell) for name, cell in cells.items()}
    rate = {name: received[name] / seconds[name] for name in cells if seconds[name]}
    messages = ranks_of(cells[LATENCY]) - 1
    return Link(rate[BANDWIDTH], seconds[LATENCY] / messages, rate.get(REDUCTION, 0.0))


def start_s(measured: Mapping[str, Cell]) -> float:
    """Return the time of a local product without pairs, as that by which `links` measured the latency; else 0."""
    return (reading(measured[LATENCY], "compute") or 0.0) * 1e-9 if LATENCY in measured else 0.0


def local_rate(one_rank: Cell, start_s: float = 0.0) -> float | None:
    """Return the pairs in a second of the products of one rank, or None if its stages were not read.

    Parameters
    ----------
    one_rank : Cell
    start_s : float
        Time of a product without pairs [s], which is left out; half of the time at most.
    """
    compute_s = (reading(one_rank, "compute") or 0.0) * 1e-9
    return _pairs(one_rank) / max(compute_s - start_s, compute_s / 2) if compute_s else None


def slowdown(cell: Cell, alone: Cell, cells: Iterable[Cell]) -> float:
    """Return how many times as long a pair of `cell` takes while all its ranks compute as one of `alone` on one rank.

    1 where blocks were not measured on as many ranks and on one.
    """
    together, single = (_pair_s(cells, like) for like in (cell, alone))
    if not together or not single or rates.is_on_device(cell):
        return 1.0
    return _between(together, _words_to_a_pair(cell)) / _between(single, _words_to_a_pair(alone))


def _between(blocks: Sequence[tuple[float, float]], words: float) -> float:
    """Return the seconds of a pair of so many words, between those of `blocks`; beyond them those of the nearest."""
    known, seconds = np.array(blocks).T
    return float(np.interp(words, known, seconds))


def _pair_s(cells: Iterable[Cell], like: Cell) -> list[tuple[float, float]]:
    """Return the words to a pair, and the seconds a pair took, of blocks that as many ranks computed as `like` has."""
    alike = [cell for cell in cells if rates.axis(cell, "problem") == rates.axis(like, "problem")]
    blocks = [cell for name, cell in links(alike, ranks_of(like)).items() if name.startswith(BLOCK)]
    measured = links(cells, ranks_of(like))
    if LATENCY not in measured:
        return []
    return sorted((_words_to_a_pair(cell), _beside_s(cell, measured, _RECEIVES) / _pairs(cell)) for cell in blocks)


def _beside_s(cell: Cell, measured: Mapping[str, Cell], stages: Iterable[str]) -> float:
    """Return the seconds of `cell` beside some of its stages and the command, with the waiting for the slowest rank."""
    spent_ns = sum(reading(cell, stage) or 0.0 for stage in stages)
    return (cell.median_ns - spent_ns) * 1e-9 - _command_s(measured[LATENCY])


def _command_s(cell: Cell) -> float:
    """Return the time of a call beside its stages."""
    rest_ns = reading(cell, "rest")
    if rest_ns is None:
        rest_ns = max(0.0, cell.median_ns - (reading(cell, "compute") or 0.0))
    return rest_ns * 1e-9


def root_s(cell: Cell, cells: Iterable[Cell]) -> float | None:
    """Return the time in which rank 0 sends A and B and receives D, if the data of `cell` lie there; else None.

    NaN if that was not measured on as many ranks.
    """
    sizes, measured = decomposition(cell), links(cells, ranks_of(cell))
    if cell.arguments.get("backend") != FROM_ROOT or sizes is None:
        return None
    smaller = [other for name, other in measured.items() if name.startswith(ROOT)]
    if not smaller or LATENCY not in measured:
        return math.nan
    taken = sorted((_root_words(other), _beside_s(other, measured, ("compute",))) for other in smaller)
    (words, at_s), (more_words, then_s) = [(0.0, 0.0), *taken][-2:]
    return at_s + max(0.0, then_s - at_s) / (more_words - words) * (_root_words(cell) - words)


def _root_words(cell: Cell) -> float:
    """Return the words that rank 0 sends and receives at least."""
    problem = cell.facts["problem"]
    return root_bound(problem["m"], problem["n"], problem["k"], ranks_of(cell))


def _pairs(cell: Cell) -> float:
    """Return the pairs of a product that each rank computes, if all have as many."""
    return float(cell.facts["operations"]) / 2 / ranks_of(cell)


def _words_to_a_pair(cell: Cell) -> float:
    """Return the words of A and B that are read, and of D that are read and written, over the pairs of a block."""
    sizes = decomposition(cell)
    if sizes is None:
        return math.nan
    (row, row_end), (column, column_end) = sizes.rows(0), sizes.columns(0)
    return 1 / (row_end - row) + 1 / (column_end - column) + 2 / _local_k(cell)


def _nearest(cell: Cell, one_rank: Cell, cells: Iterable[Cell]) -> Cell:
    """Return, of what one rank computed alike, the product whose k is nearest to that of the local products of `cell`.

    Of two as near it is `one_rank`, the case's own.
    """
    wanted = _local_k(cell)
    alike = [other for other in rates.timed(cells) if _kind(other) == _kind(one_rank)]
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
