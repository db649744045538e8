"""What a clock is: it times calls of something that is run and waited for. Here the processor's own."""

from __future__ import annotations

import gc
import itertools
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from harness.timing.cold_caches import evict
from harness.timing.frequency import CoreFrequency

Action = Callable[[], None]

# The kernel counts the processor time of a process in microseconds: of a shorter sample its share says nothing.
SHORTEST_SHARED_NS = 100_000


class Sample(NamedTuple):
    """One timing.

    Parameters
    ----------
    ns : float
        Mean time of a call [ns].
    readings : mapping of str to float
        What else was read off the machine meanwhile; which names there are and what they mean is the clock's affair.
    """

    ns: float
    readings: Mapping[str, float]


class Clock(Protocol):
    """Times a task. A device has a clock of its own, since its work goes on after `run` has returned."""

    def sample(self, run: Action, wait: Action, loops: int) -> Sample:
        """Time `loops` calls, one after the other, each of them `run` and then `wait`."""
        ...

    def flush(self) -> None:
        """Empty the caches of whatever computes, and return when that is done."""

    def facts(self) -> Mapping[str, Any]:
        """Return ``name``, how it times at the moment, and the units of what it reads."""
        ...


@dataclass
class CpuClock:
    """The monotonic clock of the host. The garbage collector is off while it runs.

    It reads ``cpu_share``, the processor time of all threads of this process over the time of the sample (1: one thread
    ran all the time), ``preempted``, how often a thread of it had to make way for another process, and ``mhz``, the
    clock of the core, where the system tells.
    """

    frequency: CoreFrequency = field(default_factory=CoreFrequency)

    def sample(self, run: Action, wait: Action, loops: int) -> Sample:
        """Time `loops` calls, the calls of Python included: some 50 ns each."""
        collects = gc.isenabled()
        gc.disable()
        try:
            before = resource.getrusage(resource.RUSAGE_SELF)
            start = time.perf_counter_ns()
            for _ in itertools.repeat(None, loops):
                run()
                wait()
            elapsed_ns = time.perf_counter_ns() - start
            after = resource.getrusage(resource.RUSAGE_SELF)
        finally:
            if collects:
                gc.enable()
        readings: dict[str, float] = {"preempted": after.ru_nivcsw - before.ru_nivcsw}
        if elapsed_ns >= SHORTEST_SHARED_NS:
            used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            readings["cpu_share"] = round(1e9 * used_s / elapsed_ns, 3)
        mhz = self.frequency.mhz()
        if mhz:
            readings["mhz"] = mhz
        return Sample(elapsed_ns / loops, readings)

    def flush(self) -> None:
        """Empty the data caches of all cores that this process may use."""
        evict()

    def facts(self) -> dict[str, Any]:
        """Return its name."""
        return {"name": "host"}
