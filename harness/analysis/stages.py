"""The stages of a distributed product, of its first call and of warm ones, from stored cells. Pure."""

from __future__ import annotations

from harness.analysis.conditions import reading
from harness.store.store import Cell

# Readings of a cell that are no stages.
_OTHER = ("preempted", "cpu_share", "mhz")


def warm(cell: Cell) -> dict[str, float]:
    """Return milliseconds by stage of a warm call; they add up to the median time. Empty if stages were not read."""
    names = [name for name in cell.record.get("readings") or {} if name not in _OTHER]
    medians = {name: value / 1e6 for name in names if (value := reading(cell, name))}
    if "compute" not in medians:
        return {}
    known = {name: value for name, value in medians.items() if name != "rest"}
    return {**known, "rest": max(0.0, cell.median_ns / 1e6 - sum(known.values()))}


def first(cell: Cell) -> dict[str, float]:
    """Return milliseconds by stage of the first call, the start of the ranks included; empty if it was not timed."""
    return {stage: 1e3 * seconds for stage, seconds in (cell.facts.get("first_call_s") or {}).items()}
