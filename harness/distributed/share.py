"""The share of one rank in a product: its pieces of A, B, C and D, taken from any layout and given to any.

The pieces are allocated once. A rank beyond the grid is idle: it has no pieces, but may hold operands otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.distributed.grid import Decomposition, Rectangle
from harness.distributed.product import Local, RankProduct, Schedule
from harness.distributed.redistribute import NOTHING, redistribute
from harness.distributed.stages import Stages
from harness.distributed.transport.comms import Comms
from harness.operands import aligned_empty
from harness.problem import Problem


class Share:
    """Pieces of one product on one rank.

    Parameters
    ----------
    comms : Comms
    sizes : Decomposition
    problem : Problem
        The whole product.
    local : callable
        See `harness.distributed.product.Local`.
    schedule : Schedule
    """

    def __init__(self, comms: Comms, sizes: Decomposition, problem: Problem, local: Local, schedule: Schedule) -> None:
        self.stages, self.sizes, self.problem = Stages(), sizes, problem
        self.world = comms.everyone(self.stages, schedule.largest_message)
        self.rank, is_idle = self.world.rank, not comms.fibres
        a, b, d = (self.layout(name)[self.rank] for name in "abd")
        with self.stages.timed("allocate"):
            self._a = aligned_empty(a.shape, problem.input_dtype)
            self._b = aligned_empty(b.shape, problem.input_dtype)
            self._c = aligned_empty(d.shape, problem.dtype) if problem.accumulate else None
            self._d = aligned_empty(d.shape, problem.dtype)
        fibres = None if is_idle else comms.along(self.stages, schedule.largest_message)
        self._product = (
            None if fibres is None else RankProduct(sizes, problem, self.rank, fibres, local, self.stages, schedule)
        )

    @property
    def pieces(self) -> dict[str, Any]:
        """The arrays of this rank's pieces by name: ``"a"``, ``"b"``, ``"d"``, and ``"c"`` if there is a C."""
        arrays = {"a": self._a, "b": self._b, "d": self._d}
        return arrays if self._c is None else {**arrays, "c": self._c}

    @property
    def bytes_used(self) -> int:
        """Bytes that it has allocated."""
        held = sum(int(array.nbytes) for array in self.pieces.values())
        return held + (self._product.bytes_used if self._product else 0)

    def layout(self, name: str) -> list[Rectangle]:
        """Return the rectangle of the matrix ``"a"``, ``"b"``, ``"c"`` or ``"d"`` that each rank has a piece of."""
        piece = {"a": self.sizes.a, "b": self.sizes.b}.get(name, self.sizes.d)
        used = self.sizes.grid.size
        return [piece(rank) if rank < used else NOTHING for rank in range(self.world.size)]

    def take(self, name: str, held: np.ndarray, source: Sequence[Rectangle]) -> None:
        """Fill the piece `name` from a matrix of which every rank holds its rectangle of `source`."""
        with self.stages.timed("redistribute"):
            redistribute(self.world, held, source, self.layout(name), self.pieces[name])

    def multiply(self) -> None:
        """Compute the piece of D from those of A, B and C; all ranks must call it."""
        if self._product is not None:
            self._product.run(self._a, self._b, self._c, self._d)

    def give(self, out: np.ndarray, target: Sequence[Rectangle]) -> None:
        """Fill `out`, the rank's rectangle of `target`, from the pieces of D."""
        with self.stages.timed("collect"):
            redistribute(self.world, self._d, self.layout("d"), target, out)
