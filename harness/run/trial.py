"""Measure one case: prepare, prove, time interleaved and prove again, each contender in a process of its own.

A contender that fails gets a reason and no time; the others go on.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from harness.errors import Declined
from harness.experiment import COLD, HOT, Budget, Case, Contender
from harness.machine import Machine, detect
from harness.run import all_cores
from harness.run.all_cores import Gate
from harness.run.process import WorkerFailed, WorkerProcess, call_all
from harness.run.process.other_trees import full_name
from harness.run.process.pool import Pool, Slot
from harness.timing.clock import Sample
from harness.timing.host import on_one_core
from harness.timing.measure import Measurement, measure

# Fewest processes that prepare and prove at once; cores and memory [bytes] that each further one needs. Each process
# compiles and compares in one thread, and may need twice the memory of its operands.
FEWEST_AT_ONCE, CORES_OF_ONE, MEMORY_OF_ONE = 2, 2, 8 << 30


@dataclass(frozen=True)
class Patience:
    """The time for an answer of a contender's process [s]; after it the process counts as hung."""

    prepare: float = 120.0  # start, import, compile, draw operands
    prove: float = 300.0  # one call and its verification
    sample: float = 30.0  # beyond ten times the time that the first call predicts


@dataclass
class Entrant:
    """One contender in one case: its process, status and facts."""

    worker: WorkerProcess  # gone after a failure
    patience: Patience = field(default_factory=Patience)
    status: str = "ok"  # or "failed", "declined", "missing"
    reason: str = ""  # why it is not "ok"
    facts: Mapping[str, Any] = field(default_factory=dict)  # reported by its task
    verified: str = ""  # what was compared before it was timed
    first_ns: float = 0.0  # time of its first call
    threads_read: Mapping[str, Any] = field(default_factory=dict)  # in force at the last sample, by library
    clock: dict[str, Any] = field(default_factory=dict)  # of the last sample; and the core, if it was kept on one
    all_cores: Mapping[str, Any] = field(default_factory=dict)  # how free the cores were, if it has several threads

    @property
    def is_ok(self) -> bool:
        """Return whether it has not failed so far."""
        return self.status == "ok"

    def fail(self, error: Exception) -> None:
        """Keep the reason why it has no time."""
        self.status = error.status if isinstance(error, Declined) else "failed"
        self.reason = str(error) or type(error).__name__

    def sample(self, loops: int, count: int) -> list[Sample]:
        """Return `count` samples from the process, each the mean of `loops` calls in a row.

        The answer is overdue when it takes ten times as long as the first call suggests, and `Patience.sample` more.

        Raises
        ------
        WorkerFailed
            If the process failed or hung, or a library did not use the threads it was told to.
        """
        expected_s = self.first_ns * 1e-9 * (loops + 1) * count
        answer = self.worker.call("sample", 10 * expected_s + self.patience.sample, loops=loops, count=count)
        self.threads_read = answer["threads_read"]
        self.clock = dict(answer.get("clock", {}))  # older code, as a base may be, sends neither clock nor readings
        readings = answer.get("readings", [{}] * count)
        return [Sample(ns, reading) for ns, reading in zip(answer["samples_ns"], readings, strict=True)]


def measure_case(
    case: Case, budget: Budget, pool: Pool, patience: Patience, gate: Gate | None = None
) -> tuple[dict[str, Entrant], list[Measurement]]:
    """Measure the contenders of `case` in processes of `pool`; return the entrants by label, and the samples.

    With several threads it waits at `gate`, if there is one, until the cores are free.

    There is a measurement for each of `budget.processes`. A contender that fails in one of them has failed. Processes
    serve case after case, each in its own turn. So they have all served the same cases, and only chance makes them
    differ. With `budget.fresh` they begin and end with the case.
    """
    if case.series == COLD:
        budget = dataclasses.replace(budget, sample_ms=0.0)  # only the first call finds the caches cold
    entrants, measurements = dict[str, Entrant](), list[Measurement]()
    for replicate in range(budget.processes):
        able = [c for c in case.contenders if c.label not in entrants or entrants[c.label].is_ok]
        loops = measurements[0].loops if measurements else {}
        again, measurement = _measure_once(case, budget, pool, patience, able, replicate, loops, gate)
        for label, entrant in again.items():  # of several processes, what the worst of them met
            before = entrants[label].all_cores if label in entrants else {}
            entrant.all_cores = min(
                before or entrant.all_cores, entrant.all_cores, key=lambda seen: seen.get("gain", math.inf)
            )
        entrants.update(again)
        measurements.append(measurement)
        if budget.fresh:
            for entrant in again.values():
                entrant.worker.kill()  # the pool replaces it
    return entrants, measurements


