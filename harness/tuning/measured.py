"""What was measured of some products, and the nearest of them for any other: the one search of all tables."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

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

    def near(self, point: Point) -> Iterator[tuple[float, Value]]:
        """Yield the distances and values near a point, those of the nearest first."""
        if not self._values or tuple([int(x // self._reach) for x in point[: len(_BESIDE[0])]]) not in self._cells:
            return
        apart = np.abs(self._points - point)
        far = apart.max(1)
        distances = far + apart.sum(1) / 100
        nearest = int(distances.argmin())
        if far[nearest] <= self._reach:  # then none that is near is nearer
            yield float(distances[nearest]), self._values[nearest]
        near = np.flatnonzero(far <= self._reach)
        for index in near[distances[near].argsort(kind="stable")].tolist():
            if index != nearest:
                yield float(distances[index]), self._values[index]

    def within(self, point: Point, least: float) -> list[float]:
        """Return a point with coordinates that are no greater than all measured ones, or than `least`."""
        return [min(x, max(least, most)) for x, most in zip(point, self._most or point, strict=True)]
