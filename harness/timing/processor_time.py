"""What the host of a virtual machine took from its processors, as the kernel counts it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")
# Columns of the line "cpu": user nice system idle iowait irq softirq steal. What follows is part of user and nice.
_COLUMNS, _STEAL = 8, 7


class ProcessorTime(NamedTuple):
    """Time of all processors since the machine began [ticks of 10 ms]."""

    total: int
    stolen: int


def processor_time(stat: Path = _STAT) -> ProcessorTime:
    """Return the time that has passed on all processors, and what the host ran others for; zeros if it is not told."""
    try:
        name, *columns = stat.read_text().partition("\n")[0].split()
        ticks = [int(column) for column in columns[:_COLUMNS]]
    except (OSError, ValueError):
        return ProcessorTime(0, 0)
    return ProcessorTime(sum(ticks), ticks[_STEAL]) if name == "cpu" and len(ticks) > _STEAL else ProcessorTime(0, 0)


def stolen(before: ProcessorTime, after: ProcessorTime) -> float:
    """Return the part of the time of all processors in between that the host took; 0 if it does not tell."""
    total = after.total - before.total
    return round((after.stolen - before.stolen) / total, 4) if total > 0 else 0.0
