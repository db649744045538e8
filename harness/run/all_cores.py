"""Wait, before a case for several threads, until the machine's cores are there for all of them.

On a shared machine the second core may be away for seconds: another process has it, or the host runs another guest
there. Times on all threads then tell the state of the machine, and a ratio of two of them is a ratio of states. A loop
out of registers needs neither memory nor caches, so on t free cores t threads do t times the work of one. The wait is
bounded, for a case and for a run. What was seen last is recorded with the cells.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from harness.errors import Declined
from harness.experiment import PEAK_TASK, SMOKE
from harness.run.process import WorkerFailed, WorkerProcess
from harness.run.process.pool import Slot

# Part of threads times one thread's work from which on the cores count as free.
ENOUGH = 0.9
# Longest waits for a case and for all cases of a run, and between two looks [s].
OF_A_CASE_S, OF_A_RUN_S, BETWEEN_S = 10.0, 60.0, 0.5
# After a wait in vain the next case waits for this part of that time at most, until cores are seen free again: where
# processors are halves of cores, and the system does not say so, they never are.
PATIENCE_LEFT = 0.25
# Samples of the loop, and calls in each: some 3 ms, as a time slice of another process has. A call of these steps takes
# a millisecond, beside which the start of many threads, some 20 microseconds, is little.
SAMPLES, CALLS, STEPS = 8, 3, 1 << 18
SLOT = Slot("all cores")
_LOOP = {"dtype": "float64", "semiring": "plus_times", "steps": STEPS}


class Gate:
    """Waits for free cores, and counts how long it has waited in all.

    Parameters
    ----------
    sleep, now : callable
        As of the module `time`.
    most_s : float
        Longest wait of all cases together [s]; 0 looks once and does not wait.
    """

    def __init__(
        self,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        *,
        most_s: float = OF_A_RUN_S,
    ) -> None:
        self._sleep, self._now, self._left_s, self._case_s = sleep, now, most_s, OF_A_CASE_S

    @classmethod
    def of_preset(cls, preset: str) -> Gate:
        """Return the gate of a run of `preset`: times of ``smoke`` are no evidence, so that nobody waits for them."""
        return cls(most_s=0.0 if preset == SMOKE else OF_A_RUN_S)

    def wait(self, threads: int, gain: Callable[[], float]) -> dict[str, Any]:
        """Wait until ``gain()`` is at least `ENOUGH` of `threads`, or time is up.

        Returns ``threads``, the last ``gain`` and ``waited_s`` as JSON; empty where the gain cannot be measured.
        """
        start, waited_s = self._now(), 0.0
        most_s = min(self._case_s, self._left_s)
        try:
            while (seen := gain()) < ENOUGH * threads and waited_s + BETWEEN_S <= most_s:
                self._sleep(BETWEEN_S)
                waited_s = self._now() - start
        except (Declined, WorkerFailed):
            return {}
        self._left_s = max(0.0, self._left_s - waited_s)
        self._case_s = OF_A_CASE_S if seen >= ENOUGH * threads else self._case_s * PATIENCE_LEFT
        return {"threads": threads, "gain": round(seen, 3), "waited_s": round(waited_s, 1)}


def gain(worker: WorkerProcess, threads: int, patience_s: float) -> float:
    """Return the work of a register loop on `threads` threads over that on one, in the same time.

    One thread counts at its best, since it may have met the disturbance too; all threads as they usually were.

    Raises
    ------
    WorkerFailed
        If the process failed.
    Declined
        If there is no such loop for this processor.
    """
    one, of_all = (_samples(worker, count, patience_s) for count in (1, threads))
    return threads * min(one) / statistics.median(of_all)


def _samples(worker: WorkerProcess, threads: int, patience_s: float) -> list[float]:
    """Return the times of the loop [ns]; each thread does the same work, however many there are."""
    worker.call("prepare", patience_s, task=PEAK_TASK, arguments=_LOOP, threads=threads)
    worker.call("prove", patience_s)  # the first call may compile
    samples: list[float] = worker.call("sample", patience_s, loops=CALLS, count=SAMPLES)["samples_ns"]
    return samples
