"""The ladder through pytest-benchmark: float64, n = 1024, one and all threads. Run by ``make bench`` only.

pytest-benchmark compares and stores; the clock is the harness's own. All rungs are measured in turns in one go, proven
right before and after, and each test hands its samples over: ratios here are paired, like those of any experiment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from harness import machine, measure, registry, statistics, task, threads
from harness.experiment import Budget
from harness.problem import Problem

PROBLEM = Problem(1024, 1024, 1024)
REFERENCE = "cpu-numpy"
BUDGET = Budget(rounds=5, seconds=90.0, sample_ms=5.0)
SEED = 1

# All rungs live in one process here, and OpenBLAS's idle threads keep the other cores busy for so long [s].
SPINNING = 0.15

Rung = tuple[str, int]  # backend, threads
THREADS = sorted({1, machine.detect().cores})
RUNGS: list[Rung] = [
    (backend.name, count)
    for count in THREADS
    for backend in sorted(registry.able(PROBLEM), key=lambda backend: backend.step)
    if backend.name.startswith("cpu-")
]


class Replay:
    """A timer that shows times which were taken before: called twice a round, it advances by the next sample."""

    def __init__(self) -> None:
        self._readings: Iterator[float] = iter(())

    def load(self, samples_ns: list[float]) -> None:
        """Take over the samples [ns]."""
        total, readings = 0.0, []
        for sample in samples_ns:
            readings += [total, total + sample * 1e-9]
            total = readings[-1]
        self._readings = iter(readings)

    def __call__(self) -> float:
        """Return the next reading [s]."""
        return next(self._readings)


REPLAY = Replay()


@dataclass
class Limited:
    """A sampler whose calls may use `count` threads."""

    sampler: measure.Sampler
    count: int

    def sample(self, loops: int, count: int) -> list[float]:
        """Return samples taken with that many threads; what a library makes of it is read back."""
        time.sleep(SPINNING)
        with threads.limit(self.count) as found:
            assert threads.disagreement(found, self.count) is None
            return self.sampler.sample(loops, count)


@pytest.fixture(scope="module")
def samples_ns() -> dict[Rung, list[float]]:
    """Return the samples of every rung and number of threads, measured interleaved."""
    tasks = {
        (name, count): task.gemm(problem=PROBLEM.to_json(), backend=name, seed=SEED, threads=count, parameters={})
        for name, count in RUNGS
    }
    for (_, count), product in tasks.items():
        with threads.limit(count):
            product.spoil()
            product.run()
            product.wait()
        product.verify()
    samplers = {rung: Limited(measure.ClockSampler(t.run, t.wait), rung[1]) for rung, t in tasks.items()}
    measurement = measure.measure(samplers, BUDGET, SEED)
    assert not measurement.failures
    for product in tasks.values():
        product.verify()
    return measurement.samples_ns


@pytest.mark.timeout(900)
@pytest.mark.benchmark(group=f"ladder: {PROBLEM}", timer=REPLAY)
@pytest.mark.parametrize(("name", "count"), RUNGS)
def test_ladder(benchmark, samples_ns, name, count):
    """Hand the samples of one rung over, with its rate, its paired ratio to the vendor's library, and its speed-up."""
    own = samples_ns[name, count]
    ratio = statistics.paired_ratio(own, samples_ns[REFERENCE, count])
    benchmark.extra_info.update(
        machine=machine.detect().slug,
        problem=PROBLEM.to_json(),
        threads=count,
        rate_gflops=round(PROBLEM.operations / statistics.median(own), 3),
        time_over_reference=[round(value, 4) for value in ratio],
        speed_over_one_thread=[round(value, 4) for value in statistics.paired_ratio(samples_ns[name, 1], own)],
        reference=REFERENCE,
    )
    assert ratio.estimate > 0
    REPLAY.load(own)
    benchmark.pedantic(lambda: None, rounds=len(own))
