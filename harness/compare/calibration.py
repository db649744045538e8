"""A/A runs: the rate of false differences on this machine, and the least change that is found.

The same backend is measured under two names, by the path that experiments take, and judged like any two contenders.
In planted cells one of the two is really slower, by a stated fraction. Records are in the store
``<results>/<machine>/calibration/``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.calibration import CALIBRATION, OWN, REFERENCE, Trial
from harness.experiment import Budget, Case, Contender, Experiment, product_case
from harness.problem import Problem
from harness.run.task import Task, gemm
from harness.store.store import Store
from harness.timing.clock import CpuClock

BACKENDS = ("cpu-simd", "cpu-numpy")
SIZES, DTYPES = (64, 128, 192, 256, 384), ("float64", "float32")
SLOWDOWN = 0.05
# Simulated, they find 5 % in 97 of 100 cells where processes differ by 2 % (docs/statistics.md).
BUDGET = Budget(rounds=10, seconds=4.0, sample_ms=5.0, processes=3, precision=0.01)
SLOWED_TASK = f"{__name__}:slowed"


def cases(count: int, slowdown: float, backends: Sequence[str] = BACKENDS) -> list[Case]:
    """Return `count` cases over backends, sizes and dtypes, again and again with other operands."""
    kinds = [(backend, n, dtype) for n in SIZES for dtype in DTYPES for backend in backends]
    made = []
    for index in range(count):
        backend, n, dtype = kinds[index % len(kinds)]
        arguments = {"backend": backend, "parameters": {}}
        if slowdown:
            pair = [
                Contender(label, {**arguments, "slowdown": fraction}, task=SLOWED_TASK)
                for label, fraction in ((REFERENCE, 0.0), (OWN, slowdown))
            ]
        else:
            pair = [Contender(label, arguments) for label in (REFERENCE, OWN)]
        where: dict[str, Any] = {"slowdown": slowdown, "repetition": index}
        made.append(product_case(Problem(n, n, n, dtype=np.dtype(dtype)), pair, seed=1 + index, **where))
    return made


def interleaved(first: Sequence[Case], second: Sequence[Case]) -> list[Case]:
    """Return both in one list, spread evenly: whatever ends the calibration early, each has had its share."""
    placed = [((i + 0.5) / len(own), case) for own in (first, second) for i, case in enumerate(own)]
    return [case for _, case in sorted(placed, key=lambda entry: entry[0])]


def experiment(made: Sequence[Case], budget: Budget = BUDGET) -> Experiment:
    """Return the experiment that measures the cases, for `harness.run.runner`, with the preset `CALIBRATION`."""
    return Experiment(CALIBRATION, "Are verdicts true?", lambda *_: list(made), (), {CALIBRATION: budget})


def trials(folder: Path, run: str) -> list[Trial]:
    """Return what `run` has measured, from the results `folder` of a machine."""
    cells = Store(folder / CALIBRATION).every_cell(CALIBRATION)
    return Trial.of_run((cell for cell in cells if cell.run == run), OWN, REFERENCE)


class SlowedTask:
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


def slowed(*, slowdown: float, **arguments: Any) -> SlowedTask:
    """Prepare one product as `harness.run.task.gemm` does, that takes longer by the fraction `slowdown`."""
    return SlowedTask(gemm(**arguments), slowdown, calls_ns())


def calls_ns(calls: int = 2000) -> float:
    """Return what a call costs beside the product that it is made for [ns]: what it takes with no product."""
    empty = SlowedTask(_Nothing(), 0.0)
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
