"""The choice of a transport: MPI between processors; between GPUs one of three engines, the same on all ranks."""

from __future__ import annotations

from typing import Any

from harness.distributed.agreement import raise_together
from harness.distributed.transport import gpus
from harness.distributed.transport.base import AUTO, Schedule, Transport
from harness.distributed.transport.copy_engines import CopyEngines
from harness.distributed.transport.host import HostTransport
from harness.distributed.transport.nccl import Nccl
from harness.distributed.transport.staged import Staged

# Between GPUs, in the order in which an automatic choice prefers them.
_BETWEEN_GPUS: dict[str, type[Transport]] = {"copy": CopyEngines, "nccl": Nccl, "staged": Staged}
ENGINES = (AUTO, *_BETWEEN_GPUS)


def choose_transport(comm: Any, used: int, schedule: Schedule, *, on_device: bool) -> type[Transport]:
    """Return the transport of a product on the first `used` ranks; all ranks of `comm` must call it.

    Raises
    ------
    DistributedError
        On all ranks: if two share a GPU and may not, or the engine that was asked for cannot work between these GPUs.
    """
    if not on_device:
        return HostTransport
    taken = gpus.seats(comm, used)
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
