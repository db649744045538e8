"""Mistakes that a distributed product could make, planted one at a time in the process of a rank."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np

from harness.distributed import spmd
from harness.distributed.grid import Decomposition
from harness.distributed.product import RankProduct
from harness.distributed.reduction import combine_in_order, reduce_pieces
from harness.distributed.transport.host import HostTransport
from harness.distributed.transport.mpi import Fibre
from harness.distributed.transport.shared_memory import SharedMemory

LATE_S = 0.02


class PanelsOutOfOrder(HostTransport):
    """Has each panel of A be multiplied by the panel of B that follows."""

    def gathered(self, a, b):
        panels = [(x.copy(), y.copy()) for x, y in super().gathered(a, b)]
        for step, (a_panel, b_panel) in enumerate(panels):
            other = panels[(step + 1) % len(panels)][1]
            yield a_panel, other if other.shape == b_panel.shape else b_panel


class TheWrongRows(SharedMemory):
    """Reads each panel of B one row too early in the block, where it can."""

    def panel(self, side, piece, step):
        rows, block = super().panel(side, piece, step), self._blocks.get(side.name)
        begin, end = self.panels[step]
        return rows if block is None or side.name == "a" or not begin else block[begin - 1 : end - 1]


class NobodyWaits(SharedMemory):
    """Multiplies at once, though the last rank of a fibre writes its pieces late."""

    def offer(self, *arguments):
        super().offer(*arguments)
        if any(fibre.rank and fibre.rank == fibre.size - 1 for fibre in self.fibres):
            time.sleep(LATE_S)

    def running(self):
        return contextlib.nullcontext()


class EveryRankAddsC(RankProduct):
    """Enters ``beta (x) C`` with the partial sums of each rank along k, and not once."""

    def _reduce(self, c, out):
        partial, transport = self._sums[0], self.transport
        begin, end = transport.d_cuts[transport.fibres.layer.rank :][:2]
        if c is not None:
            nothing = np.empty((end - begin, 0), self.problem.input_dtype), np.empty((0, c.shape[1]), partial.dtype)
            mine = np.empty_like(c)
            self.local.ready(*nothing, c, None, self.problem.beta, mine)()
            self.problem.semiring.add.ufunc(partial[begin:end], mine, out=partial[begin:end])
        super()._reduce(c, out)


class NobodyAddsC(RankProduct):
    """Forgets ``beta (x) C`` where k is cut."""

    def _reduce(self, c, out):
        self._c_alone = None
        super()._reduce(c, out)


def forget_a_rank(partial, cuts, fibre, add, out, arrived, method) -> None:
    """Reduce, but replace what the last rank along k brings by what the first does."""
    if fibre.size > 1 and fibre.rank == fibre.size - 1:
        partial[...] = 0
    reduce_pieces(partial, cuts, fibre, add, out, arrived, method)


def forget_the_last(pieces, combine, out) -> None:
    """Combine all pieces but the last of several."""
    combine_in_order(pieces[: max(1, len(pieces) - 1)], combine, out)


class AWordTooFew(Fibre):
    """Receives everything but the last word of each panel, which stays what it was."""

    def gather(self, piece, cuts, begin, end, target):
        whole = np.empty_like(target)
        super().gather(piece, cuts, begin, end, whole)
        target.reshape(-1)[:-1] = whole.reshape(-1)[:-1]
        target.reshape(-1)[-1:] = 1


class AWordUncounted(Fibre):
    """Counts a word less than it receives."""

    def gather(self, piece, cuts, begin, end, target):
        super().gather(piece, cuts, begin, end, target)
        if self.stages.words.get(self.stage):
            self.stages.words[self.stage] -= 1


class AWordTooMany(Fibre):
    """Counts a word more than it reads in shared memory."""

    def read(self, cuts, begin, end, width):
        super().read(cuts, begin, end, width + (self.size > 1))


FAULTS: dict[str, list[Any]] = {
    "panels out of order": [("harness.distributed.transport.choice.HostTransport", PanelsOutOfOrder)],
    "beta on every rank": [("harness.distributed.share.RankProduct", EveryRankAddsC)],
    "beta forgotten": [("harness.distributed.share.RankProduct", NobodyAddsC)],
    "a rank's sums forgotten": [("harness.distributed.transport.host.reduce_pieces", forget_a_rank)],
    "a word too few": [("harness.distributed.transport.comms.Fibre", AWordTooFew)],
    "a word uncounted": [("harness.distributed.transport.comms.Fibre", AWordUncounted)],
    "a word counted that is not read": [("harness.distributed.transport.comms.Fibre", AWordTooMany)],
    "the wrong rows of shared memory": [("harness.distributed.transport.choice.SharedMemory", TheWrongRows)],
    "nobody waits": [("harness.distributed.transport.choice.SharedMemory", NobodyWaits)],
    "the last sum forgotten": [("harness.distributed.transport.shared_memory.combine_in_order", forget_the_last)],
}


@contextlib.contextmanager
def planted(fault: str, replaced: Mapping[str, Any]) -> Iterator[None]:
    """Plant a fault, "" for none, and replace names of `spmd`, for the block."""
    with contextlib.ExitStack() as stack:
        for name, value in (("Decomposition", Decomposition), ("memory_domain", spmd.memory_domain)):
            stack.enter_context(mock.patch.object(spmd, name, value))  # the caller may set them
        for name, value in replaced.items():
            stack.enter_context(mock.patch.object(spmd, name, value))
        for target, value in FAULTS.get(fault, ()):
            stack.enter_context(mock.patch(target, value))
        yield
