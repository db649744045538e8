"""Work stealing: ranks of one host whose own block is done compute parts of the blocks of others.

    cut each block of D into parts                the first is most of it, the others are small
    for rank in me, me + 1, ...                   its own parts first, then those of others
        while a part of rank's block is left, claim it
            D(part) := alpha (x) A(rows, all of k) (x) B(all of k, columns) (+) beta (x) C(part)

Blocks are equal, but processors are not: some are halves of cores, and a system has other work to do. Without stealing
all ranks wait for the slowest. Threads of one process claim parts of a product for the same reason. A, B, C and D lie
in memory of all ranks, so nothing is sent. A part is computed in the same way by whoever claims it. So not even the
last bit of D depends on the order of claims.

Source: Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing" (1999); Polychronopoulos and
Kuck, "Guided self-scheduling" (1987).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.distributed.grid import Decomposition, Rectangle
from harness.distributed.stages import Stages
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.claims import Claims
from harness.problem import Problem
from harness.tuning import distributed as tuning

if TYPE_CHECKING:
    from harness.distributed.product import Local


class StealingProduct:
    """The local product of a rank that helps others. It takes the whole block of k at once.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        The ranks of the grid; all must call this.
    sizes : Decomposition
        With one rank along k.
    wholes : mapping of str to array
        Whole A, B, D, and C if there is one, in memory that all ranks share.
    local : Local
    stages : Stages
        Counts the words of A and B that parts of others take, as those of the stage ``"steal"``.
    """

    accumulates_in_place = False

    def __init__(
        self, comm: Any, sizes: Decomposition, wholes: Mapping[str, np.ndarray], local: Local, stages: Stages
    ) -> None:
        self._wholes, self._local, self._stages = wholes, local, stages
        self._rank, ranks = comm.Get_rank(), comm.Get_size()
        self._parts = [cut(sizes.d(rank)) for rank in range(ranks)]
        own = Claims()
        paths = comm.allgather(own.path)
        self._claims = [own if rank == self._rank else Claims(path) for rank, path in enumerate(paths)]
        comm.Barrier()  # all have opened them

    def ready(self, a: Any, b: Any, c: Any, alpha: Any, beta: Any, out: Any) -> Callable[[], Any]:
        """Prepare this rank's own parts, and return what computes parts until none is left to begin.

        Those of ``out``, and of the blocks of other ranks, which are prepared when they are claimed. Others may still
        compute parts of `out` when it returns.
        """
        ranks, adds = len(self._parts), c is not None
        own = [self._ready(part, alpha, beta, adds=adds) for part in self._parts[self._rank]]

        def compute() -> Any:
            self._claims[self._rank].put(len(own))
            for owner in ((self._rank + step) % ranks for step in range(ranks)):
                while (number := self._claims[owner].take()) is not None:
                    if owner == self._rank:
                        own[number]()
                        continue
                    part = self._parts[owner][number]
                    self._stages.received("steal", sum(part.shape) * a.shape[1])
                    self._ready(part, alpha, beta, adds=adds)()
            return out

        return compute

    def close(self) -> None:
        """Let go of the claims of all ranks."""
        for claims in self._claims:
            claims.close()

    def _ready(self, part: Rectangle, alpha: Any, beta: Any, *, adds: bool) -> Callable[[], Any]:
        rows, columns = part.slices
        whole = self._wholes
        c = whole["c"][rows, columns] if adds else None
        return self._local.ready(whole["a"][rows], whole["b"][:, columns], c, alpha, beta, whole["d"][rows, columns])


def cut(block: Rectangle) -> list[Rectangle]:
    """Cut a block into parts: most of it, then small ones of equal size, so that the last to end are short."""
    head, tail = _cut_longer(block, (0, 1 - tuning.STOLEN, 1))
    count = tuning.STOLEN_PARTS
    return [part for part in (head, *_cut_longer(tail, [at / count for at in range(count + 1)])) if part.words]


def _cut_longer(block: Rectangle, cuts: Sequence[float]) -> list[Rectangle]:
    """Cut the longer side of a block at these parts of it, in whole steps of registers if it is long."""
    rows, columns = block.shape
    length, count = max(rows, columns), len(cuts) - 1
    step = tuning.STOLEN_STEP if length >= count * tuning.STOLEN_STEP else 1
    ends = [min(round(length * at / step) * step, length) for at in cuts[:-1]] + [length]
    if rows >= columns:
        return [block._replace(row=block.row + x, row_end=block.row + y) for x, y in itertools.pairwise(ends)]
    return [block._replace(column=block.column + x, column_end=block.column + y) for x, y in itertools.pairwise(ends)]


def steals(sizes: Decomposition, problem: Problem, schedule: Schedule, ranks: int) -> bool:
    """Return whether ranks whose operands lie in memory of all of them steal.

    They can where each element of D is one sum. An alpha would have each part scale rows of A in an array of its own.
    By themselves they do where waiting for the slowest rank costs more than cutting blocks: of many ranks, if blocks
    are large.
    """
    is_possible = 1 < ranks == sizes.grid.size and sizes.grid.pk == 1 and len(sizes.panels(0, schedule.panel)) == 1
    if not is_possible or problem.alpha is not None or not schedule.steal:
        return False
    rows, columns = sizes.d(0).shape
    pays = ranks >= tuning.STEAL_FROM_RANKS and rows * columns * sizes.k >= tuning.STEAL_FROM_PAIRS
    return schedule.steal == 1 or pays
