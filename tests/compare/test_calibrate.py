"""Calibration: what is planted is real, what is measured is kept, and what is said of it follows from the samples."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

from harness.analysis import calibration as analysis_calibration
from harness.analysis.calibration import OWN, REFERENCE, Trial
from harness.cli import app
from harness.compare import calibration
from harness.compare.calibration import SlowedTask
from harness.experiment import Budget
from harness.run import runner, trial
from harness.stats import verdict
from harness.store.journal import Journal
from harness.store.store import Cell, Store
from harness.timing.measure import Measurement
from harness.timing.warmup import WarmUp
from tests._support.noise import times
from tests._support.planted_store import read_cell
from tests._support.planted_tasks import Planted


def trials(count: int, slowdown: float, *, true: float | None = None, scatter: float = 0.003) -> list[Trial]:
    own, reference = times("processes", count, 3, 5, seed=count, scatter=scatter)
    own = own * (1 + (slowdown if true is None else true))
    return [
        Trial(contender(OWN, one.tolist(), slowdown), contender(REFERENCE, other.tolist(), slowdown))
        for one, other in zip(own, reference, strict=True)
    ]


def contender(label: str, samples_ns: list[list[float]], slowdown: float) -> Cell:
    """Return a cell that was never measured."""
    axes = {"semiring": "plus_times", "dtype": "float64", "n": 64, "slowdown": slowdown}
    return read_cell(axes=axes, contender=label, arguments={"backend": "cpu-test"}, status="ok", samples_ns=samples_ns)


class Measured(list):
    """The cases that were measured; in the one of this repetition the user presses Ctrl-C."""

    interrupted_at = -1


@pytest.fixture
def measured(monkeypatch):
    """Have cases measured at once, by no process; return the cases that were."""
    done = Measured()

    def measure_case(case, budget, pool, patience, gate):
        done.append(case)
        if case.axes["repetition"] == done.interrupted_at:
            raise KeyboardInterrupt
        labels = [c.label for c in case.contenders]
        samples = {label: [100.0 + i for i in range(2 * budget.rounds)] for label in labels}
        readings = {label: [{}] * len(own) for label, own in samples.items()}
        warm_ups = {label: WarmUp(1, 1, 0.0) for label in labels}
        outcomes = {label: trial.Entrant(pool) for label in labels}
        return outcomes, [Measurement(dict(samples), readings, warm_ups) for _ in range(budget.processes)]

    monkeypatch.setattr(trial, "measure_case", measure_case)
    return done


def test_the_contenders_of_an_a_a_cell_differ_by_name_alone():
    for case in calibration.cases(25, 0.0):
        once, again = case.contenders
        assert once.label != again.label
        assert (once.arguments, once.threads, once.task) == (again.arguments, again.threads, again.task)
    assert len({case.key for case in calibration.cases(25, 0.0)}) == 25


def test_the_contenders_of_a_planted_cell_differ_by_the_slow_down_alone():
    for case in calibration.cases(4, 0.05, ["cpu-numpy"]):
        reference, own = case.contenders
        assert reference.arguments == {**own.arguments, "slowdown": 0.0}
        assert own.arguments["slowdown"] == 0.05
        assert own.task == reference.task == calibration.SLOWED_TASK


def test_a_calibration_that_ends_early_has_done_its_share_of_both_kinds():
    order = calibration.interleaved(calibration.cases(20, 0.0), calibration.cases(10, 0.05))
    assert len(order) == 30
    for end in range(3, 31, 3):
        planted = sum(case.contenders[0].task == calibration.SLOWED_TASK for case in order[:end])
        assert abs(planted - end / 3) <= 1


class FakeTime:
    """A clock that advances by 30 ns with each look, and by the work of a task."""

    def __init__(self) -> None:
        self.now = 0

    def perf_counter_ns(self) -> int:
        self.now += 30
        return self.now


@pytest.mark.parametrize(("fraction", "spun"), [(0.0, 0), (0.05, 56.5), (0.5, 565)])
def test_a_slowed_task_takes_longer_by_the_fraction_and_not_by_the_grain_of_the_clock(monkeypatch, fraction, spun):
    """Spun is the fraction of what it computes, of the looks before and after, and of what else a call costs."""
    clock = FakeTime()
    monkeypatch.setattr(calibration, "time", clock)

    def work(_):
        clock.now += 1000

    task = SlowedTask(Planted(work), fraction, calls_ns=100.0)
    for _ in range(1000):
        task.run()
    looks = 3 * 30  # before the product, after it, and before it spins
    assert clock.now / 1000 == pytest.approx(1000 + looks + spun, abs=0.5)


def test_a_slowed_task_computes_what_the_task_computes():
    case = calibration.cases(1, 0.05, ["cpu-numpy"])[0]
    task = calibration.slowed(threads=1, **case.arguments, **case.contenders[1].arguments)
    task.spoil()
    task.run()
    task.wait()
    assert task.verify()
    assert task.facts()["operations"] == 2 * 64**3


def test_a_cell_without_a_time_has_its_reason(tmp_path):
    experiment = calibration.experiment(calibration.cases(1, 0.0, ["cpu-nope"]), Budget(rounds=1))
    done = runner.run([experiment], analysis_calibration.CALIBRATION, tmp_path)
    (only,) = calibration.trials(done.folder.parent, done.run)
    assert "cpu-nope" in only.reason
    assert (only.backend, only.problem, only.slowdown) == ("cpu-nope", "plus_times float64 n=64", 0.0)
    assert analysis_calibration.findings([only]).failed == 1


def test_the_findings_count_what_was_called_what():
    found = analysis_calibration.findings([*trials(100, 0.0), *trials(50, 0.05)])
    assert (found.cells, found.planted, found.slowdown, found.failed) == (100, 50, 0.05, 0)
    assert found.false <= 1
    assert found.same > 80
    assert found.found >= 48
    assert found.found_alone <= found.found
    text = "\n".join(analysis_calibration.sentences(found))
    assert f"{found.found} of 50 cells that are 5 % slower found" in text
    assert f"{found.same} called the same" in text


def test_a_false_verdict_is_counted_as_one():
    liars = trials(10, 0.0, true=0.2)  # said to be A/A, and are not
    found = analysis_calibration.findings([*trials(90, 0.0), *liars])
    assert found.false == 10
    assert found.false_rate.estimate == 0.1


def test_what_is_not_slower_is_not_found():
    assert analysis_calibration.findings([*trials(50, 0.0), *trials(20, 0.05, true=0.0)]).found == 0


@pytest.mark.parametrize("scatter", [0.004, 0.02])
def test_the_smallest_detectable_change_is_found_in_most_cells(scatter):
    pairs = [done.comparison for done in trials(400, 0.0, scatter=scatter)]
    change = np.median([analysis_calibration.detectable_change(pair) for pair in verdict.settle(pairs)])
    found = [verdict.judge([pair])[0] for pair in verdict.settle(pairs)]
    assert found.count(verdict.Verdict.SLOWER) < 20
    for factor, low, high in ((1.0, 0.85, 1.0), (0.5, 0.0, 0.6)):
        own = trials(400, 0.0, true=factor * float(change), scatter=scatter)
        settled = verdict.settle([done.comparison for done in own])
        seen = [c.ratio.low > 1 and c.ratio.estimate > 1 + verdict.MINIMUM_EFFECT for c in settled]
        assert low <= np.mean(seen) <= high


@pytest.mark.parametrize(("count", "of"), [(0, 200), (2, 200), (5, 7), (7, 7)])
def test_the_interval_of_a_rate_is_scipys(count, of):
    expected = scipy.stats.binomtest(count, of).proportion_ci(method="wilson")
    rate = analysis_calibration.proportion(count, of)
    assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high), abs=1e-4)
    assert rate.estimate == count / of
    assert math.isnan(analysis_calibration.proportion(0, 0).low)


def test_the_last_summary_is_the_one_to_quote(tmp_path):
    assert analysis_calibration.latest(tmp_path) is None
    journal = Journal(tmp_path / analysis_calibration.FILE)
    for count in (50, 60):
        journal.append([analysis_calibration.findings(trials(count, 0.0)).to_json()])
    found = analysis_calibration.latest(tmp_path)
    assert found["cells"] == 60
    journal.append([analysis_calibration.findings(trials(10, 0.05)).to_json()])  # says nothing of false verdicts
    assert analysis_calibration.latest(tmp_path) == found
    assert found["false_rate"][1] == 0.0


def command(*arguments: str):
    return CliRunner().invoke(app, ["calibrate", *arguments])


def test_the_command_prints_and_keeps_what_it_found(measured, tmp_path):
    answer = command("--cells", "4", "--planted", "2", "--results", str(tmp_path))
    assert answer.exit_code == 0, answer.output
    assert len(measured) == 6
    assert re.search(r"^A/A +cpu-simd +plus_times float64 n=64 +1", answer.stdout, re.MULTILINE)
    assert "0 of 4 cells called faster or slower" in answer.stdout
    (path,) = tmp_path.glob("*/calibration.jsonl")
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["calibration"]
    assert len(list(Store(path.parent / analysis_calibration.CALIBRATION).every_cell())) == 12
    as_json = json.loads(command("--cells", "2", "--planted", "0", "--json", "--results", str(tmp_path)).stdout)
    assert (as_json["cells"], as_json["planted"], as_json["processes"]) == (2, 0, 3)


def test_an_interrupted_calibration_keeps_and_shows_what_is_finished(measured, tmp_path):
    measured.interrupted_at = 2
    answer = command("--cells", "5", "--planted", "0", "--results", str(tmp_path))
    assert answer.exit_code == 130
    assert "0 of 2 cells called faster or slower" in answer.stdout
    assert "what is finished is kept" in answer.stderr
    (folder,) = tmp_path.glob(f"*/{analysis_calibration.CALIBRATION}")
    assert len(list(Store(folder).every_cell())) == 4


def test_no_cell_is_begun_when_time_is_up(measured, tmp_path):
    answer = command("--cells", "5", "--minutes", "0", "--results", str(tmp_path))
    assert answer.exit_code == 0
    assert not measured
    (folder,) = tmp_path.glob(f"*/{analysis_calibration.CALIBRATION}")
    ends = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    finished = [name for record in ends if record["kind"] == "done" for name in record["experiments"]]
    assert finished == [], "a run that was cut short has not finished its experiment"


def test_a_real_cell_goes_the_way_of_experiments(tmp_path):
    answer = command(
        *("--cells", "1", "--planted", "0", "--processes", "1", "--rounds", "2", "--backend", "cpu-numpy"),
        *("--precision", "0", "--results", str(tmp_path)),
    )
    assert answer.exit_code == 0, answer.output
    (folder,) = tmp_path.glob(f"*/{analysis_calibration.CALIBRATION}")
    samples = {cell.contender: [len(own) for own in cell.samples_ns] for cell in Store(folder).every_cell()}
    assert samples == {REFERENCE: [4], OWN: [4]}


@pytest.mark.parametrize(
    ("arguments", "clue"),
    [(("--backend", "cpu-nope"), "cpu-nope"), (("--cells", "0"), "'--cells': 0 is not in the range")],
)
def test_a_mistake_is_said_before_anything_is_measured(measured, arguments, clue, tmp_path):
    answer = command(*arguments, "--results", str(tmp_path))
    assert clue in f"{answer.exception} {answer.stderr}"
    assert answer.exit_code != 0
    assert not measured
