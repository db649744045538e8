"""Keep all single-threaded contenders of a case on one core; read the processor time that the host took.

Cores differ. Load on a core, or on its sibling on a shared host, lasts for seconds and makes a product take up to half
as long again. The ratio of processes on different cores contains that; interleaved on one core it cancels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.surroundings import can_keep, keep_on, processors

_STAT = Path("/proc/stat")
# Columns of the line "cpu": user nice system idle iowait irq softirq steal. What follows is part of user and nice.
_COLUMNS, _STEAL = 8, 7

_CPUS = Path("/sys/devices/system/cpu")
# A core with this part of the best core's highest clock counts as equally fast: some processors rate one core higher.
EQUALLY_FAST = 0.9


def fastest_cores(allowed: Sequence[int], cpus: Path = _CPUS) -> list[int]:
    """Return the `allowed` cores that no other is clearly faster than, last first: interrupts prefer core 0.

    Where the system reports neither capacity nor highest clock, as on a virtual machine, they count as equal.
    """
    for file in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            speeds = {core: int((cpus / f"cpu{core}" / file).read_text()) for core in allowed}
        except (OSError, ValueError):
            continue
        best = max(speeds.values(), default=0)
        return sorted((core for core, speed in speeds.items() if speed >= EQUALLY_FAST * best), reverse=True)
    return sorted(allowed, reverse=True)


@contextlib.contextmanager
def on_one_core(processes: Sequence[int], replicate: int) -> Iterator[int | None]:
    """Keep all threads of the `processes` on one core, and release them in the end.

    Parameters
    ----------
    processes : sequence of int
        Their numbers. One that has ended is passed over.
    replicate : int
        Selects the core: replicates use different ones, so that no core stands for the machine.

    Yields
    ------
    int or None
        The core; None where the system keeps no process on a core.
    """
    if not can_keep() or not processes:
        yield None
        return
    allowed = processors()
    cores = fastest_cores(allowed)
    core = cores[replicate % len(cores)]
    _keep(processes, [core])
    try:
        yield core
    finally:
        _keep(processes, allowed)


def _keep(processes: Sequence[int], cores: Sequence[int]) -> None:
    """Let the threads of the `processes` run on `cores` alone; those that they start inherit it."""
    for process in processes:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                with contextlib.suppress(OSError):
                    keep_on(int(thread.name), cores)


class ProcessorTime(NamedTuple):
    """Time of all processors since the machine began [ticks of 10 ms]."""

    total: int
    stolen: int


def processor_time(stat: Path = _STAT) -> ProcessorTime:
    """Return the time that has passed on all processors, and the part that the host took; zeros if not known."""
    try:
        name, *columns = stat.read_text().partition("\n")[0].split()
        ticks = [int(column) for column in columns[:_COLUMNS]]
    except (OSError, ValueError):
        return ProcessorTime(0, 0)
    return ProcessorTime(sum(ticks), ticks[_STEAL]) if name == "cpu" and len(ticks) > _STEAL else ProcessorTime(0, 0)


def stolen(before: ProcessorTime, after: ProcessorTime) -> float:
    """Return the fraction of the time of all processors in between that the host took; 0 if not known."""
    total = after.total - before.total
    return round((after.stolen - before.stolen) / total, 4) if total > 0 else 0.0
