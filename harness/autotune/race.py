"""Race plans of one backend for one problem in this process, on the same operands: proven right, timed interleaved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harness import threads
from harness.errors import HarnessError, VerificationError
from harness.experiment import Budget
from harness.interface import Backend
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.proof import verify
from harness.run.task import GemmTask
from harness.timing.measure import measure
from harness.timing.sampler import ClockSampler

SEED = 1

Samples = dict[str, list[float]]


class Race(NamedTuple):
    """Plans of `backend` by label, the budget of the race, and the threads in force; a plan may use fewer."""

    backend: Backend
    problem: Problem
    plans: Mapping[str, Plan]
    budget: Budget
    threads: int


@dataclass
class Racer:
    """Runs races, and keeps the operands and the proven result of each problem for the next race."""

    _proofs: dict[Problem, _Proof] = field(default_factory=dict)

    def run(self, race: Race) -> tuple[Samples, dict[str, str]]:
        """Return the samples [ns per call], and the reasons of plans without any, by label. Equal plans race once.

        Every plan is proven right before it is timed, and the last results are checked.
        """
        if any((p.dtype, p.semiring) != (race.problem.dtype, race.problem.semiring) for p in self._proofs):
            self._proofs.clear()  # problems of another kind are not raced again
        proof = self._proofs.setdefault(race.problem, _Proof(race.problem))
        seen: dict[str, str] = {}
        representatives = {
            label: seen.setdefault(json.dumps(plan.to_json()), label) for label, plan in race.plans.items()
        }
        samplers, tasks, failures = dict[str, ClockSampler](), list[GemmTask](), dict[str, str]()
        with threads.limit(race.threads):
            for label in seen.values():
                plan = race.plans[label]
                try:
                    task = GemmTask(plan, proof.operands, race.backend.prepare(plan, proof.operands), SEED)
                    proof.prove(task)
                except (HarnessError, MemoryError) as error:
                    failures[label] = str(error) or type(error).__name__
                else:
                    samplers[label] = ClockSampler(task.run, task.wait, task.clock())
                    tasks.append(task)
            measurement = measure(samplers, race.budget, SEED)
            results = {id(result): result for result in (task.execution.result() for task in tasks)}
            for result in results.values():  # one on the host, where all write to `out`; one for each on a device
                proof.check(result)
        failures |= {label: str(error) for label, error in measurement.failures.items()}
        samples_ns = measurement.samples_ns
        samples = {label: samples_ns[one] for label, one in representatives.items() if one in samples_ns}
        return samples, {label: failures[one] for label, one in representatives.items() if one in failures}


class _Proof:
    """Compares the first result with the definition, in seconds, and the others with the first, in milliseconds."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.operands = Operands.generate(problem, SEED)
        self._expected: np.ndarray | None = None
        self._allowed: np.ndarray | None = None

    def prove(self, task: GemmTask) -> None:
        """Spoil the result, compute once, and raise VerificationError if it is wrong."""
        task.spoil()
        task.run()
        task.wait()
        if self._expected is None:
            task.verify()
            self._expected = task.execution.result().copy()
            if not self._problem.is_exact:  # both may be off by as much as one may be from the definition
                magnitude = np.abs(self.operands.a).astype(float) @ np.abs(self.operands.b).astype(float)
                self._allowed = 2 * verify.allowed_error(self._problem, self._expected, magnitude)
        else:
            self.check(task.execution.result())

    def check(self, result: np.ndarray) -> None:
        """Raise VerificationError if `result` is not what was proven."""
        assert self._expected is not None
        if self._allowed is None:
            wrong = result != self._expected
        else:
            wrong = ~(np.abs(result - self._expected) <= self._allowed)  # NaN is wrong
        if wrong.any():
            raise VerificationError(
                f"{self._problem}: a plan computes something else",
                expected="what the first plan does",
                got=f"{np.count_nonzero(wrong)} of {wrong.size} elements that differ",
            )
