"""Offload thresholds: the size from which a device is faster than the best of the host. Pure, from cells.

A threshold holds for all larger sizes that were measured as well. Only a ratio whose interval lies above 1 counts, so
that one lucky sample decides nothing. It lies between two sizes, since those between them were not measured.

Source
------
GPU-BLOB (University of Bristol), which walks sizes upwards until the GPU wins and goes on winning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.analysis import rates, rivals
from harness.store.store import Cell


@dataclass(frozen=True)
class Threshold:
    """The sizes between which a contender on a device overtakes the host."""

    problem: str  # semiring and dtype
    contender: str
    above: int | None  # largest size n at which the device is not yet surely faster; None: it is at all of them
    up_to: int | None  # smallest size from which on it is faster; None: there is none

    def __str__(self) -> str:
        """Return the threshold as a phrase: "copies once between n=256 and n=512"."""
        if self.up_to is None:
            return f"{self.contender} not up to n={self.above}"
        if self.above is None:
            return f"{self.contender} from n={self.up_to} on, or earlier"
        return f"{self.contender} between n={self.above} and n={self.up_to}"


def thresholds(cells: Iterable[Cell]) -> list[Threshold]:
    """Return the threshold of each contender on a device that was timed interleaved with some of the host, by problem.

    Only contenders whose copies between host and device are timed, and square products: their sizes form one row.
    """
    square = [cell for cell in rates.timed(cells) if rates.size(cell).startswith("n=")]
    hosts = [cell for cell in square if not rates.is_on_device(cell)]
    copied = [cell for cell in square if rates.is_on_device(cell) and "copies" in cell.arguments]
    devices = [cell for cell in copied if rivals.fastest_other(cell, hosts)]
    crossings = []
    for (problem, name), series in rates.group(devices, lambda c: (rates.axis(c, "problem"), c.contender)).items():
        above = max((rates.axis(cell, "n") for cell in series if not _is_faster(cell, hosts)), default=None)
        beyond = [n for n in (rates.axis(cell, "n") for cell in series) if above is None or n > above]
        crossings.append(Threshold(problem, name, above, min(beyond, default=None)))
    return crossings


def sentences(cells: Iterable[Cell]) -> list[str]:
    """Return a sentence for each problem that has thresholds: "min_plus float32: copies once between n=256 and ..."."""
    by_problem = rates.group(thresholds(cells), lambda threshold: threshold.problem)
    return [f"{problem}: {'; '.join(map(str, crossings))}" for problem, crossings in by_problem.items()]


def _is_faster(cell: Cell, hosts: list[Cell]) -> bool:
    """Return whether `cell` is surely faster than the fastest of the host in its case."""
    ratio = rivals.over_other(cell, hosts)
    return ratio is not None and ratio.low > 1
