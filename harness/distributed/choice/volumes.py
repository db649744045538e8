"""Words that ranks receive: by the formula of a grid, and by a bound that no algorithm beats; and the grids to compare.

Source: Al Daas et al., "Tight memory-independent parallel matrix multiplication communication lower bounds" (2022).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from harness.distributed.choice.numbers import count_of, sizes_of
from harness.distributed.grid import Grid

# The smallest part of the ranks that an automatic grid may use.
LEAST_USED = 0.85


def volume(m: int, n: int, k: int, grid: str | Grid) -> float:
    """Return the words that a rank receives when pieces are even, by the formula for sizes that divide.

    ``mk/(pm pk) (1 - 1/pn) + kn/(pk pn) (1 - 1/pm) + mn/(pm pn) (1 - 1/pk)``.

    Raises
    ------
    PlanError
        If a size or the grid is none.
    """
    m, n, k = sizes_of("volume", m, n, k)
    grid = Grid.of(grid)
    pm, pn, pk = grid.pm, grid.pn, grid.pk
    gathered = m * k / (pm * pk) * (1 - 1 / pn) + k * n / (pk * pn) * (1 - 1 / pm)
    return gathered + m * n / (pm * pn) * (1 - 1 / pk)


def lower_bound(m: int, n: int, k: int, ranks: int) -> float:
    """Return the words that some rank must receive, however the product is computed on `ranks` ranks.

    With the sides sorted a >= b >= c it is ``D - (ab + ac + bc) / P``, where D depends on which of three regimes P is
    in. Memory is not limited. Source: Al Daas et al. (2022), theorem 4.1.

    Raises
    ------
    PlanError
        If a size or the number of ranks is none.
    """
    c, b, a = sorted(sizes_of("lower_bound", m, n, k))
    ranks = count_of("lower_bound", "ranks", ranks)
    if not c or ranks == 1:
        return 0.0
    if ranks <= a / b:
        accessed = (a * b + a * c) / ranks + b * c
    elif ranks <= a * b / c**2:
        accessed = 2 * math.sqrt(a * b * c**2 / ranks) + a * b / ranks
    else:
        accessed = 3 * (a * b * c / ranks) ** (2 / 3)
    return max(0.0, accessed - (a * b + a * c + b * c) / ranks)


def root_bound(m: int, n: int, k: int, ranks: int) -> float:
    """Return the words that rank 0 sends and receives if A, B and D lie there: ``(1 - 1/P) (mk + kn + mn)``."""
    return (1 - 1 / ranks) * (m * k + k * n + m * n)


def grids(ranks: int) -> Iterator[Grid]:
    """Yield every grid of exactly `ranks` ranks.

    Raises
    ------
    PlanError
        If that is no number of ranks.
    """
    return _grids(count_of("grids", "ranks", ranks))


def _grids(ranks: int) -> Iterator[Grid]:
    divisors = [side for side in range(1, ranks + 1) if ranks % side == 0]
    for pm, pn in itertools.product(divisors, divisors):
        if ranks % (pm * pn) == 0:
            yield Grid(pm, pn, ranks // (pm * pn))


def candidate_grids(ranks: int) -> Iterator[Grid]:
    """Yield every grid that leaves at most 15 % of `ranks` idle."""
    for used in range(math.ceil(LEAST_USED * ranks), ranks + 1):
        yield from _grids(used)
