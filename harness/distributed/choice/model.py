"""The time of a distributed product by a model, and the grid that is best by it.

    T = compute + gather + reduce            compute = pairs of the largest block / rate of a rank + start x panels
    overlapped: max(compute, gather) + first panel + reduce
    gather = bytes received / rate of the link + latency x messages
    reduce = the same, by the rate at which partial sums are received and combined

A word of a partial sum costs more than one of A or B: it is read, added and written beside being sent. On one host all
ranks do that in one memory, and it takes 2.5 times as long (`Link`). Six grids of 16 ranks that were measured are then
within 4 % of the model and in its order.

Each panel is a local product of its own, so it pays the start of one: a call, and on GPUs launches. The rate is that of
products of a panel's k, since one of all of k may be slower or faster. Sizes are exact: the rank with the most work and
the one with the most words count. What the model leaves out (packing, contention for memory otherwise, the tail of the
last panel) is what `dist_projection` shows as its error.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from harness.distributed.choice.numbers import count_of, sizes_of
from harness.distributed.choice.volumes import candidate_grids
from harness.distributed.grid import BLOCKS, Decomposition, Grid, Layout
from harness.distributed.links import LINKS, PAIRS_PER_S, PAIRS_PER_S_ON_GPU, Link
from harness.errors import PlanError
from harness.problem import Problem

# Of sums that are taken in another order.
ROUNDING = 1e-9


class Rates(NamedTuple):
    """What one rank does in a second.

    Parameters
    ----------
    pairs_per_s : float
        Of its local products, the start of each left out.
    link : Link
    start_s : float
        Time of a local product without pairs [s].
    """

    pairs_per_s: float = PAIRS_PER_S
    link: Link = LINKS["shared memory"]
    start_s: float = 0.0


def rates_of(*, on_device: bool) -> Rates:
    """Return the rates that are taken where none are given: of a core, or of a GPU, and of ranks on one host."""
    return Rates(PAIRS_PER_S_ON_GPU, LINKS["nvlink"]) if on_device else Rates()


class Prediction(NamedTuple):
    """The time of a product by the model, in seconds."""

    compute_s: float
    gather_s: float
    reduce_s: float
    total_s: float


def predict(
    sizes: Decomposition, word_bytes: int, rates: Rates, *, panel: int = 0, overlapped: bool = False
) -> Prediction:
    """Return the modelled time of a product whose operands lie as `sizes` says.

    Parameters
    ----------
    sizes : Decomposition
    word_bytes : int
        Of an element.
    rates : Rates
    panel : int
        Elements of k gathered at a time; 0: all.
    overlapped : bool
        Whether a panel is gathered while the one before is computed with.
    """
    grid, link = sizes.grid, rates.link
    panels = sizes.most(lambda rank: len(sizes.panels(rank, panel)))
    compute = sizes.most(lambda rank: _pairs(sizes, rank)) / rates.pairs_per_s + rates.start_s * panels
    gathered = sizes.most(lambda rank: sizes.words(rank)["a"] + sizes.words(rank)["b"]) * word_bytes
    gather = gathered / link.bytes_per_s + link.latency_s * (grid.pm + grid.pn - 2) * panels
    reduced = sizes.most(lambda rank: sizes.words(rank)["d"]) * word_bytes
    reduce = reduced / link.reduction + link.latency_s * (grid.pk - 1)
    both = max(compute, gather) + min(compute, gather) / panels if overlapped else compute + gather
    return Prediction(compute, gather, reduce, both + reduce)


def memory_bytes(
    sizes: Decomposition,
    word_bytes: int,
    *,
    input_bytes: int = 0,
    accumulate: bool = False,
    panel: int = 0,
    in_flight: int = 1,
    in_place: bool = False,
    at_pieces: bool = False,
) -> int:
    """Return the bytes that the fullest rank needs: what it holds, gathers and computes into.

    That is what is allocated, but for the reduction "mpi", which leaves room for partial sums to MPI.

    Parameters
    ----------
    sizes : Decomposition
    word_bytes : int
        Of an element of C and D.
    input_bytes : int
        Of an element of A and B; 0: the same.
    accumulate : bool
        Whether there is a C.
    panel, in_flight : int
        As in `Decomposition.input_words`.
    in_place : bool
        As in `Decomposition.sum_words`.
    at_pieces : bool
        As in `Decomposition.panels`: so on GPUs.
    """

    def needed(rank: int) -> int:
        inputs = sizes.input_words(rank, panel, in_flight, at_pieces=at_pieces) * (input_bytes or word_bytes)
        sums = sizes.sum_words(rank, panel, accumulate=accumulate, in_place=in_place, at_pieces=at_pieces)
        return inputs + sums * word_bytes

    return sizes.most(needed)


def choose_grid(
    m: int,
    n: int,
    k: int,
    ranks: int,
    word_bytes: int,
    *,
    rates: Rates | None = None,
    layout: Layout = BLOCKS,
    hosts: tuple[int, ...] = (),
    memory_cap: int = 0,
    flat: str = "",
    **room: Any,
) -> Grid:
    """Return the grid of least modelled time on at most `ranks` ranks.

    Parameters
    ----------
    m, n, k : int
    ranks : int
        At most 15 % of them stay idle.
    word_bytes : int
        Of an element.
    rates : Rates, optional
        None: those of `harness.distributed.links`.
    layout : Layout
    hosts : tuple of int
        As in `Decomposition`.
    memory_cap : int
        Bytes that a rank may use; 0: any.
    flat : str
        The dimensions, of ``"m"``, ``"n"`` and ``"k"``, along which the grid must have one rank.
    room
        Further arguments of `memory_bytes`.

    Raises
    ------
    PlanError
        If an argument is none; if no grid is flat so; if every grid needs more than `memory_cap`: then the message
        names the shortfall.
    """
    extents, needs = sizes_of("choose_grid", m, n, k), tuple(sorted(room.items()))
    ranks, word_bytes = (
        count_of("choose_grid", name, value) for name, value in (("ranks", ranks), ("word_bytes", word_bytes))
    )
    memory_cap = count_of("choose_grid", "memory_cap", memory_cap, least=0)
    rates = Rates() if rates is None else rates
    for name, is_legal, expected, got in (
        ("rates", _are_rates(rates), "a Rates of numbers above 0, with one of harness.distributed.links.LINKS", rates),
        ("layout", isinstance(layout, Layout), "BLOCKS or FACES of harness.distributed.grid", layout),
        ("hosts", not hosts or len(hosts) >= ranks, f"a number for each of {ranks} ranks, or none", hosts),
        ("flat", set(flat) <= set("mnk"), "letters of mnk", flat),
    ):
        if not is_legal:
            raise PlanError(f"choose_grid: {name} cannot be taken", expected=expected, got=repr(got))
    return _least(extents, ranks, word_bytes, rates, layout, tuple(hosts), memory_cap, flat, needs)


def _are_rates(rates: object) -> bool:
    """Return whether the model can divide by `rates`."""
    if not isinstance(rates, Rates) or not isinstance(rates.link, Link):
        return False
    try:
        return min(rates.pairs_per_s, *rates.link[:1]) > 0 <= min(rates.start_s, *rates.link[1:])
    except TypeError:
        return False


# A program computes a few products over and over, and to compare the grids of 4 ranks takes as long as to multiply 512.
@functools.lru_cache(maxsize=256)
def _least(
    extents: tuple[int, int, int],
    ranks: int,
    word_bytes: int,
    rates: Rates,
    layout: Layout,
    hosts: tuple[int, ...],
    memory_cap: int,
    flat: str,
    room: tuple[tuple[str, Any], ...],
) -> Grid:
    """Return the grid of `choose_grid`, or raise as that does."""
    shapes = [
        Decomposition(*extents, grid, layout, hosts)
        for grid in candidate_grids(ranks)
        if all(side == 1 for side, name in zip((grid.pm, grid.pn, grid.pk), "mnk", strict=True) if name in flat)
    ]
    if not shapes:
        raise PlanError(
            f"choose_grid: no grid of {ranks} ranks has one rank along {' and '.join(flat)}",
            expected="a dimension left for the ranks, or one rank",
            got=f"flat={flat!r}",
        )
    best: tuple[float, int, int] | None = None
    for bound, at in sorted((_least_time(sizes, word_bytes, rates), at) for at, sizes in enumerate(shapes)):
        if best and bound > best[0]:
            break
        sizes = shapes[at]
        if not memory_cap or memory_bytes(sizes, word_bytes, **dict(room)) <= memory_cap:
            found = predict(sizes, word_bytes, rates).total_s, -sizes.grid.size, at
            best = min(best or found, found)
    if best is None:
        raise _too_small(ranks, shapes, word_bytes, memory_cap, dict(room))
    return shapes[best[2]].grid


def _least_time(sizes: Decomposition, word_bytes: int, rates: Rates) -> float:
    """Return a time that `predict` does not fall short of: that of a rank with the mean of all ranks' work and words.

    It takes no look at each rank, of which there may be thousands.
    """
    m, n, k, grid, link = sizes.m, sizes.n, sizes.k, sizes.grid, rates.link
    gathered, reduced = m * k * (grid.pn - 1) + k * n * (grid.pm - 1), m * n * (grid.pk - 1)
    seconds = m * n * k / rates.pairs_per_s + word_bytes * (gathered / link.bytes_per_s + reduced / link.reduction)
    latencies = link.latency_s * (grid.pm + grid.pn + grid.pk - 3)
    return (seconds / grid.size + latencies + rates.start_s) * (1 - ROUNDING)


def _too_small(
    ranks: int, shapes: list[Decomposition], word_bytes: int, memory_cap: int, room: dict[str, Any]
) -> PlanError:
    least, grid = min(
        ((memory_bytes(sizes, word_bytes, **room), sizes.grid) for sizes in shapes), key=lambda need: need[0]
    )
    extents = "x".join(str(size) for size in (shapes[0].m, shapes[0].n, shapes[0].k))
    return PlanError(
        f"no grid of {ranks} ranks computes {extents} within the memory cap",
        expected=f"{least:,} bytes a rank, by {grid}",
        got=f"a cap of {memory_cap:,} bytes: {least - memory_cap:,} too few",
        fix="more ranks, a larger cap, or a smaller panel",
    )


def room_of(problem: Problem, panel: int, in_flight: int, *, in_place: bool, on_device: bool) -> dict[str, Any]:
    """Return the arguments of `memory_bytes`, beside sizes, for `problem` on processors or on GPUs."""
    return {
        "word_bytes": problem.dtype.itemsize,
        "input_bytes": problem.input_dtype.itemsize,
        "accumulate": problem.accumulate,
        "panel": panel,
        "in_flight": in_flight,
        "in_place": in_place,
        "at_pieces": on_device,
    }


def check_memory(sizes: Decomposition, word_bytes: int, memory_cap: int, **room: Any) -> None:
    """Raise PlanError, naming the shortfall, if a rank needs more than `memory_cap` bytes; 0: any.

    `room` are further arguments of `memory_bytes`.
    """
    need = memory_bytes(sizes, word_bytes, **room)
    if memory_cap and need > memory_cap:
        raise PlanError(
            f"grid {sizes.grid} needs more than the memory cap for {sizes.m}x{sizes.n}x{sizes.k}",
            expected=f"{need:,} bytes a rank",
            got=f"a cap of {memory_cap:,} bytes: {need - memory_cap:,} too few",
            fix="grid='auto', more ranks, or a smaller panel",
        )


def _pairs(sizes: Decomposition, rank: int) -> int:
    """Return the pairs that a rank computes."""
    extents = (sizes.rows(rank), sizes.columns(rank), sizes.k_range(rank))
    pairs = 1
    for begin, end in extents:
        pairs *= end - begin
    return pairs
