"""The protocol of clocks, and the clock of the host: time calls of something that is run and waited for."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from harness.timing.cold_caches import evict

Action = Callable[[], None]

_CPUS = Path("/sys/devices/system/cpu")

# The kernel counts the processor time of a process in microseconds: the share of a shorter sample means nothing.
SHORTEST_SHARED_NS = 100_000


class Sample(NamedTuple):
    """One timing."""

    ns: float  # mean time of a call
    readings: Mapping[str, float]  # of the machine during the sample; the clock defines their names


class Clock(Protocol):
    """Times a task. A device has a clock of its own, since its work goes on after `run` has returned."""

    def sample(self, run: Action, wait: Action, loops: int) -> Sample:
        """Time `loops` calls, one after the other, each of them `run` and then `wait`."""
        ...

    def flush(self) -> None:
        """Empty the caches of the device that computes, and return when that is done."""

    def facts(self) -> Mapping[str, Any]:
        """Return ``name``, its present way of timing, and the units of its readings."""
        ...


class CoreFrequency:
    """Reads the frequency of this thread's core. Few virtual machines report it; Linux on hardware does.

    ``/proc/cpuinfo`` is no substitute: it lists all cores, which takes milliseconds where there are many. On a
    virtual machine its figure is a constant.

    Parameters
    ----------
    cpus : Path
        Folder in which the system describes its cores.
    which : callable, optional
        Returns the number of the core that this thread is on.
    """

    def __init__(self, cpus: Path = _CPUS, which: Callable[[], int] | None = None) -> None:
        self._cpus, self._files = cpus, dict[int, int]()
        self._which = which or _getcpu()
        self._is_reported = self._which is not None and self._path(0).exists()

    def mhz(self) -> float:
        """Return the frequency [MHz], or 0 if the system does not report it."""
        if not self._is_reported or self._which is None:
            return 0.0
        core = self._which()
        try:
            if core not in self._files:  # opened once: to open it costs more than to read it
                self._files[core] = os.open(self._path(core), os.O_RDONLY)
            return round(int(os.pread(self._files[core], 32, 0)) / 1000)
        except (OSError, ValueError):  # a core that is off, a driver that has no answer
            return 0.0

    def __del__(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):
                os.close(file)

    def _path(self, core: int) -> Path:
        return self._cpus / f"cpu{core}" / "cpufreq" / "scaling_cur_freq"


def _getcpu() -> Callable[[], int] | None:
    """Return the function that tells which core this thread is on; only Linux has it."""
    with contextlib.suppress(OSError, AttributeError):
        getcpu: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
        return getcpu
    return None


@contextlib.contextmanager
def timed(seconds: dict[str, float], stage: str, wait: Action = lambda: None) -> Iterator[None]:
    """Add the time of the block to that of `stage` [s]; it ends when `wait` has returned. For what runs once."""
    begin = time.perf_counter()
    try:
        yield
        wait()
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - begin


@dataclass
class CpuClock:
    """The monotonic clock of the host. The garbage collector is off while it runs.

    It reads ``cpu_share``: the processor time of all threads of this process over the time of the sample (1: one thread
    ran all the time). ``preempted`` is how often a thread of it had to make way for another process. ``mhz`` is the
    clock of the core, where the system reports it.
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
