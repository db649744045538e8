"""The contest behind `tune --auto`: what is raced, what is stored, and that it is used from then on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from harness import cli, gemm
from harness.api.arrays import HOST
from harness.autotune import choice, grid
from harness.cli import tune
from harness.errors import VerificationError
from harness.interface import Backend, HostExecution
from harness.machine import detect
from harness.plan import Plan
from harness.problem import Problem
from harness.timing.device_clock import CudaEventClock
from harness.tuning import stored
from harness.tuning.choice import orders
from harness.tuning.choice.classes import Sizes, class_of

SMALL = Problem(16, 16, 16)


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """Keep tables in a folder of the test's own."""
    monkeypatch.setenv(stored.VARIABLE, str(tmp_path))
    monkeypatch.setattr(orders, "_known", {})
    return tmp_path


def racing(**ns):
    """Return a race with those times, by name; no clock is read."""
    return lambda place, problem, names: {name: ns[x] for name in names if (x := name.replace("-", "_")) in ns}


def of_host(threads=1):
    return choice.Processor(detect(), choice.RacedCall(gemm, HOST), threads, threads)


def test_times_are_stored_in_thousandths_of_the_fastest_and_used_from_then_on(place):
    contest = choice.Contest(of_host(), has_optional=False, race=racing(cpu_simd=300.0, cpu_numpy=200.0))
    assert [name for name, _ in contest.run([SMALL])] == [f"{class_of(SMALL, 1)}: 16x16x16"]
    path = contest.store()
    assert path.parent == place
    assert json.loads(path.read_text())["evidence"]["code"]
    (table, *_) = orders.tables_of(detect())
    assert table.near(class_of(SMALL, 1), Sizes.of(SMALL))[0] == {"cpu-numpy": 1000, "cpu-simd": 1500}


def test_a_later_contest_adds_to_the_table():
    for problem in (SMALL, Problem(64, 64, 64)):
        contest = choice.Contest(of_host(), race=racing(cpu_simd=1.0, cpu_numpy=2.0))
        assert list(contest.run([problem]))
        contest.store()
    assert len(stored.read(orders.AutoOwner(detect())).values) == 2


def test_who_is_far_behind_for_long_is_not_called_at_larger_products():
    seen = []

    def race(place, problem, names):
        seen.append(names)
        return {"cpu-simd": 1e6, "cpu-numpy": 50e6}

    contest = choice.Contest(of_host(), has_optional=False, race=race)
    list(contest.run([Problem(n, n, n) for n in (16, 32)]))
    assert [("cpu-numpy" in names) for names in seen] == [True]  # with one contender there is nothing to race
    list(contest.run([Problem(8, 16, 16)]))
    assert len(seen) == 2, "a smaller one may be another matter"


def test_time_that_is_up_ends_it():
    assert list(choice.Contest(of_host(), 0.0, race=racing(cpu_simd=1.0, cpu_numpy=2.0)).run([SMALL])) == []


def test_results_are_compared_before_they_are_timed(monkeypatch):
    found = choice.race(of_host(), SMALL, ["cpu-simd", "cpu-numpy"])
    assert found.keys() == {"cpu-simd", "cpu-numpy"}
    out = np.empty((2, 2))
    half = Problem(2, 2, 2)
    with pytest.raises(VerificationError, match="cpu-numpy computes something else"):
        choice._proven(of_host(), half, "cpu-numpy", lambda: out.fill(3), out, np.ones((2, 2)))
    with pytest.raises(VerificationError):  # nothing was written
        choice._proven(of_host(), half, "cpu-numpy", lambda: None, out, np.ones((2, 2)))


def test_a_gpu_is_timed_by_the_queue_of_its_backend_and_raced_by_the_call_that_is_given():
    class Queue:
        def synchronize(self):
            return "waited"

    class OnQueue(HostExecution):
        queue = Queue()

    class Planted(Backend):
        def architecture(self):
            return "sm_90"

        def plan(self, problem, machine):
            return Plan(problem)

        def prepare(self, plan, operands):
            return OnQueue(operands, lambda: None)

    call = choice.RacedCall(gemm, HOST)
    gpu = choice.Processor.gpu(Planted(), call)
    assert (gpu.owner.arch, gpu.call, gpu.threads) == ("sm_90", call, None)
    assert gpu.wait() == "waited"
    assert isinstance(gpu.clock(), CudaEventClock)


def test_every_product_of_the_grid_has_a_class_of_its_own_sizes():
    for threads in (None, 1):
        products = list(grid.problems(threads))
        entries = [(class_of(problem, threads), Sizes.of(problem)) for problem in products]
        assert len(set(entries)) == len(entries)
        assert len(entries) > 1000


def test_the_command_stores_shows_and_forgets(monkeypatch):
    run = CliRunner().invoke
    monkeypatch.setattr(choice, "race", racing(cpu_simd=300.0, cpu_numpy=200.0))
    monkeypatch.setattr(grid, "problems", lambda threads: iter([SMALL]))
    path = stored.folder() / f"{orders.AutoOwner(detect()).key}.json"
    assert "cpu-numpy 1" in run(cli.app, ["tune", "--auto", "--dry-run"]).output
    assert not path.exists()
    assert f"stored   {path}" in run(cli.app, ["tune", "--auto"]).output
    shown = run(cli.app, ["tune", "--auto", "--show"]).output
    assert "cpu-numpy 1" in shown
    assert str(path) in "".join(shown.split("\n"))
    assert run(cli.app, ["tune", "--auto", "--forget"]).output == f"removed  {path}\n"
    assert "nothing is stored" in run(cli.app, ["tune", "--auto", "--forget"]).output
    assert run(cli.app, ["tune", "--show"]).exit_code != 0
    path.write_text("{")
    assert "is ignored" in run(cli.app, ["tune", "--auto", "--show"]).output
    assert tune.SECONDS_ON_HOST > 0
