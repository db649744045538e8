"""The product of one rank: gather panels of A and B, multiply them by any backend, reduce what k was cut into.

    for each panel of this rank's part of k:      panel = k_l: one panel, all at once
        gather A(i, panel) along pn, B(panel, j) along pm          from the ranks that hold the pieces
        D(i, j) := D(i, j) (+) alpha (x) A(i, panel) (x) B(panel, j)       any backend and semiring
    reduce D(i, j) along pk; a piece of rows for each rank
    beta (x) C enters once: with the first panel if pk = 1, else into the piece after the reduction

Pieces of A are rows of the block that is gathered, pieces of B too: all at once they travel without packing, and lie in
their place when they arrive. Panels accumulate from one array into another, since a backend must not read its output.

With `overlapped` a thread gathers a panel while the one before is computed with. On processors copies between ranks are
work of a core, so this pays only where cores are idle or a network adapter does the copying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.distributed.grid import Cuts, Decomposition
from harness.distributed.reduction import EXCHANGE, combiner, reduce_pieces
from harness.distributed.stages import Stages
from harness.distributed.transport.comms import Fibres
from harness.distributed.transport.mpi import LARGEST_MESSAGE, Fibre
from harness.distributed.transport.prefetch import Prefetcher
from harness.operands import aligned_empty
from harness.problem import Problem

# out := alpha (x) A (x) B (+) beta (x) C, without C if that is None; called as local(a, b, c, alpha, beta, out).
Local = Callable[[Any, Any, Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class Schedule:
    """How panels are gathered, and how partial sums are reduced.

    Parameters
    ----------
    panel : int
        Elements of k gathered at a time; 0: all.
    in_flight : int
        1: gather, then compute. 2 or more: a thread gathers that many panels ahead, the one in use included.
    reduction : str
        One of `harness.distributed.reduction.METHODS`.
    largest_message : int
        Bytes.
    """

    panel: int = 0
    in_flight: int = 1
    reduction: str = EXCHANGE
    largest_message: int = LARGEST_MESSAGE


class RankProduct:
    """The part of one rank in a distributed product, allocated once and computed any number of times.

    Parameters
    ----------
    sizes : Decomposition
    problem : Problem
        The whole product.
    rank : int
        In the grid.
    fibres : Fibres
    local : callable
        See `Local`.
    stages : Stages
    schedule : Schedule
    """

    def __init__(
        self,
        sizes: Decomposition,
        problem: Problem,
        rank: int,
        fibres: Fibres,
        local: Local,
        stages: Stages,
        schedule: Schedule,
    ) -> None:
        self.sizes, self.problem, self.rank = sizes, problem, rank
        self.fibres, self.local, self.stages, self.schedule = fibres, local, stages, schedule
        begin, end = sizes.k_range(rank)
        k = end - begin
        step = min(schedule.panel, k) or max(k, 1)
        self.panels = [(begin, min(begin + step, k)) for begin in range(0, k, step)] or [(0, 0)]
        rows, columns = (end - begin for begin, end in (sizes.rows(rank), sizes.columns(rank)))
        with stages.timed("allocate"):
            buffers = min(schedule.in_flight, len(self.panels))
            dtype = problem.input_dtype
            self._a = [aligned_empty((rows, step), dtype) for _ in range(buffers)]
            self._b = [aligned_empty((step, columns), dtype) for _ in range(buffers)]
            sums = (len(self.panels) > 1) + (sizes.grid.pk > 1)  # beside the output of the rank
            self._sums = [aligned_empty((rows, columns), problem.dtype) for _ in range(sums)]

    @property
    def bytes_used(self) -> int:
        """Bytes that it has allocated."""
        return sum(array.nbytes for array in (*self._a, *self._b, *self._sums))

    def run(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None, out: np.ndarray) -> None:
        """Compute the rank's piece of D; all ranks of the grid must call it.

        Parameters
        ----------
        a : (m_piece, k_block) array
            C-ordered.
        b : (k_piece, n_block) array
            C-ordered.
        c, out : (m_piece, n_block) arrays
            C-ordered. Without C it is None.
        """
        problem, is_whole = self.problem, self.sizes.grid.pk == 1
        first_c = c if is_whole else None
        sums = [out, *self._sums] if is_whole else [self._sums[-1], *self._sums[:-1]]
        total, target = first_c, sums[0]
        for step, (a_panel, b_panel) in enumerate(self._gathered(a, b)):
            target = sums[(len(self.panels) - 1 - step) % 2]  # the last panel ends in the first of them
            beta = problem.beta if step == 0 else None
            with self.stages.timed("compute"):
                self.local(a_panel, b_panel, total, problem.alpha, beta, target)
            total = target
        if not is_whole:
            with self.stages.timed("reduce"):
                self._reduce(target, c, out)

    def _gathered(self, a: np.ndarray, b: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Return the panels of A and of B, in the order of k."""
        a_cuts, b_cuts = self.sizes.a_cuts(self.rank), self.sizes.b_cuts(self.rank)
        row, column = self.fibres.row, self.fibres.column

        def fetch(step: int) -> tuple[np.ndarray, np.ndarray]:
            begin, end = self.panels[step]
            cuts = tuple(min(max(cut, begin), end) - begin for cut in b_cuts)
            first = b_cuts[column.rank] - begin  # of the rows of B that are here, counted from those of the panel
            b_piece = b[cuts[column.rank] - first : cuts[column.rank + 1] - first]
            a_panel = self._panel(row, a[:, begin:end], a_cuts, self._a[step % len(self._a)])
            return a_panel, self._panel(column, b_piece, cuts, self._b[step % len(self._b)])

        steps, ahead = len(self.panels), self.schedule.in_flight
        return Prefetcher(fetch, steps, ahead) if ahead > 1 and steps > 1 else map(fetch, range(steps))

    def _panel(self, fibre: Fibre, piece: np.ndarray, cuts: Cuts, buffer: np.ndarray) -> np.ndarray:
        """Return the panel whose pieces the ranks of `fibre` hold, in the memory of `buffer` unless it is here."""
        if fibre.size == 1:
            return piece
        shape = cuts[-1], piece.shape[1]
        target = buffer.reshape(-1)[: shape[0] * shape[1]].reshape(shape)
        with self.stages.timed(fibre.stage):
            fibre.gather(piece, cuts, target)
        return target

    def _reduce(self, partial: np.ndarray, c: np.ndarray | None, out: np.ndarray) -> None:
        problem, add = self.problem, self.problem.semiring.add
        cuts = self.sizes.d_cuts(self.rank)
        reduce_pieces(partial, cuts, self.fibres.layer, add, out, self.schedule.reduction)
        if c is not None:
            nothing = np.empty((c.shape[0], 0), problem.input_dtype), np.empty((0, c.shape[1]), problem.input_dtype)
            scaled = np.empty_like(c)
            self.local(*nothing, c, None, problem.beta, scaled)  # zero (+) beta (x) C
            combiner(add, problem.dtype)(out, scaled)
