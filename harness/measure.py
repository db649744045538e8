"""The one clock of the harness: every time that it stores, shows or judges was sampled here.

All contenders of a case are sampled in turns, so that whatever the machine does meanwhile happens to all of them. A
round visits them in a random order and then in the reverse one (ABBA): a drift that is linear in time cancels. Sample i
of one contender was taken in the same half round as sample i of every other, so ratios by index are paired ratios.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from harness.clock import Action, Clock, CpuClock
from harness.experiment import Budget

# A call this long has refilled the caches and woken its threads long before it ends: it needs no untimed call before.
WARMS_ITSELF_NS = 50e6
MOST_GROWTH = 10


class Sampler(Protocol):
    """Something that can be timed, here or in another process."""

    def sample(self, loops: int, count: int) -> list[float]:
        """Return `count` samples: the mean time of a call [ns] over `loops` calls in a row."""
        ...


@dataclass
class ClockSampler:
    """Times a task in this process.

    Each sample is preceded by an untimed call, so that the caches are as they are when the call is repeated (the hot
    series), whatever ran on the machine since the last sample. A call so long that it makes no difference is spared it.

    Parameters
    ----------
    run, wait : callable
        A call is `run` and then `wait`.
    clock : Clock
    """

    run: Action
    wait: Action
    clock: Clock = field(default_factory=CpuClock)
    _last_ns: float = 0.0

    def sample(self, loops: int, count: int) -> list[float]:
        """Return `count` samples of `loops` calls each [ns per call]."""
        samples = []
        for _ in range(count):
            if self._last_ns < WARMS_ITSELF_NS:
                self.run()
                self.wait()
            self._last_ns = self.clock.elapsed_ns(self.run, self.wait, loops) / loops
            samples.append(self._last_ns)
        return samples


@dataclass
class Measurement:
    """The samples of one case.

    Parameters
    ----------
    samples_ns : dict of str to list of float
        Time per call [ns] by contender, all of the same length; a contender that failed is not in it.
    loops : dict of str to int
        Calls in a sample.
    failures : dict of str to Exception
        What the sampler of a contender raised.
    rounds : float
        Rounds done; a half if time was up in the middle of one.
    unmet : str
        Which condition of the budget was not met, or empty.
    """

    samples_ns: dict[str, list[float]]
    loops: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    rounds: float = 0.0
    unmet: str = ""


def measure(
    samplers: Mapping[str, Sampler],
    budget: Budget,
    seed: int,
    *,
    now: Callable[[], float] = time.monotonic,
) -> Measurement:
    """Warm, calibrate and sample all contenders in turns until `budget` is met or spent.

    A contender whose sampler raises is dropped with its samples and does not disturb the others.

    Parameters
    ----------
    samplers : mapping of str to Sampler
        By label.
    budget : Budget
    seed : int
        Decides the orders.
    now : callable
        Time [s] by which the budget is spent.
    """
    end = now() + budget.seconds
    measurement = Measurement({label: [] for label in samplers})
    for label, sampler in samplers.items():
        with _dropping(measurement, label):
            measurement.loops[label] = calibrate(sampler, budget.sample_ms * 1e6)
    halves = 0
    for order in _orders(list(samplers), seed):
        is_enough = halves >= 2 * budget.rounds
        if is_enough or not measurement.samples_ns or (halves >= 2 and now() >= end):
            break
        for label in order:
            if label in measurement.samples_ns:
                with _dropping(measurement, label):
                    sample = samplers[label].sample(measurement.loops[label], 1)
                    measurement.samples_ns[label].extend(sample)
        halves += 1
    measurement.rounds = halves / 2
    if measurement.samples_ns and measurement.rounds < budget.rounds:
        measurement.unmet = f"{measurement.rounds:g} of {budget.rounds} rounds in {budget.seconds:g} s"
    return measurement


def calibrate(sampler: Sampler, least_ns: float) -> int:
    """Return how many calls make a sample of at least `least_ns`; the calls made for it warm the contender up."""
    loops = 1
    (per_call,) = sampler.sample(loops, 1)
    if per_call >= MOST_GROWTH * least_ns:
        return loops  # so long that not even a slow first call can hide a short one
    while True:
        (per_call,) = sampler.sample(loops, 1)
        if per_call * loops >= least_ns:
            return loops
        needed = math.ceil(1.2 * least_ns / max(per_call, 1.0))
        loops = min(max(needed, loops + 1), MOST_GROWTH * loops)


def overhead_ns(samples: int = 200) -> float:
    """Return what the harness itself costs per sample [ns], in one process: the time it takes to measure nothing."""
    samplers = {label: ClockSampler(_nothing, _nothing) for label in ("a", "b")}
    measure(samplers, Budget(rounds=1, sample_ms=0.0), seed=1)  # what is imported late is imported now
    start = time.perf_counter_ns()
    measurement = measure(samplers, Budget(max(1, samples // 4), math.inf, sample_ms=0.0), seed=1)
    elapsed = time.perf_counter_ns() - start
    return elapsed / sum(len(taken) for taken in measurement.samples_ns.values())


def _nothing() -> None:
    """Do nothing."""


def _orders(labels: list[str], seed: int) -> Iterator[list[str]]:
    """Yield the orders of the half rounds without end: a random permutation, then its reverse."""
    rng = np.random.default_rng(seed)
    while True:
        order = [labels[i] for i in rng.permutation(len(labels))]
        yield order
        yield order[::-1]


class _dropping:  # noqa: N801 it reads as a verb, like contextlib.suppress
    """Drop the contender called `label` from the measurement if the block raises; cheaper than a generator."""

    def __init__(self, measurement: Measurement, label: str) -> None:
        self._measurement, self._label = measurement, label

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._measurement.failures[self._label] = error
        del self._measurement.samples_ns[self._label]
        self._measurement.loops.pop(self._label, None)
        return True
