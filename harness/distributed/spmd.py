"""`gemm` for programs that run on many ranks already: every rank calls it with its part of the operands."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from harness import registry
from harness.api.arguments import check_out
from harness.api.arrays import Arrays, kind_of
from harness.api.choice import choose
from harness.distributed.agreement import (
    check_communicator,
    check_launcher,
    check_thread_level,
    together,
)
from harness.distributed.choice.model import Rates, check_memory, choose_grid, memory_bytes, rates_of, room_of
from harness.distributed.choice.numbers import count_of, sizes_of
from harness.distributed.grid import Decomposition, Grid
from harness.distributed.layouts import ROOT, Whole, put_together
from harness.distributed.local import LocalProduct, host_local
from harness.distributed.offers import AUTO, Offer, Options, check_offers, offer_of
from harness.distributed.report import Report, make_report
from harness.distributed.share import Share
from harness.distributed.stages import Stages
from harness.distributed.transport.choice import hosts_of
from harness.distributed.transport.comms import Comms
from harness.distributed.transport.shared_arrays import memory_domain
from harness.errors import PlanError
from harness.interface import Backend
from harness.problem import Problem
from harness.semiring import Scalar, Semiring, as_semiring
from harness.threads import check as check_threads


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    comm: Any,
    semiring: str | Semiring = "plus_times",
    alpha: Scalar = None,
    beta: Scalar = None,
    out: Any = None,
    layout: str = "rows",
    grid: str | Grid = AUTO,
    local: str = AUTO,
    threads: int = 1,
    panel: int | str = AUTO,
    in_flight: int | str = AUTO,
    reduction: str = "exchange",
    transport: str = AUTO,
    share_gpu: bool = False,
    memory_cap: int = 0,
    rates: Rates | None = None,
    dtype: Any = None,
) -> tuple[Any, Report]:
    """Compute ``D = (alpha (x) A (x) B) (+) (beta (x) C)`` with matrices that are spread over the ranks of `comm`.

    All ranks must call it, with arguments that agree. No rank ever holds a whole matrix, but in the layout ``"root"``.

    Parameters
    ----------
    a, b, c : arrays or None
        This rank's part of A (m, k), B (k, n) and C (m, n), as `layout` says. Without C all ranks pass None. Arrays of
        CuPy, on the GPU of this rank, are multiplied there, and the result is one; then they must be on all ranks.
    comm : mpi4py.MPI.Comm
    semiring : str or Semiring
    alpha, beta : scalar, optional
        As in `harness.gemm`.
    out : array, optional
        Where this rank's part of D goes, any strides; may be its part of c. Each rank decides for itself.
    layout : str
        ``"rows"``: rank r holds the r-th rows of each matrix, as many as it likes. ``"columns"``: likewise.
        ``"root"``: rank 0 holds everything, and others pass None. ``"blocks"``: the pieces that `grid` computes with,
        see `pieces`; nothing is redistributed then.
    grid : str or Grid
        ``"2x2x1"``: pm x pn x pk. ``"auto"``: the one of least modelled time within `memory_cap`.
    local : str
        The backend of the local products, a name from ``python -m harness list``, or ``"auto"``.
    threads : int
        Of each rank.
    panel : int
        Elements of k gathered at a time; 0: all. ``"auto"``: all on processors; on GPUs half of k, but 1024 at least.
    in_flight : int
        1: gather, then compute. More: panels are gathered ahead, by a thread or by the GPU; so many are in memory.
        ``"auto"``: 1 on processors, 3 on GPUs.
    reduction : str
        ``"exchange"``: partial sums are combined in the order of ranks. ``"mpi"``: by MPI's operation, if it has one.
    transport : str
        Between processors: ``"shared"``, memory that all ranks share, or ``"mpi"``. ``"auto"``: shared by those of one
        host. Between GPUs: ``"copy"``, by copy engines within a host; ``"nccl"``; ``"staged"``, through hosts' memory
        and MPI. ``"auto"``: the first of them that works.
    share_gpu : bool
        Whether it is meant that several ranks compute on one GPU.
    memory_cap : int
        Bytes that the product may use on a rank; 0: any.
    rates : Rates, optional
        Of this machine, for the choice of a grid.
    dtype : numpy dtype, optional
        As in `harness.gemm`.

    Returns
    -------
    d : array or None
        This rank's part of D, in the same layout, complete. In the layout ``"root"`` None on all ranks but 0.
    report : Report
        Grid, volume over its lower bound, memory, seconds by stage; the same on all ranks.

    Raises
    ------
    DistributedError
        On all ranks, before anything is sent: if parts do not fit together, ranks do not agree, the grid does not fit,
        the cap is too small, or the program was not started by ``python -m mpi4py``.

    Examples
    --------
    On each of P ranks, with rows of both matrices::

        from mpi4py import MPI
        from harness import distributed

        d, report = distributed.gemm(my_rows_of_a, my_rows_of_b, comm=MPI.COMM_WORLD, semiring="min_plus")
    """
    check_communicator(comm)
    start, rank, stages = time.perf_counter(), comm.Get_rank(), Stages()
    check_launcher(comm)
    options = Options(
        layout, str(grid), local, threads, panel, in_flight, reduction, transport, bool(share_gpu), memory_cap, rates
    )
    given = {name: x for name, x in (("a", a), ("b", b), ("c", c)) if x is not None}
    offers = together(
        comm,
        lambda: offer_of(given, out, as_semiring(semiring), alpha, beta, dtype, options, rank, memory_domain()),
    )
    check_offers(comm, offers)
    arrays = _kind(given, offers[0])
    whole, sizes, problem, room = _decompose_together(comm, offers, as_semiring(semiring), arrays, out, stages)
    schedule = options.schedule(problem.k, on_device=arrays.on_device)
    with arrays.in_force():
        multiply = (
            LocalProduct(problem, local, None, arrays)
            if arrays.on_device
            else host_local(problem, local, options.threads)
        )
        comms = Comms.cached(comm, sizes.grid)
        share = Share(comms, sizes, problem, multiply, schedule, on_device=arrays.on_device, stages=stages)
        for name in "abc"[: 2 + problem.accumulate]:
            source, part_dtype = whole.rectangles[name], problem.dtype if name == "c" else problem.input_dtype
            part = arrays.converted(arrays.take("gemm", name, given[name]), part_dtype) if name in given else None
            share.take(name, arrays.empty(source[rank].shape, part_dtype) if part is None else part, source)
        share.multiply()
        room["in_place"] = multiply.accumulates_in_place
        target = whole.rectangles["d"]
        d = arrays.empty(target[rank].shape, problem.dtype) if out is None else out
        share.give(d, target)
        with share.stages.timed("free"):
            share.close()
    return (None if layout == ROOT and rank else d), _report(
        comm, share, memory_bytes(sizes, **room), time.perf_counter() - start
    )


def pieces(m: int, n: int, k: int, grid: str | Grid, rank: int) -> dict[str, tuple[slice, slice]]:
    """Return which part of A, B, and C and D a rank holds in the layout ``"blocks"``, as indices of the matrices.

    Parameters
    ----------
    m, n, k : int
    grid : str or Grid
    rank : int
        Ranks beyond the grid hold nothing.

    Raises
    ------
    PlanError
        If a size, the grid or the rank is none.
    """
    sizes, rank = Decomposition(*sizes_of("pieces", m, n, k), Grid.of(grid)), count_of("pieces", "rank", rank, least=0)
    if rank >= sizes.grid.size:
        return {name: (slice(0, 0), slice(0, 0)) for name in "abcd"}
    a, b, d = (piece(rank).slices for piece in (sizes.a, sizes.b, sizes.d))
    return {"a": a, "b": b, "c": d, "d": d}


class _Decomposed(NamedTuple):
    """The whole product in parts, its decomposition, the product as a problem, and what its memory depends on."""

    whole: Whole
    sizes: Decomposition
    problem: Problem
    room: dict[str, Any]


def _decompose_together(
    comm: Any, offers: list[Offer], semiring: Semiring, arrays: Arrays, out: Any, stages: Stages
) -> _Decomposed:
    """Return what `_decompose` does; if it raises, or `out` takes no result, all ranks raise DistributedError."""
    made: list[_Decomposed] = []

    def decompose() -> None:
        made.append(_decompose(offers, comm.Get_size(), semiring, arrays, stages))
        shape = made[0].whole.rectangles["d"][comm.Get_rank()].shape
        check_out("gemm", arrays, out, shape, made[0].problem.dtype)

    together(comm, decompose)
    return made[0]


def _decompose(offers: list[Offer], ranks: int, semiring: Semiring, arrays: Arrays, stages: Stages) -> _Decomposed:
    """Return the whole product and its decomposition; raises as `gemm` does. Loading backends counts in `stages`."""
    options = offers[0].options
    grid = options.parsed_grid()
    if grid is not None and grid.size > ranks:
        raise PlanError(
            "the grid does not fit the ranks",
            expected=f"{ranks} ranks or fewer",
            got=f"{grid}: {grid.size} ranks",
        )
    whole = put_together(options.layout, [offer.shapes for offer in offers], grid)
    extents, cap = whole[:3], options.memory_cap
    problem = Problem(*extents, semiring, **offers[0].fields)
    with stages.timed("prepare"):
        backend = _check_local(options, problem, arrays)
    schedule = options.schedule(problem.k, on_device=arrays.on_device)
    in_place, on_device = backend.accumulates_in_place, arrays.on_device
    room = room_of(problem, schedule.panel, schedule.in_flight, in_place=in_place, on_device=on_device)
    hosts = hosts_of([offer.domain for offer in offers], options.transport, on_device=on_device)
    if grid is None:
        rates = options.rates or rates_of(on_device=on_device)
        grid = choose_grid(*extents, ranks, rates=rates, hosts=hosts, memory_cap=cap, **room)
    sizes = Decomposition(*extents, grid, hosts=hosts)
    check_memory(sizes, memory_cap=cap, **room)
    return _Decomposed(whole, sizes, problem, room)


def _kind(given: dict[str, Any], offer: Offer) -> Arrays:
    """Return the kind of the arrays of the whole product, also on a rank that has none of them."""
    if not offer.on_device or given:
        return kind_of("gemm", given)
    import cupy

    return kind_of("gemm", {"a": cupy.empty(1)})


def _check_local(options: Options, problem: Problem, arrays: Arrays) -> Backend:
    """Return the backend of local products, or raise unless it can compute `problem` here, on so many threads."""
    if options.local != AUTO:
        registry.admit(options.local, problem)
    check_threads(options.threads)
    if options.schedule(problem.k, on_device=arrays.on_device).in_flight > 1 and not arrays.on_device:
        check_thread_level()
    return choose(problem, options.local, arrays)


def _report(comm: Any, share: Share, predicted_bytes: int, elapsed_s: float) -> Report:
    """Return the report, of what all ranks have counted."""
    stages = share.stages
    counted = {"seconds": stages.seconds, "words": stages.words, "bytes": share.bytes_used, "total": elapsed_s}
    counts = comm.allgather(counted)
    return make_report(share.sizes, counts, predicted_bytes, max(count["total"] for count in counts))
