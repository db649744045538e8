"""The model of distributed products on more ranks than there are: efficiency by form of the grid. Pure.

Sizes and numbers of ranks are powers of two, so that all ranks have the same and one stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.analysis.ranks.model import word_bytes
from harness.distributed.choice.model import Rates, predict
from harness.distributed.choice.volumes import grids, root_bound
from harness.distributed.grid import Decomposition, Grid
from harness.distributed.links import Link
from harness.store.store import Cell

COUNTS = tuple(2**power for power in range(13))
# The forms of a grid, and a limit: all data on rank 0, which does nothing but send and receive.
ONE, TWO, THREE, ROOT = "1-D: P x 1 x 1", "2-D: pm x pn x 1", "3-D: pm x pn x pk", "limit from rank 0"
_BELONGS: dict[str, Callable[[Grid], bool]] = {
    ONE: lambda grid: grid.pn == grid.pk == 1,
    TWO: lambda grid: grid.pk == 1,
    THREE: lambda grid: True,
}


@dataclass(frozen=True)
class Uniform(Decomposition):
    """A decomposition whose grid divides its sizes: every rank has the most."""

    def most(self, count: Callable[[int], int]) -> int:
        """Return `count` of rank 0."""
        return count(0)


def efficiencies(
    cell: Cell, form: str, n: int, bytes_per_s: float, latency_s: float, reduced_bytes_per_s: float = 0.0
) -> list[tuple[int, float]]:
    """Return numbers of ranks, and the efficiency of the best grid of a form there [percent].

    Parameters
    ----------
    cell : Cell
        Whose measured rate is that of a rank.
    form : str
        `ONE`, `TWO`, `THREE`, or `ROOT`, which any form reaches at most if the data lie on rank 0.
    n : int
        Side of the product, a power of two.
    bytes_per_s, latency_s, reduced_bytes_per_s : float
        Of the `Link` of each rank.
    """
    rates = Rates(cell.rate * 1e9 / 2, Link(bytes_per_s, latency_s, reduced_bytes_per_s))
    alone_s, size = n**3 / rates.pairs_per_s, word_bytes(cell)
    return [(ranks, 100 * alone_s / ranks / _least_s(form, n, ranks, size, rates)) for ranks in COUNTS]


def _least_s(form: str, n: int, ranks: int, size: int, rates: Rates) -> float:
    """Return the least time that a form allows by the model, for elements of `size` bytes."""
    if form == ROOT:
        sent_s = root_bound(n, n, n, ranks) * size / rates.link.bytes_per_s
        return max(sent_s, n**3 / ranks / rates.pairs_per_s)
    fitting = filter(_BELONGS[form], grids(ranks))
    return min(predict(Uniform(n, n, n, grid), size, rates).total_s for grid in fitting)
