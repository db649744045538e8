"""Measure one case: prepare, prove, time in turns and prove again, each contender in a process of its own.

A contender that fails on the way has a reason and never a time; the others go on.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import Declined
from harness.experiment import COLD, HOT, Budget, Case, Contender
from harness.machine import Machine, detect
from harness.run.process import Call, Pool, Slot, WorkerFailed, WorkerProcess, call_all, full_name
from harness.timing.clock import Sample
from harness.timing.host import on_one_core
from harness.timing.measure import Measurement, measure

# Processes that prepare and prove at once, at least; and the cores and memory [bytes] that each of more should have:
# it compiles and compares, in one thread, and may need the memory of its operands twice over.
FEWEST_AT_ONCE, CORES_OF_ONE, MEMORY_OF_ONE = 2, 2, 8 << 30


@dataclass(frozen=True)
class Patience:
    """How long a contender's process may take to answer [s] before it counts as hung.

    Parameters
    ----------
    prepare : float
        Start, import, compile, draw operands.
    prove : float
        One call and its verification.
    sample : float
        Beyond ten times what the first call lets expect.
    """

    prepare: float = 120.0
    prove: float = 300.0
    sample: float = 30.0


@dataclass
class RemoteSampler:
    """Samples the task in another process.

    Parameters
    ----------
    worker : WorkerProcess
    first_ns : float
        What its first call took [ns]: an answer is overdue when it takes ten times as long as that suggests...
    patience : float
        ... and this many seconds more.
    threads_read : dict
        The threads that were in force at the last sample, by library.
    clock : dict
        How the last sample was timed.
    """

    worker: WorkerProcess
    first_ns: float
    patience: float
    threads_read: Mapping[str, Any] = field(default_factory=dict)
    clock: Mapping[str, Any] = field(default_factory=dict)

    def sample(self, loops: int, count: int) -> list[Sample]:
        """Return `count` samples, each the mean of `loops` calls in a row.

        Raises
        ------
        WorkerFailed
            If the process failed or hung, or a library did not use the threads it was told to.
        """
        expected_s = self.first_ns * 1e-9 * (loops + 1) * count
        answer = self.worker.call("sample", 10 * expected_s + self.patience, loops=loops, count=count)
        self.threads_read = answer["threads_read"]
        self.clock = answer.get("clock", {})  # a worker of older code, as a comparison with a base has, reads nothing
        readings = answer.get("readings", [{}] * count)
        return [Sample(ns, read) for ns, read in zip(answer["samples_ns"], readings, strict=True)]


@dataclass
class Outcome:
    """What became of one contender in one case.

    Parameters
    ----------
    worker : WorkerProcess
        Its process, gone after a failure.
    status : str
        "ok", "failed", "declined" or "missing".
    reason : str
        Why it is not "ok".
    facts : mapping
        What its task reported.
    verified : str
        What was compared before it was timed.
    first_ns : float
        How long its first call took [ns].
    threads_read : mapping
        The threads that were in force when it was timed, by library.
    clock : dict
        How it was timed, and on which core if it was kept on one.
    """

    worker: WorkerProcess
    status: str = "ok"
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    verified: str = ""
    first_ns: float = 0.0
    threads_read: Mapping[str, Any] = field(default_factory=dict)
    clock: dict[str, Any] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Whether it has not failed so far."""
        return self.status == "ok"

    def fail(self, error: Exception) -> None:
        """Keep why there will be no time."""
        self.status = error.status if isinstance(error, Declined) else "failed"
        self.reason = str(error) or type(error).__name__


def measure_case(
    case: Case, budget: Budget, pool: Pool, patience: Patience
) -> tuple[dict[str, Outcome], list[Measurement]]:
    """Measure the contenders of `case` in processes of `pool`; return what became of each, and the samples.

    There is a measurement for each of `budget.processes`. Who fails in one of them has failed. A single process may
    have served other cases before; of several each is a fresh one, so that they differ by nothing but chance.
    """
    if case.series == COLD:
        budget = dataclasses.replace(budget, sample_ms=0.0)  # only the first call finds the caches cold
    outcomes, measurements = dict[str, Outcome](), list[Measurement]()
    for replicate in range(budget.processes):
        able = [c for c in case.contenders if c.label not in outcomes or outcomes[c.label].is_ok]
        loops = measurements[0].loops if measurements else {}
        again, measurement = _measure_once(case, budget, pool, patience, able, replicate, loops)
        outcomes.update(again)
        measurements.append(measurement)
        if budget.processes > 1:
            for outcome in again.values():
                outcome.worker.kill()  # the pool replaces it
    return outcomes, measurements


