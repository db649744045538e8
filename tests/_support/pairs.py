"""Fewer combinations than all: those that hold each value of one axis together with each value of every other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any


def pairs(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return rows such that each pair of values of two axes stands in one: for tests, in place of `itertools.product`.

    They meet a fault that one value or two together bring about. Their number is near that of the two longest axes.
    """
    values = [list(axis) for axis in axes]
    numbered = itertools.combinations([[(i, x) for x in range(len(axis))] for i, axis in enumerate(values)], 2)
    missing = {pair for one, other in numbered for pair in itertools.product(one, other)}
    rows = []
    while missing:
        row = dict(min(missing))
        for i in range(len(values)):
            if i not in row:
                gains = [len(missing & _pairs_of(row | {i: x})) for x in range(len(values[i]))]
                row[i] = gains.index(max(gains))
        missing -= _pairs_of(row)
        rows.append(tuple(axis[row[i]] for i, axis in enumerate(values)))
    return rows


def _pairs_of(row: dict[int, int]) -> set[tuple[tuple[int, int], ...]]:
    return set(itertools.combinations(sorted(row.items()), 2))