def _measure_once(
    case: Case,
    budget: Budget,
    pool: Pool,
    patience: Patience,
    contenders: Sequence[Contender],
    replicate: int,
    loops: Mapping[str, int],
    gate: Gate | None,
) -> tuple[dict[str, Entrant], Measurement]:
    """Measure `contenders` of `case` in processes of `pool`, with at least `loops` calls in a sample."""
    slots = _slots(case, contenders, replicate)
    threads = max((c.threads for c in contenders), default=1)
    is_gated = gate is not None and 1 < threads <= detect().cores
    workers = pool.processes([*slots.values(), *([all_cores.SLOT] if is_gated else [])])
    entrants = {label: Entrant(workers[slot], patience) for label, slot in slots.items()}
    _prepare(case, entrants, patience)
    proven = {label: entrant for label, entrant in entrants.items() if entrant.is_ok}
    seed = int(case.key, 16) + replicate
    if gate is not None and is_gated and proven:
        seen = gate.wait(threads, lambda: all_cores.gain(workers[all_cores.SLOT], threads, patience.prepare))
        for contender in contenders:
            entrants[contender.label].all_cores = seen if contender.threads > 1 else {}
    alone = [proven[c.label] for c in contenders if c.threads == 1 and c.label in proven]
    with on_one_core([entrant.worker.number for entrant in alone], replicate) as core:
        measurement = measure(proven, budget, seed, reference=case.reference, loops=loops)
    for entrant in alone if core is not None else ():
        entrant.clock["core"] = core
    for label, error in measurement.failures.items():
        entrants[label].fail(error)
    _ask(entrants, "verify", patience.prove)
    _ask(entrants, "release", patience.sample)
    return entrants, measurement


def _prepare(case: Case, entrants: Mapping[str, Entrant], patience: Patience) -> None:
    """Have every contender prepared and proven; keep its facts and the time of its first call."""
    series = {"series": case.series} if case.series != HOT else {}  # older code, as a base may be, knows only the hot
    arguments = {
        c.label: {
            "task": full_name(c.task),
            "arguments": {**case.arguments, **c.arguments},
            "threads": c.threads,
            **series,
        }
        for c in case.contenders
        if c.label in entrants
    }
    for label, facts in _ask(entrants, "prepare", patience.prepare, arguments).items():
        entrants[label].facts = facts
    for label, proof in _ask(entrants, "prove", patience.prove).items():
        entrants[label].verified, entrants[label].first_ns = proof["verified"], proof["elapsed_ns"]


def _ask(
    entrants: Mapping[str, Entrant],
    command: str,
    timeout: float,
    arguments: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Send `command` to all that have not failed; return the good answers, and record the failures of the others."""
    workers = {label: entrant.worker for label, entrant in entrants.items() if entrant.is_ok}
    answers = call_all(workers, command, timeout, arguments, _at_once(detect()))
    for label, answer in answers.items():
        if isinstance(answer, (WorkerFailed, Declined)):
            entrants[label].fail(answer)
    return {label: answer for label, answer in answers.items() if entrants[label].is_ok}


def _at_once(machine: Machine) -> int:
    """Return how many processes may prepare or prove at once. None is timed while they do."""
    return max(FEWEST_AT_ONCE, min(machine.cores // CORES_OF_ONE, machine.memory // MEMORY_OF_ONE))


def _slots(case: Case, contenders: Sequence[Contender], replicate: int) -> dict[str, Slot]:
    """Return by label the process to use: in every case the same one for the i-th contender of a backend."""
    seen, slots = collections.Counter[str](), dict[str, Slot]()
    for contender in contenders:
        task = str(contender.arguments.get("backend", contender.task))
        environment = tuple(sorted(contender.environment.items()))
        on_device = task.startswith("gpu-") or case.axes.get("device") is not None
        slots[contender.label] = Slot(task, seen[task], contender.source, environment, replicate, on_device)
        seen[task] += 1
    return slots