def _measure_once(
    case: Case,
    budget: Budget,
    pool: Pool,
    patience: Patience,
    contenders: Sequence[Contender],
    replicate: int,
    loops: Mapping[str, int],
) -> tuple[dict[str, Outcome], Measurement]:
    """Measure `contenders` of `case` in processes of `pool`, with at least `loops` calls in a sample."""
    slots = _slots(contenders)
    workers = pool.processes(slots.values())
    outcomes = {label: Outcome(workers[slot]) for label, slot in slots.items()}
    _prepare(case, outcomes, patience)
    samplers = {
        label: RemoteSampler(outcome.worker, outcome.first_ns, patience.sample)
        for label, outcome in outcomes.items()
        if outcome.is_ok
    }
    seed = int(case.key, 16) + replicate
    alone = {c.label for c in contenders if c.threads == 1}
    with on_one_core([samplers[label].worker.number for label in samplers if label in alone], replicate) as core:
        measurement = measure(samplers, budget, seed, reference=case.reference, loops=loops)
    for label, sampler in samplers.items():
        outcomes[label].threads_read, outcomes[label].clock = sampler.threads_read, dict(sampler.clock)
        if core is not None and label in alone:
            outcomes[label].clock["core"] = core
    for label, error in measurement.failures.items():
        outcomes[label].fail(error)
    _ask(outcomes, "verify", patience.prove)
    _ask(outcomes, "release", patience.sample)
    return outcomes, measurement


def _prepare(case: Case, outcomes: Mapping[str, Outcome], patience: Patience) -> None:
    """Have every contender prepared and proven; keep its facts and what its first call took."""
    series = {"series": case.series} if case.series != HOT else {}  # older code, as a base may be, knows only the hot
    what = {
        c.label: {
            "task": full_name(c.task, c.source),
            "arguments": {**case.arguments, **c.arguments},
            "threads": c.threads,
            **series,
        }
        for c in case.contenders
        if c.label in outcomes
    }
    for label, facts in _ask(outcomes, "prepare", patience.prepare, what).items():
        outcomes[label].facts = facts
    for label, proof in _ask(outcomes, "prove", patience.prove).items():
        outcomes[label].verified, outcomes[label].first_ns = proof["verified"], proof["elapsed_ns"]


def _ask(
    outcomes: Mapping[str, Outcome],
    command: str,
    timeout: float,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Send `command` to all that have not failed; return the good answers, and let the others fail."""
    calls = {
        label: Call(outcome.worker, command, timeout, (arguments or {}).get(label, {}))
        for label, outcome in outcomes.items()
        if outcome.is_ok
    }
    answers = call_all(calls, _at_once(detect()))
    for label, answer in answers.items():
        if isinstance(answer, (WorkerFailed, Declined)):
            outcomes[label].fail(answer)
    return {label: answer for label, answer in answers.items() if outcomes[label].is_ok}


def _at_once(machine: Machine) -> int:
    """Return how many processes may prepare or prove at once. None is timed while they do."""
    return max(FEWEST_AT_ONCE, min(machine.cores // CORES_OF_ONE, machine.memory // MEMORY_OF_ONE))


def _slots(contenders: Sequence[Contender]) -> dict[str, Slot]:
    """Return by label the process to use: the same in every case for the i-th contender of a backend."""
    seen: collections.Counter[str] = collections.Counter()
    slots = {}
    for contender in contenders:
        kind = str(contender.arguments.get("backend", contender.task))
        slots[contender.label] = Slot(kind, seen[kind], contender.source)
        seen[kind] += 1
    return slots
