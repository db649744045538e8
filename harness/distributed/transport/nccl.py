"""NCCL: panels by broadcast along fibres, partial sums by exchange. It reaches GPUs of other hosts too.

Its kernels run on multiprocessors, which they take from the product beside them. Arrays travel as bytes. Two ranks on
one GPU it refuses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from harness.distributed.transport.base import Side
from harness.distributed.transport.device import DeviceTransport
from harness.distributed.transport.mpi import Fibre

# Multicast of NVLink is a resource of the host: on hosts that are shared a job must leave it alone.
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0"}


class Nccl(DeviceTransport):
    """Collective transfers between GPUs."""

    name = "nccl"

    def offer(self, a: Any, b: Any, partial: Any) -> None:
        """Make the communicators of all fibres, or take those of an earlier product."""
        self._comms = {id(fibre): _communicator(fibre) for fibre in self.fibres if fibre.size > 1}

    def fetch(self, side: Side, owner: int, begin: int, end: int, own: Any, target: Any) -> None:
        """Broadcast a panel to the fibre; columns of a piece are copied to the buffer first."""
        if own is None:
            side.fibre.stages.received(side.fibre.stage, target.size)
        with self.timed(side.fibre.stage, self.copies):
            if own is not None and side.name == "b":
                target = own
            elif own is not None:
                with self.copies:
                    target[...] = own
            address, nccl = target.data.ptr, self._comms[id(side.fibre)]
            nccl.broadcast(address, address, target.nbytes, _bytes(), owner, self.copies.ptr)

    def partials(self, partial: Any, shape: tuple[int, int]) -> Iterator[tuple[int, Any]]:
        """Exchange the rows of all partial sums at once."""
        from cupy.cuda import nccl

        fibre, stream = self.fibres.layer, self.compute.ptr
        arrived = {rank: self.cupy.empty(shape, partial.dtype) for rank in range(fibre.size) if rank != fibre.rank}
        comm = self._comms[id(fibre)]
        nccl.groupStart()
        for rank, rows in arrived.items():
            sent = partial[self.d_cuts[rank] : self.d_cuts[rank + 1]]
            if sent.size:
                comm.send(sent.data.ptr, sent.nbytes, _bytes(), rank, stream)
            fibre.stages.received(fibre.stage, rows.size)
            if rows.size:
                comm.recv(rows.data.ptr, rows.nbytes, _bytes(), rank, stream)
        nccl.groupEnd()
        for rank in range(fibre.size):
            yield rank, arrived.get(rank)


def _bytes() -> int:
    from cupy.cuda import nccl

    return int(nccl.NCCL_UINT8)


# By the communicator of MPI, which is kept with it: to make one takes half a second.
_made: dict[int, tuple[Any, Any]] = {}


def _communicator(fibre: Fibre) -> Any:
    """Return the communicator of NCCL for the ranks of `fibre`, all of which must ask for it."""
    from cupy.cuda import nccl

    if id(fibre.comm) not in _made:
        os.environ.update(ENVIRONMENT)
        unique = fibre.comm.bcast(nccl.get_unique_id() if fibre.rank == 0 else None, root=0)
        _made[id(fibre.comm)] = fibre.comm, nccl.NcclCommunicator(fibre.size, unique, fibre.rank)
    return _made[id(fibre.comm)][1]
