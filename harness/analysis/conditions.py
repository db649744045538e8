"""Conditions of a cell's samples: clock, power, launch time, and disturbance by throttling or preemption. Pure.

A disturbed sample stays among the others and in every interval: to drop samples by their circumstances would bias the
result. The marks stand beside the figure, so that a slow machine is not mistaken for slow code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.analysis import rates
from harness.stats import statistics
from harness.store.store import Cell

# A sample of 5 ms misses 0.25 ms by this: less than one time slice of another process, more than all interrupts.
LEAST_SHARE = 0.95
# Below this fraction of the clock it could have. Users of nvbench call its 75 % too lax and ask for 96 %. That reports
# one step of a frequency table (100 MHz of 2.5 GHz), but not the noise of a reading.
LEAST_CLOCK = 0.96
# The host counts what it takes in steps of 10 ms: less than this of a case is a step or two.
MOST_STOLEN = 0.02

Readings = Mapping[str, Sequence[Sequence[float | None]]]

# The first launches of a sample are done before its time begins, so launching takes a little less than all of it.
LAUNCH_BOUND = 0.9
# A contender that had less of the processors than this used one thread, however many it was allowed.
ONE_THREAD = 1.1
# Several threads of a loop out of registers do less than this part of their number times one thread's work where
# something else is on the cores; as `harness.run.all_cores` has it.
FREE_CORES = 0.9
# So many sizes are named one by one.
MOST_SIZES = 4
# How marks begin of which others are the cause: another program or the host, and no limit of the device itself.
_BY_OTHERS = ("descheduled", "cores not free", "the host took")
FEWEST_FIRM = 3  # samples of an end that a sentence names


def reading(cell: Cell, name: str) -> float | None:
    """Return the median of the readings of that name, or None without any."""
    processes = (cell.record.get("readings") or {}).get(name) or []
    known = [value for process in processes for value in process if value is not None]
    return statistics.median(known) if known else None


def clock_and_power(cell: Cell) -> str:
    """Return the clock and the power of the processor that computed, as far as they are known: "1755 MHz, 698 W"."""
    values = ((reading(cell, name), unit) for name, unit in (("mhz", "MHz"), ("watts", "W")))
    return ", ".join(f"{value:.0f} {unit}" for value, unit in values if value is not None)


def threads_used(cell: Cell) -> int:
    """Return how many threads `cell` used: one if its plan or its processor time says so, else all it was allowed."""
    planned = (cell.facts.get("plan") or {}).get("threads")
    share = reading(cell, "cpu_share")
    return 1 if planned == 1 or (share is not None and share < ONE_THREAD) else cell.threads


def one_of_several(cell: Cell) -> str:
    """Return "1 of 2 threads" where `cell` used one thread of several that it was allowed; else an empty string."""
    if not cell.is_ok or cell.threads == 1 or rates.is_on_device(cell) or threads_used(cell) > 1:
        return ""
    return f"1 of {cell.threads} threads"


def is_firm(cell: Cell) -> bool:
    """Return whether `cell` may be named as the best or the worst of many: several samples, no core taken away."""
    shares = (cell.record.get("readings") or {}).get("cpu_share", [])
    taken = any(any(descheduled(own, int(cell.record.get("threads", 1)))) for own in shares)
    return len(cell.all_samples_ns) >= FEWEST_FIRM and not taken


def weakness(cell: Cell) -> str:
    """Return why `cell` is no good best or worst of many, to stand behind its place: "; 2 samples"; else nothing."""
    count = len(cell.all_samples_ns)
    if count < FEWEST_FIRM:
        return f"; {rates.plural(count, 'sample')}"
    return "" if is_firm(cell) else "; disturbed"


def is_launch_bound(cell: Cell) -> bool:
    """Return whether the host takes at least about as long to launch a call as the device to compute it.

    Calls in a row then follow one another as fast as the host can enqueue them, and the device waits in between.
    """
    launch_ns = reading(cell, "launch_ns")
    return launch_ns is not None and launch_ns >= LAUNCH_BOUND * cell.median_ns


def launch_bound(cells: Iterable[Cell]) -> list[str]:
    """Return a sentence for each problem with launch-bound cells: "min_plus float32: gpu-tuned at n=16, n=64"."""
    by_problem = rates.group(filter(is_launch_bound, cells), lambda cell: rates.axis(cell, "problem"))
    return [f"{problem}: {_contenders(alike)}" for problem, alike in by_problem.items()]


def _contenders(cells: Iterable[Cell]) -> str:
    by_name = rates.group(cells, lambda cell: cell.contender)
    alike = rates.group(by_name, lambda name: _sizes(by_name[name]))
    return "; ".join(f"{', '.join(names)} at {sizes}" for sizes, names in alike.items())


def _sizes(cells: Iterable[Cell]) -> str:
    by_pairs = sorted(cells, key=lambda cell: math.prod(rates.axis(cell, side) or 1 for side in "mnk"))
    sizes = list(dict.fromkeys(map(rates.size, by_pairs)))
    return ", ".join(sizes) if len(sizes) <= MOST_SIZES else f"{sizes[0]} to {sizes[-1]} ({len(sizes)} sizes)"


def marks(record: Mapping[str, Any]) -> list[str]:
    """Return the disturbances of the samples of a stored cell: "descheduled in 2 of 6 samples"; empty without any.

    Any field of the record may be absent, as in records older than it.
    """
    readings: Readings = record.get("readings") or {}
    nominal = float((record.get("clock") or {}).get("nominal_mhz", 0.0))
    disturbed = {
        "descheduled": [descheduled(shares, int(record.get("threads", 1))) for shares in readings.get("cpu_share", [])],
        "throttled": [throttled(mhz, nominal) for mhz in readings.get("mhz", [])],
        "at its power limit": [[value == 1 for value in process] for process in readings.get("power_capped", [])],
        "timed with the launch": [[value == 0 for value in process] for process in readings.get("is_queued", [])],
    }
    sentences = []
    for condition, by_process in disturbed.items():
        samples = [is_disturbed for process in by_process for is_disturbed in process]
        if any(samples):
            sentences.append(f"{condition} in {sum(samples)} of {len(samples)} samples")
    seen = record.get("all_cores") or {}
    if {"gain", "threads"} <= seen.keys() and seen["gain"] < FREE_CORES * seen["threads"]:
        sentences.append(
            f"cores not free: {seen['threads']} threads of a register loop do {seen['gain']:.2f} times the work"
        )
    stolen = float(record.get("stolen") or 0.0)
    if stolen > MOST_STOLEN:
        sentences.append(f"the host took {100 * stolen:.0f} % of the processors")
    return sentences


def is_disturbed(cell: Cell) -> bool:
    """Return whether another program or the host took some of its processors."""
    return any(mark.startswith(_BY_OTHERS) for mark in marks(cell.record))


def descheduled(shares: Sequence[float | None], threads: int) -> list[bool]:
    """Return which samples of a process had less of the processors than they could use.

    A share is processor time over time, or None. One thread computes all the time, so it is compared with 1. Several
    wait for one another, each backend in its own way, so they are compared with the median of their own samples.
    """
    known = [share for share in shares if share is not None]
    usual = 1.0 if threads == 1 or not known else float(np.median(known))
    return [share is not None and share < LEAST_SHARE * usual for share in shares]


def throttled(mhz: Sequence[float | None], nominal: float = 0.0) -> list[bool]:
    """Return in which samples of a process the clock was low, against `nominal` [MHz] or the highest of the samples."""
    highest = max([nominal, *(value for value in mhz if value is not None)])
    return [value is not None and value < LEAST_CLOCK * highest for value in mhz]
