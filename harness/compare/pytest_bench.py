"""Sample benchmarks of pytest-benchmark by the harness; pytest-benchmark shows, stores and compares them.

pytest-benchmark's own sampling takes one contender after the other, and calibrates on a first call that may compile.
Here a case is measured like those of experiments (`harness.run.trial`). Each contender has a process of its own, is
proven right before the clock starts, and is interleaved with the others. A test then takes its contender's samples::

    # conftest.py
    from harness.compare.pytest_bench import *  # the fixture replay, and what is stored of machine and code

    # test_my_bench.py
    @pytest.mark.parametrize("cell", cells(race(Problem(512, 512, 512, "min_plus"), reference="cpu-packed")))
    def test_products(replay, cell):
        replay(cell)

Only tests import this module: it needs pytest.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness import machine, registry
from harness.experiment import GEMM_TASK, PEAK_TASK, Budget, Case, Contender, backend_contender, product_case
from harness.problem import Problem
from harness.run import provenance, trial
from harness.run.process.pool import Pool
from harness.run.trial import Entrant, Patience
from harness.stats import statistics, verdict
from harness.timing.measure import Measurement

# One process in three may be in a slow state, and the median of all samples is none of its.
BUDGET = Budget(rounds=7, seconds=14.0, processes=3, fresh=True)
PEAK_BUDGET = Budget(rounds=5, seconds=1.0)


class Replay:
    """A timer that repeats known times: of two readings, the first is 0 and the second the sample."""

    def __init__(self) -> None:
        self._readings: Iterator[float] = iter(())

    def load(self, samples_ns: Iterable[float]) -> None:
        """Set the samples to repeat [ns]."""
        self._readings = (reading for sample in samples_ns for reading in (0.0, sample * 1e-9))

    def __call__(self) -> float:
        """Return the next reading [s]."""
        return next(self._readings)


REPLAY = Replay()


@dataclass(frozen=True)
class BenchCell:
    """One contender in one case, as the parameter of a test."""

    case: Case
    label: str
    budget: Budget = BUDGET

    @property
    def contender(self) -> Contender:
        """The contender called `label`."""
        return next(contender for contender in self.case.contenders if contender.label == self.label)

    @property
    def problem(self) -> Problem | None:
        """The product that the task computes, or None if it computes none."""
        is_product = self.contender.task == GEMM_TASK
        return Problem.from_json(dict(self.case.arguments["problem"])) if is_product else None

    @property
    def axes(self) -> dict[str, Any]:
        """The coordinates of the cell, as plain JSON."""
        return {**self.case.axes, "threads": self.contender.threads, "contender": self.label}

    @property
    def group(self) -> str:
        """The title of the case: a table of pytest-benchmark shows its contenders together."""
        title = self.problem or " ".join(map(str, self.case.axes.values()))
        threads = {contender.threads for contender in self.case.contenders}
        return f"{title} threads={threads.pop()}" if len(threads) == 1 else str(title)


def race(problem: Problem, *, reference: str, threads: int = 1, family: str = "cpu-") -> Case:
    """Return the case in which every backend of a family that can compute `problem` does, the lowest rung first."""
    able = [backend for backend in registry.able(problem) if backend.name.startswith(family)]
    rungs = sorted(able, key=lambda backend: (backend.step, backend.name))
    case = product_case(problem, [backend_contender(rung.name, threads=threads) for rung in rungs])
    return dataclasses.replace(case, reference=reference)


def cells(*cases: Case, budget: Budget = BUDGET) -> list[Any]:
    """Return each contender of `cases` as a parameter for ``pytest.mark.parametrize``; a table shows one case."""
    parameters = [BenchCell(case, contender.label, budget) for case in cases for contender in case.contenders]
    return [
        pytest.param(cell, id=f"{cell.group} {cell.label}", marks=pytest.mark.benchmark(group=cell.group, timer=REPLAY))
        for cell in parameters
    ]


@dataclass
class MeasuredCase:
    """The entrants of one case by label, and a measurement for each process."""

    entrants: Mapping[str, Entrant]
    measurements: list[Measurement]

    def samples_ns(self, label: str) -> list[list[float]]:
        """Return the samples by process [ns per call]."""
        return [measurement.samples_ns[label] for measurement in self.measurements]


@dataclass
class Measured:
    """Measures a case when its first contender is asked for, and keeps the result; peaks likewise."""

    selected: Iterable[BenchCell] = ()  # cells that will be asked for: only they and their references are measured
    pool: Pool = field(default_factory=Pool)
    _cases: dict[str, MeasuredCase] = field(default_factory=dict)

    def __call__(self, cell: BenchCell) -> MeasuredCase:
        """Return the measured case of `cell`."""
        case, key = cell.case, cell.case.key
        if key not in self._cases:
            labels = {other.label for other in self.selected if other.case.key == key} | {cell.label, case.reference}
            contenders = tuple(contender for contender in case.contenders if contender.label in labels)
            chosen = Case(case.axes, contenders, case.arguments, case.reference)
            self._cases[key] = MeasuredCase(*trial.measure_case(chosen, cell.budget, self.pool, Patience()))
        return self._cases[key]

    def peak(self, cell: BenchCell) -> float | None:
        """Return the peak out of registers for the task of `cell` [G operations/s]; None: not known, or a GPU's.

        It is the rate of the fastest sample: a ceiling is missed by chance, never exceeded.
        """
        problem, threads = cell.problem, cell.contender.threads
        if problem is None or str(cell.contender.arguments["backend"]).startswith("gpu-"):
            return None
        arguments = {"semiring": problem.semiring.name, "dtype": problem.dtype.name}
        case = Case({**arguments, "threads": threads}, (Contender("peak", {}, threads, PEAK_TASK),), arguments)
        measured_case = self(BenchCell(case, "peak", PEAK_BUDGET))
        entrant = measured_case.entrants["peak"]
        if not entrant.is_ok:
            return None
        return float(entrant.facts["operations"]) / min(min(samples) for samples in measured_case.samples_ns("peak"))


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Return the `Measured` of the tests that were selected, which measures each case once a session."""
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    values = [value for callspec in parameters if callspec for value in callspec.params.values()]
    measure = Measured([value for value in values if isinstance(value, BenchCell)])
    yield measure
    measure.pool.kill()


