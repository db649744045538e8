"""Ranks that share a block: they gather its pieces, and exchange pieces of their sums, over MPI.

Arrays are C-ordered and travel as bytes, so that every dtype does. A message is cut below `LARGEST_MESSAGE`: some MPI
libraries fail beyond 2^31 elements.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from harness.distributed.grid import Cuts
from harness.distributed.stages import Stages

LARGEST_MESSAGE = 1 << 30  # bytes


class Fibre:
    """The ranks of a grid that differ in one coordinate, seen from one of them.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Of these ranks alone, and used by nobody else: a thread may gather while another exchanges elsewhere.
    stage : str
        The stage that counts what is received.
    stages : Stages
    largest_message : int
        Bytes.
    """

    def __init__(self, comm: Any, stage: str, stages: Stages, largest_message: int = LARGEST_MESSAGE) -> None:
        self.comm, self.stage, self.stages, self.largest_message = comm, stage, stages, largest_message
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())

    def gather(self, piece: np.ndarray, cuts: Cuts, begin: int, end: int, target: np.ndarray) -> None:
        """Fill `target` with rows `begin` to `end` of the block whose pieces the ranks hold.

        Parameters
        ----------
        piece : (cuts[rank + 1] - cuts[rank], w) array
            C-ordered.
        cuts : tuple of int
            Which rows of the block each rank holds.
        begin, end : int
            The same for all ranks.
        target : (end - begin, w) array
            C-ordered.
        """
        parts = [(max(begin, lo), min(end, hi)) for lo, hi in itertools.pairwise(cuts)]
        owners = [rank for rank, (lo, hi) in enumerate(parts) if lo < hi]
        if self.rank in owners:
            lo, hi = parts[self.rank]
            target[lo - begin : hi - begin] = piece[lo - cuts[self.rank] : hi - cuts[self.rank]]
        if len(owners) == 1:
            self.broadcast(target, owners[0])
            return
        rows = {rank: target[parts[rank][0] - begin : parts[rank][1] - begin] for rank in owners}
        others = [rank for rank in range(self.size) if rank != self.rank]
        sent = [(rank, rows[self.rank]) for rank in others] if self.rank in owners else []
        self.exchange(sent, [(rank, rows[rank]) for rank in others if rank in owners])

    def exchange(self, sent: list[tuple[int, np.ndarray]], received: list[tuple[int, np.ndarray]]) -> None:
        """Send arrays to ranks and receive arrays from ranks, all at once; every array is C-ordered."""
        from mpi4py import MPI

        requests = []
        for rank, array in received:
            requests += [self.comm.Irecv(part, rank) for part in self._parts(array)]
            if array.size:
                self.stages.received(self.stage, array.size)
        for rank, array in sent:
            requests += [self.comm.Isend(part, rank) for part in self._parts(array)]
        MPI.Request.Waitall(requests)

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """Fill `array`, C-ordered, on all ranks with that of `root`."""
        if self.size == 1:
            return
        for part in self._parts(array):
            self.comm.Bcast(part, root)
        if self.rank != root:
            self.stages.received(self.stage, array.size)

    def read(self, cuts: Cuts, begin: int, end: int, width: int) -> None:
        """Count rows `begin` to `end`, of `width` elements, that are read where the ranks hold them by `cuts`."""
        for rank, (lo, hi) in enumerate(itertools.pairwise(cuts)):
            rows = min(end, hi) - max(begin, lo)
            if rank != self.rank and rows > 0 and width:
                self.stages.received(self.stage, rows * width)

    def meet(self) -> None:
        """Return when all ranks of the fibre have called this."""
        if self.size > 1:
            self.comm.Barrier()

    def _parts(self, array: np.ndarray) -> list[np.ndarray]:
        """Return the bytes of `array` in messages that are not too long."""
        raw = array.reshape(-1).view(np.uint8)
        return [raw[at : at + self.largest_message] for at in range(0, raw.size, self.largest_message)]
