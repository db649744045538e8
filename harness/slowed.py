"""A product that is really slower by a stated fraction: what a calibration plants, to see whether it is found."""

from __future__ import annotations

import time
from typing import Any

from harness.task import GemmTask, gemm

SLOWED_TASK = "harness.slowed:slowed"


class Slowed:
    """A task that computes like another one and then keeps the processor busy for a fraction of the time it took.

    With fraction 0 it does the same and waits for nothing: its calls cost the same beside the product.
    """

    def __init__(self, task: GemmTask, fraction: float) -> None:
        self._task, self._fraction, self._owed_ns = task, fraction, 0.0
        self.wait, self.spoil, self.verify, self.facts = task.wait, task.spoil, task.verify, task.facts

    def run(self) -> None:
        """Compute, and spin. What one call spins too long, by the grain of the clock, the next ones spin less."""
        start = time.perf_counter_ns()
        self._task.run()
        self._task.wait()
        end = time.perf_counter_ns()
        self._owed_ns += (end - start) * self._fraction
        until = end + self._owed_ns
        now = time.perf_counter_ns()
        while now < until:
            now = time.perf_counter_ns()
        if self._fraction:
            self._owed_ns -= now - end

    def turn(self) -> None:
        """Give it other operands."""
        self._task.turn()


def slowed(*, slowdown: float, **arguments: Any) -> Slowed:
    """Prepare one product as `harness.task.gemm` does, that takes longer by the fraction `slowdown`."""
    return Slowed(gemm(**arguments), slowdown)
