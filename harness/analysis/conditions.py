"""What was read beside the times of a cell, over its samples: clock and power, and what a launch takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from harness.analysis import rates
from harness.stats import statistics
from harness.store.store import Cell

# The first launches of a sample are done before its time begins: a little less than all of it is launching.
LAUNCH_BOUND = 0.9
# So many sizes are named one by one.
MOST_SIZES = 6


def reading(cell: Cell, name: str) -> float | None:
    """Return the median of what was read by that name; None: nothing was."""
    processes = (cell.record.get("readings") or {}).get(name) or []
    known = [value for process in processes for value in process if value is not None]
    return statistics.median(known) if known else None


def clock_and_power(cell: Cell) -> str:
    """Return the clock and the power of what computed, as far as they are known: "1755 MHz, 698 W"."""
    values = ((reading(cell, name), unit) for name, unit in (("mhz", "MHz"), ("watts", "W")))
    return ", ".join(f"{value:.0f} {unit}" for value, unit in values if value is not None)


def is_launch_bound(cell: Cell) -> bool:
    """Whether the host takes about as long to launch a call as the device to compute it, or longer.

    Calls in a row then follow one another as fast as the host can enqueue them, and the device waits in between.
    """
    launch_ns = reading(cell, "launch_ns")
    return launch_ns is not None and launch_ns >= LAUNCH_BOUND * cell.median_ns


def launch_bound(cells: Iterable[Cell]) -> list[str]:
    """Return a sentence for each problem with launch-bound cells: "min_plus float32: gpu-tuned at n=16, n=64"."""
    by_problem = rates.group(filter(is_launch_bound, cells), lambda cell: rates.axis(cell, "problem"))
    return [f"{problem}: {_contenders(own)}" for problem, own in by_problem.items()]


def _contenders(cells: Iterable[Cell]) -> str:
    by_name = rates.group(cells, lambda cell: cell.contender)
    return "; ".join(f"{name} at {_sizes(own)}" for name, own in by_name.items())


def _sizes(cells: Iterable[Cell]) -> str:
    sizes = list(dict.fromkeys(rates.size(cell) for cell in cells))
    return ", ".join(sizes) if len(sizes) <= MOST_SIZES else f"{sizes[0]} to {sizes[-1]} ({len(sizes)} sizes)"
