"""pytest-benchmark with the harness's clock: exact samples, no compilation among them, ratios, peak, and comparison."""

from __future__ import annotations

import json

import pytest

from harness.compare.pytest_bench import BenchCell, Measured, Replay, cells, extra_info, race
from harness.experiment import PEAK_TASK, Budget, Case, Contender
from harness.problem import Problem
from harness.run import trial
from harness.run.trial import Entrant
from harness.stats import verdict
from harness.timing.measure import Measurement
from harness.timing.warmup import WarmUp
from tests._support import planted_project as planted
from tests._support.processes import python

PROBLEM = Problem(16, 16, 16)

BENCH = """\
import pytest
from harness.experiment import Budget, backend_contender, product_case
from harness.problem import Problem
from harness.compare.pytest_bench import cells

NAMES = ("planted-one", "planted-two", "planted-broken", "nobody")
CASE = product_case(Problem(16, 16, 16), [backend_contender(name) for name in NAMES])
DECLINED = product_case(Problem(16, 16, 16, "min_plus"), [backend_contender("planted-one")])

@pytest.mark.parametrize("cell", cells(CASE, DECLINED, budget=Budget(rounds=3, seconds=30.0)))
def test_products(replay, cell):
    replay(cell)
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Return a function that runs the benchmarks of a small project, and where pytest-benchmark stores."""
    folder = tmp_path_factory.mktemp("bench")
    planted.write(
        folder,
        planted.backend("one", 0.001, first_s=1.0),
        planted.backend("two", 0.002),
        planted.backend("broken", 0.001, is_broken=True),
    )
    (folder / "conftest.py").write_text("from harness.compare.pytest_bench import *\n")
    (folder / "test_tiny.py").write_text(BENCH)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")

    def run(*arguments):
        storage = ("--benchmark-storage", "kept", "--benchmark-save-data", "--benchmark-only")
        options = ("-p", "no:cacheprovider", "-rA", *storage, *arguments)
        return python("-m", "pytest", *options, cwd=folder, env=planted.environment(folder), status=None)

    return run, folder / "kept"


@pytest.mark.deep
@pytest.mark.slow
def test_a_bench_is_sampled_by_the_harness_and_kept_and_compared_by_pytest_benchmark(bench):
    run, kept = bench
    answer = run("--benchmark-save", "first", "--benchmark-histogram", "drawn/bench")
    stored = json.loads(next(kept.glob("*/0001_first.json")).read_text())
    found = {one["extra_info"]["contender"]: one for one in stored["benchmarks"]}
    assert set(found) == {"planted-one", "planted-two"}
    for one in found.values():
        assert len(one["stats"]["data"]) == one["stats"]["rounds"] == 2 * 3  # two a round
        # the first call, which stands for a compilation, is not among the samples
        assert 0.001 < min(one["stats"]["data"]) <= max(one["stats"]["data"]) < 0.8
        assert one["group"] == "plus_times float64 16x16x16 threads=1"
        assert one["params"]["contender"] == one["extra_info"]["contender"]
    # of the very samples that are kept, however disturbed they are
    ratio = verdict.compare(*([found[name]["stats"]["data"]] for name in ("planted-two", "planted-one"))).ratio
    assert found["planted-two"]["extra_info"]["time_over_reference"] == pytest.approx(list(ratio), rel=1e-3)
    assert found["planted-one"]["extra_info"]["time_over_reference"] == [1.0, 1.0, 1.0]
    described = stored["machine_info"]["gemm_harness"]
    assert described["fingerprint"]
    assert described["blas"]
    assert stored["commit_info"]["source"]
    assert "broken on purpose" in answer.stdout
    assert "unknown backend 'nobody'" in answer.stdout
    assert "SKIPPED [1]" in answer.stdout
    assert "declined: plus_times without a C only" in answer.stdout
    assert "2 failed, 2 passed, 1 skipped" in answer.stdout
    assert list((kept.parent / "drawn").glob("*.svg"))

    again = run("-k", "planted-two", "--benchmark-compare=0001", "--benchmark-compare-fail=min:1000%")
    assert again.returncode == 0, again.stdout
    assert "Comparing against benchmarks from:" in again.stderr + again.stdout
    assert "(0001_first)" in again.stdout
    assert "machine_info is different" not in again.stdout + again.stderr


