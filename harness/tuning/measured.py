"""What was measured of some products, and the nearest of them for any other: the one search of all tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

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
        self._points = np.array([at for at, _ in pairs], np.float64).T
        self._reach = reach

    def near(self, point: Point) -> Iterator[Value]:
        """Yield the values near a point, that of the nearest first."""
        if not self._values:
            return
        apart = np.abs(self._points - np.array(point, np.float64)[:, None])
        farthest = apart.max(0)
        if farthest.min() <= self._reach:
            near = (farthest <= self._reach).nonzero()[0]
            distances = farthest[near] + apart[:, near].sum(0) / 100
            for index in near[np.argsort(distances, kind="stable")]:
                yield self._values[index]

    def within(self, point: Point, least: float) -> list[float]:
        """Return a point with coordinates that are no greater than all measured ones, or than `least`."""
        most = self._points.max(1, initial=least) if self._values else point
        return [min(x, y) for x, y in zip(point, most, strict=True)]
