"""A product that is really slower by a stated fraction: what a calibration plants, to see whether it is found."""

from __future__ import annotations

import time
from typing import Any

from harness.run.task import Task, gemm
from harness.timing.clock import CpuClock

SLOWED_TASK = "harness.compare.slowed:slowed"


class Slowed:
    """A task that computes like another one and then keeps the processor busy for a fraction of the time it took.

    With fraction 0 it does the same and waits for nothing: its calls cost the same beside the product. What they cost
    is part of the time that the fraction is of.
    """

    def __init__(self, task: Task, fraction: float, calls_ns: float = 0.0) -> None:
        self._task, self._fraction, self._calls_ns, self._owed_ns = task, fraction, calls_ns, 0.0
        self.wait, self.spoil, self.verify, self.facts = task.wait, task.spoil, task.verify, task.facts
        self.turn = getattr(task, "turn", _nothing)

    def run(self) -> None:
        """Compute, and spin. What one call spins too long, by the grain of the clock, the next ones spin less."""
        start = time.perf_counter_ns()
        self._task.run()
        self._task.wait()
        end = time.perf_counter_ns()
        self._owed_ns += (end - start + self._calls_ns) * self._fraction
        begun = now = time.perf_counter_ns()
        while now < begun + self._owed_ns:
            now = time.perf_counter_ns()
        self._owed_ns -= now - begun


def slowed(*, slowdown: float, **arguments: Any) -> Slowed:
    """Prepare one product as `harness.run.task.gemm` does, that takes longer by the fraction `slowdown`."""
    return Slowed(gemm(**arguments), slowdown, calls_ns())


def calls_ns(calls: int = 2000) -> float:
    """Return what a call costs beside the product that it is made for [ns]: what it takes with no product."""
    empty = Slowed(_Nothing(), 0.0)
    samples = CpuClock().sample(empty.run, empty.wait, calls), CpuClock().sample(empty.run, empty.wait, calls)
    return min(sample.ns for sample in samples)


def _nothing() -> None:
    """Do nothing: a task without operands cannot turn them."""


class _Nothing:
    """A task that does nothing."""

    def run(self) -> None:
        """Do it once."""

    wait = spoil = run

    def verify(self) -> str:
        """Return what was compared."""
        return "nothing"

    def facts(self) -> dict[str, Any]:
        """Return nothing."""
        return {}