@pytest.fixture
def replay(benchmark: Any, measured: Measured) -> Callable[[BenchCell], None]:
    """Return a function that hands the samples of a cell to pytest-benchmark, with `extra_info`.

    It skips the test of a contender that declined or is missing here, and fails that of one that failed.
    """

    def hand_over(cell: BenchCell) -> None:
        case = measured(cell)
        entrant = case.entrants[cell.label]
        if entrant.status in ("declined", "missing"):
            pytest.skip(f"{entrant.status}: {entrant.reason}")
        if not entrant.is_ok:
            pytest.fail(entrant.reason, pytrace=False)
        samples_ns = [sample for process in case.samples_ns(cell.label) for sample in process]
        benchmark.extra_info.update(extra_info(cell, case, measured.peak(cell)))
        benchmark.params = cell.axes  # what --benchmark-group-by=param:NAME goes by, in place of an object
        REPLAY.load(samples_ns)
        benchmark.pedantic(lambda: None, rounds=len(samples_ns))  # the times were taken before

    return hand_over


def extra_info(cell: BenchCell, case: MeasuredCase, peak: float | None) -> dict[str, Any]:
    """Return what pytest-benchmark stores beside the times: the conditions of the measurement, and rates and ratios.

    ``time_over_reference`` is estimate, low and high end of the paired ratio to ``reference``; below 1 is faster.
    """
    samples_ns, entrant = case.samples_ns(cell.label), case.entrants[cell.label]
    operations = entrant.facts.get("operations")
    pooled_ns = [sample for process in samples_ns for sample in process]
    rate = operations / statistics.median(pooled_ns) if operations else None
    ratio = None
    if case.entrants[cell.case.reference].is_ok:
        ratio = verdict.compare(samples_ns, case.samples_ns(cell.case.reference)).ratio
    return {
        "contender": cell.label,
        "problem": cell.problem.to_json() if cell.problem else dict(cell.case.axes),
        "threads": cell.contender.threads,
        "processes": len(samples_ns),
        "loops": [measurement.loops[cell.label] for measurement in case.measurements],
        "reference": cell.case.reference,
        "time_over_reference": [round(value, 4) for value in ratio] if ratio else None,
        "rate_gops": round(rate, 3) if rate else None,
        "percent_of_peak": round(100 * rate / peak, 2) if rate and peak else None,
        "verified": entrant.verified,
        "unmet": next((measurement.unmet for measurement in case.measurements if measurement.unmet), ""),
    }


def pytest_benchmark_update_machine_info(config: object, machine_info: dict[str, Any]) -> None:
    """Add the facts that decide the speed of a product: results are comparable where ``fingerprint`` is equal."""
    machine_info["gemm_harness"] = _description()


@functools.cache
def _description() -> dict[str, Any]:
    """Return the facts of this machine, collected once: Numba compiles a function to tell its threads."""
    from harness.run import machine_info as run_machine_info

    facts, here = run_machine_info.collect(), machine.detect()
    pools = [
        {name: pool[name] for name in ("internal_api", "version", "architecture", "num_threads")}
        for pool in facts["threadpools"]
    ]
    return {
        "fingerprint": here.key,
        "slug": here.slug,
        "cores": here.cores,
        "simd": list(here.simd),
        "packages": here.packages,
        "blas": sorted(pools, key=str),  # the order in which they were loaded means nothing
        "numba": facts["numba"],
        "gpu": here.gpu.get("name", ""),
    }


def pytest_benchmark_update_commit_info(config: object, commit_info: dict[str, Any]) -> None:
    """Add the digest of the source that decides what is measured: a "dirty" commit says little."""
    commit_info["source"] = provenance.source_digest()


# The names that a conftest.py takes over.
__all__ = ["measured", "pytest_benchmark_update_commit_info", "pytest_benchmark_update_machine_info", "replay"]
