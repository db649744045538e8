"""Benchmarks for pytest-benchmark that are sampled by the harness: pytest-benchmark shows, stores and compares them.

pytest-benchmark's own sampling takes one contender after the other, and calibrates on a first call that may compile.
Here a case is measured as every experiment's case is (`harness.run.trial`): each contender in a process of its own,
compiled and proven right before the clock starts, in turns. A test then hands the samples of its contender over::

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from harness import machine, registry
from harness.experiment import GEMM_TASK, PEAK_TASK, Budget, Case, Contender, backend_contender, product_case
from harness.problem import Problem
from harness.run import provenance, trial
from harness.run.process import Pool
from harness.run.trial import Outcome, Patience
from harness.stats import statistics, verdict
from harness.timing.measure import Measurement

BUDGET = Budget(rounds=10, seconds=20.0, processes=2)
PEAK_BUDGET = Budget(rounds=5, seconds=1.0)


class Replay:
    """A timer that shows times which were taken before: of two readings, the first is 0 and the second the sample."""

    def __init__(self) -> None:
        self._readings: Iterator[float] = iter(())

    def load(self, samples_ns: Iterable[float]) -> None:
        """Take over the samples [ns]."""
        self._readings = (reading for sample in samples_ns for reading in (0.0, sample * 1e-9))

    def __call__(self) -> float:
        """Return the next reading [s]."""
        return next(self._readings)


REPLAY = Replay()


@dataclass(frozen=True)
class BenchCell:
    """One contender in one case, as the parameter of a test.

    Parameters
    ----------
    case : Case
    label : str
    budget : Budget
    """

    case: Case
    label: str
    budget: Budget = BUDGET

    @property
    def contender(self) -> Contender:
        """The contender called `label`."""
        return next(contender for contender in self.case.contenders if contender.label == self.label)

    @property
    def problem(self) -> Problem | None:
        """The product that is computed, or None if the task is none."""
        is_product = self.contender.task == GEMM_TASK
        return Problem.from_json(dict(self.case.arguments["problem"])) if is_product else None

    @property
    def axes(self) -> dict[str, Any]:
        """Where the cell stands, as plain JSON."""
        return {**self.case.axes, "threads": self.contender.threads, "contender": self.label}

    @property
    def group(self) -> str:
        """What all contenders of the case have in common: a table of pytest-benchmark shows them together."""
        what = self.problem or " ".join(map(str, self.case.axes.values()))
        threads = {contender.threads for contender in self.case.contenders}
        return f"{what} threads={threads.pop()}" if len(threads) == 1 else str(what)


def race(problem: Problem, *, reference: str, threads: int = 1, family: str = "cpu-") -> Case:
    """Return the case in which every backend of a family that can compute `problem` does, the lowest rung first."""
    able = [backend for backend in registry.able(problem) if backend.name.startswith(family)]
    rungs = sorted(able, key=lambda backend: (backend.step, backend.name))
    case = product_case(problem, [backend_contender(rung.name, threads=threads) for rung in rungs])
    return dataclasses.replace(case, reference=reference)


def cells(*cases: Case, budget: Budget = BUDGET) -> list[Any]:
    """Return each contender of `cases` as a parameter for ``pytest.mark.parametrize``; a table shows one case."""
    found = [BenchCell(case, contender.label, budget) for case in cases for contender in case.contenders]
    return [
        pytest.param(cell, id=f"{cell.group} {cell.label}", marks=pytest.mark.benchmark(group=cell.group, timer=REPLAY))
        for cell in found
    ]


@dataclass
class Found:
    """What became of the contenders of one case, and their samples, a measurement a process."""

    outcomes: Mapping[str, Outcome]
    measurements: list[Measurement]

    def samples_ns(self, label: str) -> list[list[float]]:
        """Return the samples by process [ns per call]."""
        return [measurement.samples_ns[label] for measurement in self.measurements]


@dataclass
class Measured:
    """Measures a case when its first contender is asked for, and keeps what it found; peaks likewise.

    Parameters
    ----------
    wanted : iterable of BenchCell
        The cells that will be asked for: only they and their references are measured.
    """

    wanted: Iterable[BenchCell] = ()
    pool: Pool = field(default_factory=Pool)
    _found: dict[str, Found] = field(default_factory=dict)

    def __call__(self, cell: BenchCell) -> Found:
        """Return what was found in the case of `cell`."""
        case, key = cell.case, cell.case.key
        if key not in self._found:
            labels = {other.label for other in self.wanted if other.case.key == key} | {cell.label, case.reference}
            contenders = tuple(contender for contender in case.contenders if contender.label in labels)
            chosen = Case(case.axes, contenders, case.arguments, case.reference)
            self._found[key] = Found(*trial.measure_case(chosen, cell.budget, self.pool, Patience()))
        return self._found[key]

    def peak(self, cell: BenchCell) -> float | None:
        """Return what registers alone reach here at the task of `cell` [G operations/s]; None: not known, or a GPU's.

        It is the rate of the fastest sample: a ceiling is missed by chance, never exceeded.
        """
        problem, threads = cell.problem, cell.contender.threads
        if problem is None or str(cell.contender.arguments["backend"]).startswith("gpu-"):
            return None
        arguments = {"semiring": problem.semiring.name, "dtype": problem.dtype.name}
        case = Case({**arguments, "threads": threads}, (Contender("peak", {}, threads, PEAK_TASK),), arguments)
        found = self(BenchCell(case, "peak", PEAK_BUDGET))
        outcome = found.outcomes["peak"]
        if not outcome.is_ok:
            return None
        return float(outcome.facts["operations"]) / min(min(samples) for samples in found.samples_ns("peak"))


class Hand(Protocol):
    """Hands the samples of a cell to pytest-benchmark."""

    def __call__(self, cell: BenchCell) -> None:
        """Do so; skip the test of a contender that declined or is missing here, and fail that of one that failed."""


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Return what measures the cases of the tests that were selected, each once a session."""
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    values = [value for found in parameters if found for value in found.params.values()]
    measure = Measured([value for value in values if isinstance(value, BenchCell)])
    yield measure
    measure.pool.kill()


