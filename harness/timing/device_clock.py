"""The clock of a device with a queue: time stamps on the device, with all work queued before it starts.

A launch takes the host some microseconds, as long as a small product takes a GPU. So a kernel that waits for a flag
blocks the queue first. Behind it come the first stamp, the calls and the second stamp. Then the flag is set, and the
device executes them without waiting for the host. (NVIDIA's nvbench times single calls the same way.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness.interface import DeviceQueue
from harness.timing.clock import Action, Sample

Readings = dict[str, float]

# Calls behind the blocking kernel. A queue takes some thousand launches and then makes the host wait, here forever.
# Two calls keep a device busy while the host enqueues the others.
AHEAD = 2
# How long the blocking kernel waits for its flag [s]: to enqueue two calls takes far less.
MOST_BLOCKED_S = 0.25
# Times that it may give up before samples are taken without it: a host may have been busy for seconds once.
MOST_TIMEOUTS = 2


class CudaEventClock:
    """Times calls on a device by stamps in its queue.

    It reads ``is_queued``: 1 if the calls were queued before the device might start, 0 if the time of launching them
    may be in the sample. If they were queued, ``launch_ns`` is the time of the host to enqueue one of them. The
    readings of the device are added.

    The first sample is taken without the blocking kernel. A call that loads a module, allocates or compiles waits for
    the device, which would wait for the flag. A workload that does so in every call cannot be blocked at all. The
    blocking kernel then gives up; that sample is taken again, and after `MOST_TIMEOUTS` all are taken without it.

    Parameters
    ----------
    queue : DeviceQueue
        The one that `run` uses.
    now_ns : callable
        The clock of the host.
    """

    def __init__(self, queue: DeviceQueue, now_ns: Callable[[], float] = time.perf_counter_ns) -> None:
        self._queue, self._now_ns = queue, now_ns
        self._is_first = True
        self._is_flushed = False
        self._timeouts = 0

    def sample(self, run: Action, wait: Action, loops: int) -> Sample:
        """Time `loops` calls from the start of the first to the end of the last; `wait` comes once, at the end."""
        is_cold, self._is_flushed = self._is_flushed, False
        timed = None
        while timed is None and not self._is_first and self._timeouts < MOST_TIMEOUTS:
            timed = self._blocked(run, wait, loops)
            if timed is None and is_cold:
                self.flush()
        elapsed_ns, readings = timed or self._open(run, wait, loops)
        self._is_first = self._is_flushed = False
        return Sample(elapsed_ns / loops, readings)

    def flush(self) -> None:
        """Fill the device's last level of cache with something else."""
        self._queue.flush()
        self._queue.synchronize()
        self._is_flushed = True

    def finish(self) -> None:
        """Return when the device has nothing to do."""
        self._queue.synchronize()

    def facts(self) -> dict[str, Any]:
        """Return ``name``, ``nominal_mhz``, and ``timeouts``: how often the blocking kernel gave up."""
        return {"name": self._queue.name, "nominal_mhz": self._queue.nominal_mhz, "timeouts": self._timeouts}

    def _blocked(self, run: Action, wait: Action, loops: int) -> tuple[float, Readings] | None:
        """Return the time of `loops` calls of which the first are queued before any starts; None: it gave up."""
        ahead = min(loops, AHEAD)
        self._queue.synchronize()
        self._queue.block(MOST_BLOCKED_S)
        try:
            start = self._queue.stamp()
            launches_ns = self._enqueue(run, ahead)
            stop = self._queue.stamp() if ahead == loops else None
        finally:
            self._queue.release()  # also when a call raised: nobody else would
        launches_ns += self._enqueue(run, loops - ahead)
        if stop is None:
            stop = self._queue.stamp()
        readings = self._queue.read()  # while the device still works: idle, it has other clocks within milliseconds
        wait()
        self._queue.synchronize()
        if self._queue.gave_up():
            self._timeouts += 1
            return None
        return self._queue.between_ns(start, stop), {
            "is_queued": 1,
            "launch_ns": round(launches_ns / loops, 1),
            **readings,
        }

    def _open(self, run: Action, wait: Action, loops: int) -> tuple[float, Readings]:
        """Return the time of `loops` calls that begin while the host still enqueues them."""
        self._queue.synchronize()
        start = self._queue.stamp()
        self._enqueue(run, loops)
        stop = self._queue.stamp()
        readings = self._queue.read()
        wait()
        self._queue.synchronize()
        return self._queue.between_ns(start, stop), {"is_queued": 0, **readings}

    def _enqueue(self, run: Action, calls: int) -> float:
        """Launch `calls` calls, and return the time that took the host [ns]."""
        began_ns = self._now_ns()
        for _ in range(calls):
            run()
        return self._now_ns() - began_ns
