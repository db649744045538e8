"""Experiments on ranks: cases for any machine, tasks that count and read stages, and a run of each from end to end."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from experiments._parts import ranks
from experiments._parts.ranks_task import stage_seconds
from harness.experiment import PRESETS, load_all
from tests._support.synthetic import MACHINE

EXPERIMENTS = {name: found for name, found in load_all().items() if name.startswith("dist_")}
RUN_S = 900


def harness_run(folder, *names, **environment):
    """Run experiments as a user does; return their cells by experiment."""
    command = [sys.executable, "-m", "harness", "run", *names, "--preset", "smoke", "--results", str(folder)]
    answer = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    files = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in folder.glob("*/smoke/dist_*.jsonl")}
    return {name: [cell for cell in map(json.loads, files[name]) if cell["kind"] == "cell"] for name in names}


def stages_are_read_with_every_sample_and_add_up(cells):
    measured = [cell for cell in cells if cell["status"] == "ok"]
    assert len(measured) == 5
    for cell in measured:
        readings = cell["readings"]
        assert {"compute"} <= set(readings)
        assert "cpu_share" not in readings, "of this process, which does not compute"
        if set(cell["loops"]) == {1}:  # of several calls the stages are those of the last
            totals = [sum(filter(None, values)) for values in zip(*(x[0] for x in readings.values()), strict=True)]
            assert totals == pytest.approx(cell["samples_ns"][0], rel=0.01)
        first = cell["facts"]["first_call_s"]
        assert first["start of ranks"] > 0
        assert first["compute"] > 0
    assert any("exposed communication" in cell["readings"] for cell in measured)


def every_grid_is_counted_and_words_are_those_of_the_formula(cells):
    (cell,) = cells
    grids = {count["grid"] for count in cell["facts"]["grids"]}
    assert grids == {"1x1x2", "1x2x1", "2x1x1"}
    for count in cell["facts"]["grids"]:
        assert count["words"] == count["formula_words"]
        assert 0 < count["bytes"] <= count["formula_bytes"]
    assert all(count["words"] > 0 for count in cell["facts"]["grids"])


# What else holds for the cells of an experiment. Here, and no test of its own: so each is run once in all.
ALSO = {
    "dist_breakdown": stages_are_read_with_every_sample_and_add_up,
    "dist_volume": every_grid_is_counted_and_words_are_those_of_the_formula,
    "dist_memory": every_grid_is_counted_and_words_are_those_of_the_formula,
}


@pytest.mark.skipif(ranks.missing() is not None, reason=str(ranks.missing()))
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_runs_and_every_time_is_of_a_proven_result(name, tmp_path):
    cells = harness_run(tmp_path, name)[name]
    for cell in cells:
        if cell["status"] == "missing":
            assert name == "dist_peers"
            assert "is not installed: pip install" in cell["reason"]
        else:
            assert cell["status"] == "ok", cell["reason"]
            assert cell["verified"]
    ALSO.get(name, len)(cells)


def test_where_no_rank_can_be_started_one_row_says_why(tmp_path):
    cells = harness_run(tmp_path, "dist_volume", "dist_scaling", PMI_RANK="0")
    for own in cells.values():
        (cell,) = own
        assert (cell["contender"], cell["status"]) == ("dist-2d, 1 rank", "missing")
        assert cell["reason"]


@pytest.mark.parametrize("preset", PRESETS)
def test_without_mpi_only_what_needs_none_is_asked(preset, monkeypatch):
    monkeypatch.setattr(ranks, "missing", lambda: "mpi4py is not installed")
    for name, experiment in EXPERIMENTS.items():
        labels = {c.label for case in experiment.cases(preset, MACHINE) for c in case.contenders}
        if name not in ("dist_peers", "dist_projection"):
            assert labels == {"dist-2d, 1 rank"}
    assert {c.label for c in EXPERIMENTS["dist_projection"].cases(preset, MACHINE)[0].contenders} == {"cpu-simd"}


@pytest.mark.parametrize("cores", [1, 2, 6, 16])
def test_ranks_and_threads_share_out_all_cores(cores, monkeypatch):
    monkeypatch.setattr(ranks, "missing", lambda: None)
    machine = dataclasses.replace(MACHINE, cores=cores, threads=cores)
    _, *shared = EXPERIMENTS["dist_ranks_threads"].cases("full", machine)[0].contenders
    splits = [(c.arguments["parameters"]["ranks"], c.arguments["parameters"]["rank_threads"]) for c in shared]
    assert splits == [(p, cores // p) for p in range(1, cores + 1) if cores % p == 0]
    assert {c.threads for c in shared} == {cores}


def test_shapes_of_the_courses_are_asked_where_memory_allows(monkeypatch):
    monkeypatch.setattr(ranks, "missing", lambda: None)

    def shapes(gigabytes):
        machine = dataclasses.replace(MACHINE, cores=16, threads=16, memory=gigabytes << 30)
        cases = EXPERIMENTS["dist_scaling"].cases("full", machine)
        return {tuple(case.axes[x] for x in "mnk") for case in cases if case.axes.get("mode") == "all cores"}

    assert shapes(4) == set()
    assert shapes(32) == {(8192, 8192, 2048)}
    assert shapes(512) == {(8192, 8192, 2048), (36864, 18432, 4608)}


def report(**seconds):
    return {"seconds": {name.replace("_", " "): value for name, value in seconds.items()}}


def test_stages_are_means_of_the_ranks_that_compute():
    reports = [report(compute=2.0, gather_A=1.0), report(compute=4.0, gather_A=0.0), report(collect=9.0)]
    assert stage_seconds(reports, 2, 5.0, overlapped=False) == {"gather A": 0.5, "compute": 3.0, "rest": 1.5}


def test_of_overlapped_gathering_only_what_is_waited_for_counts():
    reports = [report(compute=3.0, gather_A=2.5, gather_B=2.5, reduce=0.5)]
    found = stage_seconds(reports, 1, 4.0, overlapped=True)
    assert found == {"compute": 3.0, "reduce": 0.5, "exposed communication": 0.5}
