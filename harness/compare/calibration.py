"""A/A runs: the rate of false differences on this machine, and the least change that is found.

The same backend is measured under two names, as experiments are, and judged like any two contenders. In planted cells
one of the two is really slower, by a stated fraction. Records are in the store ``<results>/<machine>/calibration/``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
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
# Simulated, they find 5 % in 97 of 100 cells where processes differ by 2 % (docs/statistics.md).
BUDGET = Budget(rounds=10, seconds=4.0, sample_ms=5.0, processes=3, precision=0.01, fresh=True)
SLOWED_TASK = f"{__name__}:slowed"


def cases(count: int, slowdown: float, backends: Sequence[str] = BACKENDS) -> list[Case]:
    """Return `count` cases that repeat all backends, sizes and dtypes, each time with other operands."""
    products = [(backend, n, dtype) for n in SIZES for dtype in DTYPES for backend in backends]
    made = []
    for index in range(count):
        backend, n, dtype = products[index % len(products)]
        arguments = {"backend": backend, "parameters": {}}
        if slowdown:
            pair = [
                Contender(label, {**arguments, "slowdown": fraction}, task=SLOWED_TASK)
                for label, fraction in ((REFERENCE, 0.0), (OWN, slowdown))
            ]
        else:
            pair = [Contender(label, arguments) for label in (REFERENCE, OWN)]
        problem = Problem(n, n, n, dtype=np.dtype(dtype))
        made.append(product_case(problem, pair, seed=1 + index, slowdown=slowdown, repetition=index))
    return made


def interleaved(first: Sequence[Case], second: Sequence[Case]) -> list[Case]:
    """Return both in one list, spread evenly, so that a calibration that ends early has measured a share of each."""
    placed = [((i + 0.5) / len(cases), case) for cases in (first, second) for i, case in enumerate(cases)]
    return [case for _, case in sorted(placed, key=lambda entry: entry[0])]


def experiment(made: Sequence[Case], budget: Budget = BUDGET) -> Experiment:
    """Return the experiment that measures the cases, for `harness.run.runner`, with the preset `CALIBRATION`."""
    return Experiment(CALIBRATION, "Are verdicts true?", lambda *_: list(made), (), {CALIBRATION: budget})


def trials(folder: Path, run: str) -> list[Trial]:
    """Return the trials that `run` has measured, from the results `folder` of a machine."""
    cells = Store(folder / CALIBRATION).every_cell(CALIBRATION)
    return Trial.of_run((cell for cell in cells if cell.run == run), OWN, REFERENCE)


class SlowedTask:
    """A task that computes like another one and then keeps the processor busy for a fraction of the time of a call.

    The time of a call includes its overhead beside the product. With fraction 0 the overhead is the same.
    """

    def __init__(self, task: Task, fraction: float, calls_ns: float = 0.0) -> None:
        self._task, self._fraction, self._calls_ns, self._owed_ns = task, fraction, calls_ns, 0.0
        self.wait, self.spoil, self.verify, self.facts = task.wait, task.spoil, task.verify, task.facts
        self.turn = getattr(task, "turn", lambda: None)

    def run(self) -> None:
        """Compute, and spin. A call that spins too long, by the resolution of the clock, makes later ones spin less."""
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
    """Prepare one product like `harness.run.task.gemm`, slower by the fraction `slowdown`."""
    return SlowedTask(gemm(**arguments), slowdown, calls_ns())


def calls_ns(calls: int = 2000) -> float:
    """Return the overhead of a call beside its product [ns]: the time of a call without a product."""
    nothing: Any = SimpleNamespace(**dict.fromkeys(("run", "wait", "spoil", "verify", "facts"), lambda: None))
    empty = SlowedTask(nothing, 0.0)
    samples = CpuClock().sample(empty.run, empty.wait, calls), CpuClock().sample(empty.run, empty.wait, calls)
    return min(sample.ns for sample in samples)
