"""The GPUs of ranks: which one a rank computes on, and that no two share one by mistake."""

from __future__ import annotations

import functools
import importlib.util
import socket
from typing import Any, NamedTuple

from harness.distributed.agreement import raise_together
from harness.distributed.transport.copy_engines import can_open


class Seat(NamedTuple):
    """Where one rank computes.

    Parameters
    ----------
    host : str
    device : str
        PCI bus number of its GPU.
    has_nccl : bool
    """

    host: str
    device: str
    has_nccl: bool


@functools.cache
def count() -> int:
    """Return how many GPUs this process sees; 0 without CuPy too."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    import cupy

    runtime = cupy.cuda.runtime
    try:
        return int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError:
        return 0


def bind(rank: int) -> None:
    """Make the GPU with the number of a rank of this host the current one; beyond the last, begin anew."""
    import cupy

    cupy.cuda.Device(rank % count()).use()


def seats(comm: Any, used: int) -> list[Seat]:
    """Return the seats of the first `used` ranks of `comm`; all of its ranks must call it."""
    import cupy

    runtime = cupy.cuda.runtime
    mine = Seat(socket.gethostname(), runtime.deviceGetPCIBusId(runtime.getDevice()), _has_nccl())
    return list(comm.allgather(mine))[:used]


def check_seats(comm: Any, taken: list[Seat], *, may_share: bool) -> bool:
    """Return whether ranks share a GPU, or raise DistributedError on all ranks if they may not."""
    first: dict[tuple[str, str], int] = {}
    for rank, seat in enumerate(taken):
        other = first.setdefault(seat[:2], rank)
        if other != rank and not may_share:
            raise_together(
                comm,
                f"ranks {other} and {rank} compute on one GPU",
                expected="a GPU for each rank",
                got=f"{len(taken)} ranks on {len({seat[:2] for seat in taken})} GPUs; both on {seat.device}",
                fix="fewer ranks, or share_gpu=1 if it is meant: engines then work, and nothing is faster",
            )
    return len(first) < len(taken)


def can_open_each_other(comm: Any, taken: list[Seat]) -> bool:
    """Return whether all of them can read each other's memory; all ranks of `comm` must call it."""
    is_one_host = len({seat.host for seat in taken}) == 1
    return all(comm.allgather(is_one_host and can_open([seat.device for seat in taken])))


@functools.cache
def _has_nccl() -> bool:
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(getattr(nccl, "available", False))
