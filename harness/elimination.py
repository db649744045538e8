"""All pairs of best paths as a list of steps: which block of pivots is closed, which rows are improved by which pivots.

A step improves rows by all paths through pivots K at once, in place::

    D[rows, :]  :=  D[rows, :]  (+)  D[rows, K] (x) D[K, :]

The list depends on sizes alone. To let all paths from a range of vertices pass through that range, it is cut into
pieces: halves, or panels where halves are larger. Each piece is closed, and then improves the other rows of the range.
A range of one block is closed by itself, and its rows are improved by it: of those, D[K, K] and D[K, :] are what they
were before the step. All products together have n^3 pairs, most of them with k of a panel.

Where products want many rows, steps are joined: with one step a block is closed and improves all rows of its range, its
own too. By D[rows, K] closed, which are all paths to K through K, this is one product.

What begins and ends a closure is the same for all ways to close.

Source: Venkataraman, Sahni and Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm" (2003), section 2. By
halves: D'Alberto and Nicolau, "R-Kleene" (2007).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from harness.semiring import Semiring


class Step(NamedTuple):
    """A block of vertices that is closed, or rows that are improved by pivots.

    Attributes
    ----------
    rows, pivots : slice
        Equal, or with nothing in common. Of a joined step rows has pivots in it.
    closes : bool
        Whether only paths inside of `pivots`, which are `rows`, are followed: of D[K, K] alone. A joined step closes
        its pivots, and improves the rows by them.
    """

    rows: slice
    pivots: slice
    closes: bool = False


@functools.lru_cache(maxsize=64)
def steps_of(n: int, block: int, panel: int, *, joined: bool = False) -> tuple[Step, ...]:
    """Return the steps that close a matrix of `n` vertices.

    Parameters
    ----------
    n : int
    block : int
        Most vertices that are closed at once.
    panel : int
        Most pivots of a product: it bounds the memory for copies of columns.
    joined : bool
        Whether each block improves all rows of its panel with the step that closes it; panels are not halved.
    """
    steps: list[Step] = []
    panel = max(panel // block, 1) * block

    def close(begin: int, end: int, rows: slice) -> None:
        """Close a range; the rows of a joined step are those of the range that it is a piece of."""
        size = end - begin
        if size <= block:
            here = slice(begin, end)
            steps.append(Step(rows if joined else here, here, closes=True))
            if size < n and not joined:
                steps.append(Step(here, here))
            return
        half = -(-size // (2 * block)) * block
        piece = min(half, panel) if not joined else panel if size > panel else block
        for first in range(begin, end, piece):
            last = min(first + piece, end)
            close(first, last, slice(begin, end))
            others = (slice(begin, first), slice(last, end)) if not joined or last - first > block else ()
            steps.extend(Step(rows, slice(first, last)) for rows in others if rows.start < rows.stop)

    if n:
        close(0, n, slice(0, n))
    return tuple(steps)


def find_nan(matrices: Any) -> int:
    """Return the place of the first NaN, as of one flat array, or -1."""
    is_nan = (matrices != matrices).reshape(-1)  # noqa: PLR0124
    return int(is_nan.argmax()) if is_nan.any() else -1


def put_one(matrices: Any, semiring: Semiring) -> None:
    """Add the one of the semiring, the empty path, to each diagonal of C-ordered (count, n, n) `matrices`."""
    n = matrices.shape[-1]
    for matrix in matrices:
        diagonal = matrix.reshape(-1)[:: n + 1]  # a view
        semiring.add.ufunc(diagonal, semiring.one(matrices.dtype), out=diagonal)


def find_cycle(matrices: Any, semiring: Semiring) -> int:
    """Return the first row of (count, n, n) `matrices` whose path to itself is better than the empty one, or -1."""
    is_better = (matrices.diagonal(axis1=1, axis2=2) != semiring.one(matrices.dtype)).reshape(-1)
    return int(is_better.argmax()) if is_better.any() else -1
