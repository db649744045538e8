"""The way between ranks on processors: MPI gathers panels and exchanges partial sums.

With two panels or more in flight a thread gathers a panel while the one before is computed with. On processors copies
between ranks are work of a core, so this pays only where cores are idle or a network adapter does the copying.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from harness.distributed.reduction import combiner, pieces_arrive, reduce_pieces
from harness.distributed.transport.base import Side, Transport
from harness.distributed.transport.prefetch import Prefetcher


class HostTransport(Transport):
    """MPI."""

    name = "mpi"

    def offer(self, a: np.ndarray, b: np.ndarray, partial: np.ndarray | None) -> None:
        """Make room for pieces of partial sums that arrive where k is cut."""
        add, dtype, others = self.problem.semiring.add, self.problem.dtype, self.fibres.layer.size - 1
        arriving = others * pieces_arrive(add, dtype, self.schedule.reduction)
        self._arrived = [self.arrays.empty((self.d_rows, self.sides[1].length), dtype) for _ in range(arriving)]

    @property
    def bytes_used(self) -> int:
        """Bytes that it has allocated."""
        return super().bytes_used + sum(int(array.nbytes) for array in self._arrived)

    def gathered(self, a: np.ndarray, b: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Return the panels in the order of k."""
        pieces = a.T, b  # panels are rows of both

        def fetch(step: int) -> tuple[np.ndarray, np.ndarray]:
            a_panel, b_panel = (self.panel(side, x, step) for side, x in zip(self.sides, pieces, strict=True))
            return a_panel.T, b_panel

        steps, ahead = len(self.panels), self.schedule.in_flight
        if self.buffers and ahead > 1 and steps > 1:
            return Prefetcher(fetch, steps, ahead)
        return map(fetch, range(steps))

    def panel(self, side: Side, piece: np.ndarray, step: int) -> np.ndarray:
        """Return the panel of a step: what arrives, or rows of the rank's own piece if that is the whole block."""
        begin, end = self.panels[step]
        if not self.arrives(side):
            return piece[begin:end]
        target: np.ndarray = self.buffer(side, step, (end - begin, side.length))
        with self.stages.timed(side.fibre.stage):
            side.fibre.gather(piece, side.cuts, begin, end, target)
        return target

    def reduce(self, partial: np.ndarray, out: np.ndarray) -> None:
        """Reduce by the method of the schedule."""
        add = self.problem.semiring.add
        reduce_pieces(partial, self.d_cuts, self.fibres.layer, add, out, self._arrived, self.schedule.reduction)

    def combine(self, x: np.ndarray, y: np.ndarray) -> None:
        """Combine by NumPy's function of that meaning, or by a compiled one."""
        combiner(self.problem.semiring.add, self.problem.dtype)(x, y)
