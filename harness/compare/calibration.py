"""A/A: how often this harness finds a difference where there is none on this machine, and what change it can see.

The same backend is measured under two names, by the path that experiments take, and judged like any two contenders.
In planted cells one of the two is really slower, by a stated fraction. What was measured is appended to
``<results>/<machine>/calibration.jsonl`` cell by cell, so that an interruption loses the cell in flight at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.compare.slowed import SLOWED_TASK
from harness.experiment import Budget, Case, Contender, product_case
from harness.machine import detect
from harness.problem import Problem
from harness.run import provenance, trial
from harness.run.process import Pool
from harness.stats import verdict
from harness.stats.verdict import Comparison
from harness.store.journal import Journal

FILE = "calibration.jsonl"
OWN, REFERENCE = "again", "once"
BACKENDS = ("cpu-simd", "cpu-numpy")
SIZES, DTYPES = (64, 128, 192, 256, 384), ("float64", "float32")
SLOWDOWN = 0.05
# Simulated, they find 5 % in 97 of 100 cells where processes differ by 2 % (docs/statistics.md).
BUDGET = Budget(rounds=10, seconds=4.0, sample_ms=5.0, processes=3, precision=0.01)
# What a replicate of a case takes beside its samples [s]: two processes that start and prepare.
STARTING = 0.8


@dataclass(frozen=True)
class Trial:
    """One cell of a calibration.

    Parameters
    ----------
    backend, problem : str
    slowdown : float
        By which fraction the one contender really is slower; 0: A/A.
    samples_ns : mapping of str to list
        By contender and process; empty if there is no time.
    reason : str
        Why there is none.
    """

    backend: str
    problem: str
    slowdown: float
    samples_ns: Mapping[str, list[list[float]]]
    reason: str = ""

    @property
    def comparison(self) -> Comparison:
        """How the slower, or the second, compares to the other."""
        return verdict.compare(self.samples_ns[OWN], self.samples_ns[REFERENCE])

    def to_json(self) -> dict[str, Any]:
        """Return what is recorded."""
        return {
            "kind": "calibrated",
            "backend": self.backend,
            "problem": self.problem,
            "slowdown": self.slowdown,
            "samples_ns": self.samples_ns,
            "reason": self.reason,
        }


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
        made.append(product_case(Problem(n, n, n, dtype=np.dtype(dtype)), pair, seed=1 + index, repetition=index))
    return made


def interleaved(first: Sequence[Case], second: Sequence[Case]) -> list[Case]:
    """Return both in one list, spread evenly: whatever ends the calibration early, each has had its share."""
    placed = [((i + 0.5) / len(own), case) for own in (first, second) for i, case in enumerate(own)]
    return [case for _, case in sorted(placed, key=lambda entry: entry[0])]


def run(
    wanted: Sequence[Case],
    journal: Journal,
    budget: Budget = BUDGET,
    *,
    observe: Callable[[Case], object] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[Trial]:
    """Measure the cases, record each in `journal` as soon as it is done, and yield it.

    Parameters
    ----------
    wanted : sequence of Case
        From `cases`.
    journal : Journal
    budget : Budget
    observe : callable
        Is told which case comes next.
    is_over : callable
        Whether no further case is to be begun.
    """
    pool = Pool()
    try:
        for case in wanted:
            if is_over():
                return
            observe(case)
            done = _measured(case, budget, pool)
            journal.append([{**done.to_json(), "machine": detect().key, **provenance.code()}])
            yield done
    finally:
        pool.kill()


def _measured(case: Case, budget: Budget, pool: Pool) -> Trial:
    """Return what became of one case."""
    outcomes, measurements = trial.measure_case(case, budget, pool, trial.Patience())
    own = case.contenders[1].arguments
    problem = f"{case.axes['semiring']} {case.axes['dtype']} n={case.axes['n']}"
    reason = next((outcome.reason for outcome in outcomes.values() if not outcome.is_ok), "")
    samples = {
        c.label: [[round(ns, 1) for ns in m.samples_ns[c.label]] for m in measurements]
        for c in case.contenders
        if not reason
    }
    return Trial(str(own["backend"]), problem, float(own.get("slowdown", 0.0)), samples, reason)
