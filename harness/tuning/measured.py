"""What was measured of some products, and the nearest of them for any other: the one search of all tables."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

# Neighbours of a cell whose sides are as long as points reach, and itself, by the coordinates that tell most.
_BESIDE = tuple(itertools.product((-1, 0, 1), repeat=3))

Value = TypeVar("Value")
Point = Sequence[float]


class Measured(Generic[Value]):
    """Values at points, all of as many coordinates, such as logarithms of sizes.

    The distance of two points is that of their farthest coordinates, and a hundredth of that in all of them together.
    Of points at the same distance the earlier one is nearer.

    Parameters
    ----------
    entries : iterable of (point, value)
    reach : float
        Points with a coordinate that is farther away are not near.
    """

    def __init__(self, entries: Iterable[tuple[Point, Value]], reach: float) -> None:
        pairs = list(entries)
        self._values = [value for _, value in pairs]
        self._points = np.array([at for at, _ in pairs], np.float64)
        self._most = self._points.max(0).tolist() if pairs else []
        self._reach, self._cells = reach, set[tuple[int, ...]]()
        for at, _ in pairs:  # most points of a sparse table have none near
            cell = [int(x // reach) for x in at[: len(_BESIDE[0])]]
            self._cells.update(tuple(map(operator.add, cell, beside)) for beside in _BESIDE)

    def near(self, point: Point) -> Iterator[Value]:
        """Yield the values near a point, that of the nearest first."""
        if not self._values or tuple([int(x // self._reach) for x in point[: len(_BESIDE[0])]]) not in self._cells:
            return
        near, apart = self._near(point)
        if len(near):
            distances = apart.max(1) + apart.sum(1) / 100
            yield self._values[near[distances.argmin()]]
            for index in distances.argsort(kind="stable")[1:]:
                yield self._values[near[index]]

    def _near(self, point: Point) -> tuple[Any, Any]:
        """Return the numbers of the points near one, and how far their coordinates are from its."""
        apart = np.abs(self._points - point)
        near = np.flatnonzero(np.all(apart <= self._reach, axis=1))
        return near, apart[near]

    def within(self, point: Point, least: float) -> list[float]:
        """Return a point with coordinates that are no greater than all measured ones, or than `least`."""
        return [min(x, max(least, most)) for x, most in zip(point, self._most or point, strict=True)]
