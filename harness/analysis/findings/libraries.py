"""Findings about libraries that stand in a figure twice: as installed, and told which processor this is. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import rates
from harness.experiment import Json
from harness.stats.statistics import geometric_mean
from harness.store.store import Cell


def is_as_installed(cell: Cell) -> bool:
    """Return whether `cell` was measured without variables that tell its library what to do."""
    return not cell.record.get("environment")


def as_installed(cells: Sequence[Cell], options: Json) -> str:
    """Return the speed of the subject over the fastest peer as installed; empty where no peer was told anything."""
    plain = [cell for cell in cells if is_as_installed(cell)]
    if len(plain) == len(cells):
        return ""
    own = [c for c in rates.contenders(plain) if c.is_ok and rates.axis(c, "backend") == options["subject"]]
    ratios = [ratio.estimate for cell in own if (ratio := rates.over_fastest(cell, plain)) is not None]
    return f"{geometric_mean(ratios):.2f} times that of the fastest as installed" if ratios else ""
