"""The product of one rank: gather panels of A and B, multiply them by any backend, reduce what k was cut into.

    for each panel of this rank's part of k:      panel = k_l: one panel, all at once
        gather A(i, panel) along pn, B(panel, j) along pm          from the ranks that hold the pieces
        D(i, j) := D(i, j) (+) alpha (x) A(i, panel) (x) B(panel, j)       any backend and semiring
    reduce D(i, j) along pk; a piece of rows for each rank
    beta (x) C enters once: with the first panel if pk = 1, else into the piece after the reduction

How panels arrive and partial sums are combined, and in which memory, is the transport's part
(`harness.distributed.transport`). Panels accumulate in place where the local backend allows it
(`accumulates_in_place`), else from one array into another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from harness.distributed.arrays import HostArrays
from harness.distributed.grid import Decomposition
from harness.distributed.transport.base import Schedule, Transport
from harness.problem import Problem

__all__ = ["Local", "RankProduct", "Schedule"]


class Local(Protocol):
    """The product that a rank computes of its panels.

    Attributes
    ----------
    accumulates_in_place : bool
        Whether `c` may be `out`, which then holds a sum of products.
    """

    accumulates_in_place: bool

    def ready(self, a: Any, b: Any, c: Any, alpha: Any, beta: Any, out: Any) -> Callable[[], Any]:
        """Prepare ``out := alpha (x) A (x) B (+) beta (x) C``, without C if that is None, and return what computes it.

        What does not depend on values, as compiling, is done here: it is no part of the time of the product.
        """


class RankProduct:
    """The part of one rank in a distributed product, allocated once and computed any number of times.

    Parameters
    ----------
    sizes : Decomposition
    problem : Problem
        The whole product.
    transport : Transport
    local : Local
    a, b : arrays
        The rank's pieces, as `Transport.piece` makes them. Others may read them while `run` runs on any rank.
    """

    def __init__(
        self, sizes: Decomposition, problem: Problem, transport: Transport, local: Local, a: Any, b: Any
    ) -> None:
        self.problem, self.transport, self.local = problem, transport, local
        self._a, self._b, self._is_whole = a, b, sizes.grid.pk == 1
        self._spare = len(transport.panels) > 1 and not local.accumulates_in_place
        arrays = transport.arrays
        with transport.stages.timed("allocate"):
            shape = transport.sides[0].length, transport.sides[1].length
            self._sums = [] if self._is_whole else [transport.partial(shape)]
            self._sums += [arrays.empty(shape, problem.dtype) for _ in range(self._spare)]
            transport.offer(a, b, None if self._is_whole else self._sums[0])
            d_shape = transport.d_rows, shape[1]
            self._c_alone = None if self._is_whole or not problem.accumulate else _CAlone(arrays, d_shape, problem)

    @property
    def bytes_used(self) -> int:
        """Bytes that it has allocated."""
        arrays = [*self._sums, *([] if self._c_alone is None else [self._c_alone.scaled])]
        return self.transport.bytes_used + sum(int(array.nbytes) for array in arrays)

    def run(self, c: Any, out: Any) -> None:
        """Compute the rank's piece of D; all ranks of the grid must call it.

        Parameters
        ----------
        c, out : (m_piece, n_block) arrays
            C-ordered. Without C it is None.
        """
        problem, transport = self.problem, self.transport
        sums = [out, *self._sums] if self._is_whole else self._sums
        total, steps = c if self._is_whole else None, len(transport.panels)
        with transport.running():
            for step, (a_panel, b_panel) in enumerate(transport.gathered(self._a, self._b)):
                target = sums[(steps - 1 - step) % (1 + self._spare)]  # the last panel ends in the first of them
                beta = problem.beta if step == 0 and total is not None else None
                multiply = self._ready(a_panel, b_panel, total, problem.alpha, beta, target)
                with transport.timed("compute"):
                    multiply()
                total = target
            if not self._is_whole:
                self._reduce(c, out)

    def _ready(self, *arguments: Any) -> Callable[[], Any]:
        with self.transport.stages.timed("prepare"):
            return self.local.ready(*arguments)

    def _reduce(self, c: Any, out: Any) -> None:
        alone, transport = self._c_alone, self.transport
        scale = None if alone is None else self._ready(alone.a, alone.b, c, None, self.problem.beta, alone.scaled)
        with transport.timed("reduce"):
            transport.reduce(self._sums[0], out)
            if alone is not None and scale is not None:
                scale()
                transport.combine(out, alone.scaled)


class _CAlone:
    """Arrays for ``scaled := zero (+) beta (x) C``, a product without terms."""

    def __init__(self, arrays: HostArrays, shape: tuple[int, int], problem: Problem) -> None:
        self.a = arrays.empty((shape[0], 0), problem.input_dtype)
        self.b = arrays.empty((0, shape[1]), problem.input_dtype)
        self.scaled = arrays.empty(shape, problem.dtype)
