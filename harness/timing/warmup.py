"""Warm a contender up, and choose how many calls make a sample.

First calls are slow: pages are touched for the first time, libraries start threads, a clock rises, a kernel may still
be compiled. None of these calls is among the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.stats.statistics import median
from harness.timing.sampler import WARMS_ITSELF_NS, Sampler

MOST_GROWTH = 10
# Two windows in a row are compared. A window is two samples, or one if that lasts this long: longer than an interrupt
# or a time slice of another process.
WINDOW_NS = 10e6
# Only a gain in speed is warming up. pyperf allows as much between its two windows; with less, the noise of a shared
# machine would look like warming up for ever.
MOST_GAIN = 0.10
# Bound on windows where time sets none: pyperf gives up after 300 samples.
MOST_WINDOWS = 60


@dataclass(frozen=True)
class WarmUp:
    """The result of warming up."""

    loops: int  # calls that make a sample
    calls: int  # timed calls of the warm-up
    gain: float  # of the last window over the one before: 0.1 is 10 % faster

    @property
    def is_stable(self) -> bool:
        """Return whether calls had stopped to get faster."""
        return self.gain <= MOST_GAIN


def warm_up(sampler: Sampler, least_ns: float, most_ns: float, loops: int = 1, proven_ns: float = 0.0) -> WarmUp:
    """Call until a sample of some calls lasts `least_ns` and one window of samples is as fast as the next.

    Parameters
    ----------
    sampler : Sampler
    least_ns : float
        How long a sample is to last [ns].
    most_ns : float
        Give up after this time of calls [ns], but not before three windows have been seen.
    loops : int
        Calls in a sample to begin with.
    proven_ns : float
        Time of the call that was proven before [ns]. So long a call that it warms itself is a window, to compare the
        next with. 0: unknown.
    """
    calls, spent_ns, windows = 0, 0.0, 0
    before = proven_ns if proven_ns >= WARMS_ITSELF_NS else math.inf
    while True:
        loops, used, per_call = _calibrated(sampler, least_ns, loops)
        window = [per_call]
        if per_call * loops < WINDOW_NS:
            window += [sample.ns for sample in sampler.sample(loops, 1)]
        calls += used + loops * (len(window) - 1)
        spent_ns += loops * sum(window)
        windows += 1
        now = median(window)
        gain = before / now - 1 if now > 0 else 0.0
        is_out_of_time = windows >= 3 and (spent_ns >= most_ns or windows >= MOST_WINDOWS)
        if gain <= MOST_GAIN or is_out_of_time:
            return WarmUp(loops, calls, gain)
        before = now


def _calibrated(sampler: Sampler, least_ns: float, loops: int) -> tuple[int, int, float]:
    """Return the calls that make a sample, the calls used to find out, and the time of one in the last sample [ns]."""
    used = 0
    while True:
        (sample,) = sampler.sample(loops, 1)
        used += loops
        if sample.ns * loops >= least_ns:
            return loops, used, sample.ns
        needed = math.ceil(1.2 * least_ns / max(sample.ns, 1.0))
        loops = min(max(needed, loops + 1), MOST_GROWTH * loops)
