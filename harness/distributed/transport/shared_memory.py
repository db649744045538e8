"""The way between ranks of one host: each reads the pieces of the others where they lie, and nothing is copied.

    A(i, l)      one array for the ranks of a row: rank j writes the j-th part of k, all read the whole
    B(l, j)      one array for the ranks of a column
    D(i, j)      one partial sum for each rank along k: all read their rows of every one

So a panel is part of an array that is there already, and to gather it is to wait until all have written their pieces.
Where whole matrices lie in memory of all ranks, blocks are parts of these, and nothing is copied at all.
The words that a rank reads of others are counted: they are those that would be sent. A fibre whose ranks run on several
hosts uses MPI.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import numpy as np

from harness.distributed.grid import Decomposition
from harness.distributed.reduction import combine_in_order, combiner, pieces_arrive
from harness.distributed.stages import Stages
from harness.distributed.transport.base import Schedule, Side
from harness.distributed.transport.comms import Fibres
from harness.distributed.transport.host import HostTransport
from harness.distributed.transport.shared_arrays import allocate_shared
from harness.problem import Problem


class SharedMemory(HostTransport):
    """Memory that the ranks of a fibre share.

    A rank may overwrite its pieces when all ranks have returned from a product, since others read them till then.
    """

    name = "shared"

    def __init__(
        self, sizes: Decomposition, problem: Problem, rank: int, fibres: Fibres, stages: Stages, schedule: Schedule
    ) -> None:
        self._shared = sizes.shared(rank)
        self._extents = sizes.rows(rank), sizes.columns(rank), sizes.k_range(rank)
        self._blocks: dict[str, np.ndarray] = {}
        self._lent: dict[str, np.ndarray] = {}
        self._partials: np.ndarray | None = None
        super().__init__(sizes, problem, rank, fibres, stages, schedule)

    def lend(self, wholes: Mapping[str, np.ndarray]) -> None:
        """Take blocks out of A and B as they lie in memory that all ranks share; before pieces are asked for."""
        (row, row_end), (column, column_end), (begin, end) = self._extents
        self._lent = {"a": wholes["a"][row:row_end, begin:end].T, "b": wholes["b"][begin:end, column:column_end]}

    def arrives(self, side: Side) -> bool:
        """Return whether panels of a side come from other hosts."""
        return side.name not in self._shared and super().arrives(side)

    def piece(self, side: Side) -> np.ndarray:
        """Return this rank's part of the block that its fibre shares."""
        block = self._lent.get(side.name)
        if block is None and side.name not in self._shared:
            own: np.ndarray = super().piece(side)
            return own
        if block is None:
            block = allocate_shared(side.fibre.comm, (side.cuts[-1], side.length), self.problem.input_dtype)
        self._blocks[side.name] = block
        part = block[side.cuts[side.fibre.rank] : side.cuts[side.fibre.rank + 1]]
        return part.T if side.name == "a" else part

    def partial(self, shape: tuple[int, int]) -> np.ndarray:
        """Return this rank's part of the partial sums, unless MPI combines them."""
        layer = self.fibres.layer
        if "d" not in self._shared or not self._combines:
            own: np.ndarray = super().partial(shape)
            return own
        self._partials = allocate_shared(layer.comm, (layer.size, *shape), self.problem.dtype)
        mine: np.ndarray = self._partials[layer.rank]
        return mine

    def offer(self, a: np.ndarray, b: np.ndarray, partial: np.ndarray | None) -> None:
        """Make room for partial sums that come from other hosts; all else is offered already."""
        self._arrived = []
        if self._partials is None:
            super().offer(a, b, partial)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Begin when all ranks of a fibre have their pieces there, and have read the sums of the last product."""
        for fibre, name in zip(self.fibres, "abd", strict=True):
            if name in self._shared:
                with self.stages.timed(fibre.stage):
                    fibre.meet()
        yield

    def panel(self, side: Side, piece: np.ndarray, step: int) -> np.ndarray:
        """Return part of the block that the fibre shares, or what arrives."""
        block = self._blocks.get(side.name)
        if block is None:
            return super().panel(side, piece, step)
        begin, end = self.panels[step]
        side.fibre.read(side.cuts, begin, end, side.length)
        return block[begin:end]

    def reduce(self, partial: np.ndarray, out: np.ndarray) -> None:
        """Combine this rank's rows of all partial sums, in the order of ranks, when they are complete."""
        if self._partials is None:
            super().reduce(partial, out)
            return
        layer = self.fibres.layer
        layer.meet()
        begin, end = self.d_cuts[layer.rank : layer.rank + 2]
        layer.read(tuple(range(layer.size + 1)), 0, layer.size, out.size)
        combine_in_order(self._partials[:, begin:end], combiner(self.problem.semiring.add, out.dtype), out)

    @property
    def _combines(self) -> bool:
        """Whether ranks combine partial sums themselves."""
        return pieces_arrive(self.problem.semiring.add, self.problem.dtype, self.schedule.reduction)
