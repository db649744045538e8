"""What a clock is: it times calls of something that is run and waited for. Here the processor's own."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from typing import Protocol

Action = Callable[[], None]


class Clock(Protocol):
    """Times a task. A device has a clock of its own, since its work goes on after `run` has returned."""

    def elapsed_ns(self, run: Action, wait: Action, loops: int) -> float:
        """Return the time [ns] of `loops` calls, one after the other, each of them `run` and then `wait`."""
        ...


class CpuClock:
    """The monotonic clock of the host. The garbage collector is off while it runs."""

    def elapsed_ns(self, run: Action, wait: Action, loops: int) -> float:
        """Return the time [ns] of `loops` calls, the calls of Python included: some 50 ns each."""
        collects = gc.isenabled()
        gc.disable()
        try:
            start = time.perf_counter_ns()
            for _ in itertools.repeat(None, loops):
                run()
                wait()
            return float(time.perf_counter_ns() - start)
        finally:
            if collects:
                gc.enable()
