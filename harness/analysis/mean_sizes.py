"""Cells at several sizes as one: the geometric mean of their times, sample by sample. Pure.

A size can be special: at a power of two the lines of a column fall into few sets of a cache. A mean over others is not.
Samples of one round stay pairs, and so every ratio of a merged case is that of its rates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from harness.analysis import rates
from harness.experiment import content_hash
from harness.stats.statistics import geometric_mean
from harness.store.store import Cell

SIDES = ("m", "n", "k")


def merged(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of each contender at several sizes as one cell of a case of its own; others as they are.

    Sizes of one run stand together, if all else on the axes is equal. A contender is merged if it has a time at each.
    """
    found = []
    for group in rates.group(cells, _together).values():
        sizes = rates.group(group, lambda cell: cell.case)
        by_contender = rates.group(group, lambda cell: cell.contender).values()
        if len(sizes) == 1:
            found += group
        else:
            found += [_mean(own) for own in by_contender if len(own) == len(sizes)]
    return found


def _together(cell: Cell) -> str:
    return content_hash([cell.machine, cell.preset, {name: at for name, at in cell.axes.items() if name not in SIDES}])


def _mean(own: Sequence[Cell]) -> Cell:
    """Return the cell whose time is the geometric mean of those of `own`, one contender at several sizes."""
    axes = {side: f"{rates.axis(own[0], side)}-{rates.axis(own[-1], side)}" for side in SIDES}
    place: dict[str, Any] = {
        "run": own[0].run,
        "case": content_hash([cell.case for cell in own]),
        "axes": {**own[0].axes, **axes},
    }
    for cell in own:
        if not cell.is_ok:
            return dataclasses.replace(cell, **place)
    processes = zip(*(cell.samples_ns for cell in own), strict=False)
    samples = [[geometric_mean(at_once) for at_once in zip(*process, strict=False)] for process in processes]
    operations = geometric_mean([cell.facts["operations"] for cell in own])
    return dataclasses.replace(
        own[0],
        **place,
        samples_ns=samples,
        facts={"operations": operations},
    )