def test_a_replayed_time_is_exactly_the_sample():
    timer, samples = Replay(), [1.5e9, 3.0, 7.25e5]
    timer.load(samples)
    assert [-(timer() - timer()) for _ in samples] == [sample * 1e-9 for sample in samples]


def _case():
    contenders = tuple(Contender(name, {"backend": name}) for name in ("cpu-a", "cpu-b", "gpu-c"))
    return Case({"n": 16}, contenders, {"problem": PROBLEM.to_json(), "seed": 1})


class _Lab:
    """Stands for `harness.run.trial.measure_case`: a call takes 100 ns, 200 ns, 300 ns and so on; a peak's 50 ns."""

    def __init__(self):
        self.measured = []

    def __call__(self, case, budget, pool, patience):
        labels = [contender.label for contender in case.contenders]
        self.measured.append(labels)
        is_peak = case.contenders[0].task == PEAK_TASK
        facts = {"operations": PROBLEM.operations}
        outcomes = {label: Entrant(None, facts=facts, verified="all") for label in labels}
        times = {label: [50.0, 80.0] if is_peak else [100.0 * (i + 1)] * 8 for i, label in enumerate(labels)}
        warm_ups = {label: WarmUp(loops=1, calls=3, gain=0.0) for label in labels}
        return outcomes, [Measurement(dict(times), warm_ups=warm_ups)] * budget.processes


@pytest.fixture
def lab(monkeypatch):
    found = _Lab()
    monkeypatch.setattr(trial, "measure_case", found)
    return found


def test_ratio_rate_and_percent_of_peak(lab):
    cell = BenchCell(_case(), "cpu-b", Budget(processes=2))
    measured = Measured([BenchCell(_case(), label) for label in ("cpu-a", "cpu-b", "gpu-c")])
    info = extra_info(cell, measured(cell), measured.peak(cell))
    assert info["time_over_reference"] == [2.0, 2.0, 2.0]
    assert info["rate_gops"] == pytest.approx(PROBLEM.operations / 200, abs=1e-3)
    assert info["percent_of_peak"] == pytest.approx(100 * 50 / 200)  # of the fastest sample of the peak
    assert info["processes"] == 2
    assert measured.peak(BenchCell(_case(), "gpu-c")) is None


def test_one_process_in_a_slow_state_moves_no_median(lab):
    cell = BenchCell(_case(), "cpu-b")
    case = Measured([cell])(cell)
    usual = extra_info(cell, case, None)["rate_gops"]
    slow = {label: [1.6 * sample for sample in samples] for label, samples in case.measurements[0].samples_ns.items()}
    case.measurements[0] = Measurement(slow, warm_ups=case.measurements[0].warm_ups)
    assert extra_info(cell, case, None)["rate_gops"] == usual


def test_a_case_is_measured_once_and_only_those_who_are_asked_for(lab):
    wanted = [BenchCell(_case(), label) for label in ("cpu-b", "gpu-c")]
    measured = Measured(wanted[:1])
    assert measured(wanted[0]) is measured(wanted[0])
    assert lab.measured == [["cpu-a", "cpu-b"]]  # the reference always


def test_every_backend_that_can_is_in_the_race_in_the_order_of_its_rungs():
    case = race(Problem(16, 16, 16, "min_plus"), reference="cpu-packed")
    labels = [contender.label for contender in case.contenders]
    assert case.reference == "cpu-packed"
    assert labels[0] == "cpu-naive"
    assert "cpu-strassen" not in labels  # which declines
    assert [parameter.id for parameter in cells(case)] == [f"min_plus float64 16x16x16 threads=1 {n}" for n in labels]