@pytest.fixture
def replay(benchmark: Any, measured: Measured) -> Hand:
    """Return what hands the samples of a cell to pytest-benchmark, with ratios and percent of peak as extra_info."""

    def hand_over(cell: BenchCell) -> None:
        found = measured(cell)
        outcome = found.outcomes[cell.label]
        if outcome.status in ("declined", "missing"):
            pytest.skip(f"{outcome.status}: {outcome.reason}")
        if not outcome.is_ok:
            pytest.fail(outcome.reason, pytrace=False)
        samples_ns = [sample for process in found.samples_ns(cell.label) for sample in process]
        benchmark.extra_info.update(extra_info(cell, found, measured.peak(cell)))
        benchmark.params = cell.axes  # what --benchmark-group-by=param:NAME goes by, in place of an object
        REPLAY.load(samples_ns)
        benchmark.pedantic(_nothing, rounds=len(samples_ns))

    return hand_over


def extra_info(cell: BenchCell, found: Found, peak: float | None) -> dict[str, Any]:
    """Return what pytest-benchmark stores beside the times: what was measured, and what the times say.

    ``time_over_reference`` is estimate, low and high end of the paired ratio to ``reference``; below 1 is faster.
    """
    own, outcome = found.samples_ns(cell.label), found.outcomes[cell.label]
    operations = outcome.facts.get("operations")
    rate = operations / statistics.median([sample for process in own for sample in process]) if operations else None
    ratio = None
    if found.outcomes[cell.case.reference].is_ok:
        ratio = verdict.compare(own, found.samples_ns(cell.case.reference)).ratio
    return {
        "contender": cell.label,
        "problem": cell.problem.to_json() if cell.problem else dict(cell.case.axes),
        "threads": cell.contender.threads,
        "processes": len(own),
        "loops": [measurement.loops[cell.label] for measurement in found.measurements],
        "reference": cell.case.reference,
        "time_over_reference": [round(value, 4) for value in ratio] if ratio else None,
        "rate_gops": round(rate, 3) if rate else None,
        "percent_of_peak": round(100 * rate / peak, 2) if rate and peak else None,
        "verified": outcome.verified,
        "unmet": next((measurement.unmet for measurement in found.measurements if measurement.unmet), ""),
    }


def pytest_benchmark_update_machine_info(config: object, machine_info: dict[str, Any]) -> None:
    """Add what decides the speed of a product here: results are comparable where ``fingerprint`` is equal."""
    machine_info["gemm_harness"] = _description()


@functools.cache
def _description() -> dict[str, Any]:
    """Return it, found out once a session: Numba has to compile a function to say which threads it takes."""
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
        "gpu": gpu(),
    }


def pytest_benchmark_update_commit_info(config: object, commit_info: dict[str, Any]) -> None:
    """Add the digest of the source that decides what is measured: a "dirty" commit says little."""
    commit_info["source"] = provenance.source_digest()


def gpu() -> str:
    """Return the name of the GPU that CuPy sees, or an empty string."""
    try:
        import cupy

        return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    except Exception:  # noqa: BLE001 not installed, no device, no driver: whatever it is, there is no GPU to name
        return ""


def _nothing() -> None:
    """Do nothing: the times were taken before."""


# What a conftest.py takes over.
__all__ = ["measured", "pytest_benchmark_update_commit_info", "pytest_benchmark_update_machine_info", "replay"]
