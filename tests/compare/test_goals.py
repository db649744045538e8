"""Goals of experiments, judged by stored runs: rates, means, facts, and what was not measured."""

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from harness import catalogue
from harness.cli import app
from harness.compare import goals, stored_runs
from harness.errors import StoreError
from harness.experiment import Experiment, Goal
from harness.store.store import Store
from tests._support.noise import times
from tests._support.planted_store import MACHINE, begun, cell, done

SIZES = (64, 128, 256, 512)
# Time over that of the library, by contender and size.
SLOW, FAST = {"slow": (1.25, 1.3, 1.25, 1.2)}, {"fast": (0.8, 0.6, 0.8, 1.25)}


@pytest.fixture
def results(tmp_path):
    store = Store(tmp_path / MACHINE.slug / "quick")
    store.append(begun("run1", machine=MACHINE.key))
    noise = iter(times("processes", 3 * len(SIZES), 3, 5, seed=1, scatter=0.002)[0])
    for at, n in enumerate(SIZES):
        ratios = {"library": 1.0, **{name: each[at] for name, each in (SLOW | FAST).items()}}
        store.append(*(
            cell(name, n, reference="library", samples_ns=(ratio * next(noise)).tolist(), machine=MACHINE.key,
                 threads=1 + (name == "slow"), facts={"operations": 6, "residual": ratio, "first_s": {"call": ratio}})
            for name, ratio in ratios.items()
        ), machine=MACHINE)  # fmt: skip
    store.append(cell("gone", 64, status="missing", samples_ns=[], machine=MACHINE.key), machine=MACHINE)
    store.append(done("run1"))
    return tmp_path


def judged(results, *asked):
    ladder = Experiment("ladder", "?", lambda *_: [], (), {}, goals=asked)
    return goals.judged(stored_runs.side("quick", results), [ladder])


def verdicts(results, *asked):
    return [one.verdict for one in judged(results, *asked)]


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (Goal("fast", 1.0, "library"), ["holds", "holds", "holds", "misses"]),
        (Goal("fast", 0.8, "library"), ["holds"] * 4),  # 1 / 1.25, which is what is asked
        (Goal("slow", 0.9, "library"), ["misses"] * 4),
        (Goal("slow", 0.7, "library"), ["holds"] * 4),
        (Goal("slow", 0.4, "library", per_thread=True), ["holds", "misses", "holds", "holds"]),
        (Goal("slow", 0.7, "library", {"n": [64, 128]}), ["holds"] * 2),
        (Goal(("slow", "fast"), 1.2, "lib*", {"n": 64}), ["holds"]),  # the fastest of them
        (Goal("slow", 0.7, ("library", "fast"), {"n": 64}), ["misses"]),
        (Goal("fast", 1.2, "library", mean=True), ["holds"]),
        (Goal("fast", 1.3, "library", mean=True), ["misses"]),
        (Goal("slow", 1.25, fact="residual"), ["holds", "misses", "holds", "holds"]),
        (Goal("slow", 1.25, "library", fact="first_s"), ["holds", "misses", "holds", "holds"]),
        (Goal("fast", 9.0, "library", simd="avx2"), ["misses"] * 4),
        (Goal("gone", 1.0, "library"), ["no time"]),
    ],
)
def test_goals_hold_or_miss(goal, expected, results):
    assert verdicts(results, goal) == expected


@pytest.mark.parametrize("rate", [1.215, 1.22, 1.225, 1.23, 1.24])
def test_what_is_faster_or_the_same_holds_between_the_two(rate, results):
    """A rate of 1.25 is above each by 1 to 3 %, and 2 % are where the same ends."""
    assert verdicts(results, Goal("fast", rate, "library", {"n": [64]})) == ["holds"]


def test_what_is_seen_is_the_rate_over_the_other(results):
    one, of_all = judged(results, Goal("fast", 1.0, "library", {"n": 64}), Goal("fast", 1.0, "library", mean=True))
    assert one.seen.estimate == pytest.approx(1 / 0.8, rel=0.02)
    assert of_all.seen.estimate == pytest.approx((0.8 * 0.6 * 0.8 * 1.25) ** -0.25, rel=0.02)
    assert of_all.seen.low <= of_all.seen.estimate <= of_all.seen.high
    assert "geometric mean of 4 cases" in of_all.position


def test_a_single_pair_decides_nothing(results):
    store = Store(results / MACHINE.slug / "quick")
    store.append(begun("run2", machine=MACHINE.key))
    for name, ns in (("library", 2.0), ("fast", 1.0)):
        store.append(cell(name, 64, samples_ns=[[ns]], run="run2", machine=MACHINE.key), machine=MACHINE)
    store.append(done("run2"))
    (one,) = judged(results, Goal("fast", 1.0, "library", {"n": 64}))
    assert one.verdict == "unsure"
    assert one.seen.high == float("inf")


@pytest.mark.parametrize("goal", [Goal("fast", 1.0, "nobody"), Goal("fast", 1.0, "library", simd="amx_tile")])
def test_a_run_without_the_contenders_is_told(goal, results):
    with pytest.raises(StoreError, match="asks anything"):
        judged(results, goal)


def test_the_command_prints_goals_and_fails_if_one_is_missed(results, monkeypatch):
    ladder = catalogue.load_all()["ladder"]

    def compare(asked, *options):
        asking = dataclasses.replace(ladder, goals=(Goal("fast", asked, "library"),))
        monkeypatch.setattr(catalogue, "load_all", lambda: {"ladder": asking})
        return CliRunner().invoke(app, ["compare", "quick", "--goals", *options, "--results", str(results)])

    assert compare(0.8).exit_code == 0
    missed = compare(1.0)
    assert missed.exit_code == 1
    assert "4 goals, judged together: 3 holds, 1 misses, 0 unsure, 0 no time" in missed.stdout
    told = json.loads(compare(1.0, "--json").stdout)["goals"]
    assert [one["verdict"] for one in told] == ["holds", "holds", "holds", "misses"]
