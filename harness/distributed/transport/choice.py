"""The choice of a transport: shared memory or MPI between processors, one of three engines between GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.distributed.agreement import raise_together
from harness.distributed.grid import Decomposition
from harness.distributed.transport import gpus
from harness.distributed.transport.base import AUTO, Schedule, Transport
from harness.distributed.transport.copy_engines import CopyEngines
from harness.distributed.transport.host import HostTransport
from harness.distributed.transport.nccl import Nccl
from harness.distributed.transport.shared_memory import SharedMemory
from harness.distributed.transport.staged import Staged
from harness.errors import PlanError

SHARED, MPI = "shared", "mpi"
# Between GPUs, in the order in which an automatic choice prefers them.
_BETWEEN_GPUS: dict[str, type[Transport]] = {engine.name: engine for engine in (CopyEngines, Nccl, Staged)}
ENGINES = (AUTO, SHARED, MPI, *_BETWEEN_GPUS)


def hosts_of(domains: Sequence[str], engine: str, *, on_device: bool) -> tuple[int, ...]:
    """Return on which host each rank runs, as `Decomposition` takes it: empty where no memory is to be shared.

    Parameters
    ----------
    domains : sequence of str
        Of each rank what `harness.distributed.transport.shared_arrays.memory_domain` returns.
    engine : str
        One of `ENGINES`.
    on_device : bool
        Whether the ranks compute on GPUs.

    Raises
    ------
    PlanError
        If the engine works on GPUs alone, or on processors alone, or is shared memory that not all ranks have.
    """
    legal = (AUTO, *_BETWEEN_GPUS) if on_device else (AUTO, SHARED, MPI)
    if engine not in legal:
        raise PlanError(
            f"transport {engine!r} cannot work between {'GPUs' if on_device else 'processors'}",
            expected=" or ".join(map(repr, legal)),
            got=f"transport={engine!r}",
        )
    if engine == SHARED and (not domains[0] or len(set(domains)) > 1):
        raise PlanError(
            "the ranks share no memory",
            expected="ranks of one Linux host, one user and one container",
            got=f"{len(set(domains))} hosts" if domains[0] else "a system without memfd_create or /proc",
            fix="transport='auto', which shares memory among the ranks of each host",
        )
    if on_device or engine == MPI:
        return ()
    return tuple(domains.index(domain) if domain else rank for rank, domain in enumerate(domains))


def choose_transport(comm: Any, sizes: Decomposition, schedule: Schedule, *, on_device: bool) -> type[Transport]:
    """Return the transport of a product on the ranks of a grid; all ranks of `comm` must call it.

    Raises
    ------
    DistributedError
        On all ranks: if two share a GPU and may not, or the engine that was asked for cannot work between these GPUs.
    """
    if not on_device:
        return SharedMemory if sizes.hosts else HostTransport
    taken = gpus.seats(comm, sizes.grid.size)
    shares = gpus.check_seats(comm, taken, may_share=schedule.share_gpu)
    reasons = {
        "copy": "" if gpus.can_open_each_other(comm, taken) else "GPUs that cannot read each other's memory",
        "nccl": _why_no_nccl(taken, shares=shares),
        "staged": "",
    }
    if schedule.transport == AUTO:
        return _BETWEEN_GPUS[next(name for name in _BETWEEN_GPUS if not reasons[name])]
    if reason := reasons[schedule.transport]:
        possible = [name for name in _BETWEEN_GPUS if not reasons[name]]
        raise_together(
            comm,
            f"transport {schedule.transport!r} cannot work between these GPUs",
            expected=f"transport={' or '.join(map(repr, possible))}",
            got=reason,
        )
    return _BETWEEN_GPUS[schedule.transport]


def _why_no_nccl(taken: list[gpus.Seat], *, shares: bool) -> str:
    if shares:
        return "ranks that share a GPU, which NCCL refuses"
    return "" if all(seat.has_nccl for seat in taken) else "NCCL is not installed on all ranks"
