"""Experiments on ranks: cases for any machine, tasks that count and read stages, and a run of each from end to end."""

import dataclasses
import json

import numpy as np
import pytest

from experiments._parts import drawn_ranks_task, gpu_ranks, positional, ranks
from experiments._parts.ranks_task import stage_seconds
from harness.catalogue import load_all
from harness.errors import Declined, VerificationError
from harness.experiment import PRESETS
from harness.problem import Problem
from tests._support.planted_rank_cells import TWO_GPUS
from tests._support.processes import python
from tests._support.synthetic import MACHINE

EXPERIMENTS = {name: found for name, found in load_all().items() if name.startswith("dist_")}


def harness_run(folder, *names, **environment):
    """Run experiments as a user does; return their cells by experiment."""
    python("-m", "harness", "run", *names, "--preset", "smoke", "--results", folder, **environment)
    files = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in folder.glob("*/smoke/dist_*.jsonl")}
    return {name: [cell for cell in map(json.loads, files[name]) if cell["kind"] == "cell"] for name in names}


def stages_are_read_with_every_sample_and_add_up(cells):
    measured = [cell for cell in cells if cell["status"] == "ok"]
    assert len(measured) == 3
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
        assert 0 < count["bytes"] == count["formula_bytes"]
    assert all(count["words"] > 0 for count in cell["facts"]["grids"])


# What else holds for the cells of an experiment: all are run once.
ALSO = {
    "dist_breakdown": stages_are_read_with_every_sample_and_add_up,
    "dist_volume": every_grid_is_counted_and_words_are_those_of_the_formula,
    "dist_memory": every_grid_is_counted_and_words_are_those_of_the_formula,
}


@pytest.mark.skipif(ranks.missing() is not None, reason=str(ranks.missing()))
@pytest.mark.parametrize(
    "names",
    [pytest.param(("dist_breakdown",), id="one"), pytest.param(tuple(EXPERIMENTS), id="all", marks=pytest.mark.deep)],
)
def test_each_runs_and_every_time_is_of_a_proven_result(names, subtests, tmp_path):
    for name, cells in harness_run(tmp_path, *names).items():  # one run: processes and jobs of ranks live on
        with subtests.test(name):
            assert cells
            for cell in cells:
                if cell["status"] == "missing":
                    assert name == "dist_peers"
                    assert "is not installed: pip install" in cell["reason"]
                else:
                    assert cell["status"] == "ok", cell["reason"]
                    assert cell["verified"]
            ALSO.get(name, len)(cells)


def test_where_no_rank_can_be_started_one_row_says_why(tmp_path):
    cells = harness_run(tmp_path, "dist_volume", PMI_RANK="0")
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

    small, large = (8192, 8192, 2048), (36864, 18432, 4608)

    def shapes(gigabytes):
        """Return the shapes that are computed, each by all strategies on all cores, and those that are declined."""
        machine = dataclasses.replace(MACHINE, cores=16, threads=16, memory=gigabytes << 30)
        asked = [c for c in EXPERIMENTS["dist_scaling"].cases("full", machine) if c.axes.get("mode") == "all cores"]
        found = {True: {}, False: {}}
        for case in asked:
            for contender in case.contenders:
                is_asked = contender.task != ranks.DECLINED_TASK
                own = found[is_asked].setdefault(tuple(case.axes[x] for x in "mnk"), {})
                own[contender.label] = contender.arguments.get("parameters", {}).get("ranks", contender.threads)
        return found[True], found[False]

    whole = dict.fromkeys(("cpu-simd", *ranks.STRATEGIES), 16)
    assert shapes(4) == ({}, {small: {"dist-2d": 1}, large: {"dist-2d": 1}})
    assert shapes(32) == ({small: whole}, {large: {"dist-2d": 1}})
    assert shapes(512) == ({small: whole, large: whole}, {})


def test_a_product_that_memory_cannot_hold_is_declined_with_the_numbers(monkeypatch):
    monkeypatch.setattr(ranks, "missing", lambda: None)
    machine = dataclasses.replace(MACHINE, memory=4 << 30)
    cases = EXPERIMENTS["dist_scaling"].cases("full", machine)
    (contender,) = next(case for case in cases if case.axes.get("m") == 36864).contenders
    with pytest.raises(Declined, match="need 75 GB, of 2 that may be used"):
        ranks.decline(threads=1, **contender.arguments)


@pytest.mark.parametrize("preset", PRESETS)
def test_gpus_add_cases_and_change_no_other(preset, monkeypatch):
    monkeypatch.setattr(ranks, "missing", lambda: None)
    with_cases = ("dist_scaling", "dist_breakdown", "dist_volume", "dist_peers", "dist_projection")
    for name, experiment in EXPERIMENTS.items():
        without, both = (experiment.cases(preset, machine) for machine in (MACHINE, TWO_GPUS))
        on_gpus = [case for case in both if case.axes.get("device") == "gpu"]
        assert [case.key for case in without] == [case.key for case in both if case not in on_gpus]
        assert bool(on_gpus) == (name in with_cases)
    by_label = {c.label: c for case in EXPERIMENTS["dist_scaling"].cases(preset, TWO_GPUS) for c in case.contenders}
    counts = {
        label: by_label[label].arguments["parameters"]["ranks"] for label in ("dist-2d, 1 GPU", "dist-2d, 2 GPUs")
    }
    assert list(counts.values()) == [1, 2]
    six = dataclasses.replace(TWO_GPUS, gpu={**TWO_GPUS.gpu, "count": "6"})
    assert gpu_ranks.gpu_counts(six) == [1, 2, 4, 6]
    assert gpu_ranks.gpu_counts(MACHINE) == []


def test_products_that_gpus_cannot_hold_are_declined():
    small = dataclasses.replace(TWO_GPUS, gpu={**TWO_GPUS.gpu, "memory_mib": "8000"})
    problem = Problem(16384, 16384, 16384)
    assert [gpu_ranks.fits_gpus(problem, small, count) for count in (1, 2, 4)] == [False, True, True]


def test_values_by_position_are_the_same_in_any_part_and_fill_all_digits():
    rows, columns = np.arange(300), np.arange(200)
    whole = positional.block(1, "a", rows, columns, np.dtype(np.float64))
    part = positional.block(1, "a", rows[100:103], columns[7::50], np.dtype(np.float64))
    np.testing.assert_array_equal(part, whole[100:103, 7::50])
    assert np.all((whole >= -1) & (whole < 1))
    assert abs(whole.mean()) < 0.01
    assert whole.std() == pytest.approx(3**-0.5, rel=0.01)
    assert np.unique(whole).size == whole.size
    assert np.count_nonzero(whole * 2**40 % 1) > 0.99 * whole.size
    for other in (
        positional.block(2, "a", rows, columns, whole.dtype),
        positional.block(1, "b", rows, columns, whole.dtype),
    ):
        assert abs(np.corrcoef(whole.ravel(), other.ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(whole[:-1].ravel(), whole[1:].ravel())[0, 1]) < 0.02


@pytest.mark.skipif(ranks.missing() is not None, reason=str(ranks.missing()))
@pytest.mark.parametrize("grid", ["1x2x1", "2x1x1", "1x1x2"])
def test_ranks_draw_their_pieces_and_a_wrong_element_in_a_crossing_is_found(grid):
    problem = Problem(70, 150, 40, "min_plus", "float32")
    made = drawn_ranks_task.product(
        problem=problem.to_json(), backend="dist-3d", seed=1, threads=2, parameters={"ranks": 2, "grid": grid}
    )
    made.run()
    first = made.verify()
    assert first.startswith("where 64 rows and 64 columns of 70x150 cross: all 4096 elements, exactly")
    made.turn()
    with pytest.raises(VerificationError, match="is wrong"):
        made.verify()  # of the first operands
    made.run()
    assert made.verify() == first
    made.spoil()
    with pytest.raises(VerificationError, match="NaN is left"):
        made.verify()
    facts = made.facts()
    assert facts["transport"] == "shared"
    assert set(facts["software"]) == {"mpi", "mpi4py"}
    assert facts["grid"] == grid


def report(**seconds):
    return {"seconds": {name.replace("_", " "): value for name, value in seconds.items()}}


def test_stages_are_means_of_the_ranks_that_compute():
    reports = [report(compute=2.0, gather_A=1.0), report(compute=4.0, gather_A=0.0), report(collect=9.0)]
    assert stage_seconds(reports, 2, 5.0, overlapped=False) == {"gather A": 0.5, "compute": 3.0, "rest": 1.5}


def test_of_overlapped_gathering_only_what_is_waited_for_counts():
    reports = [report(compute=3.0, gather_A=2.5, gather_B=2.5, reduce=0.5)]
    found = stage_seconds(reports, 1, 4.0, overlapped=True)
    assert found == {"compute": 3.0, "reduce": 0.5, "exposed communication": 0.5}
    copied = report(compute=3.0, host_to_device=2.0)
    assert stage_seconds([copied], 1, 6.0, overlapped=True) == {**copied["seconds"], "exposed communication": 1.0}
    staged = [{**copied, "transport": "staged"}]  # copies of panels, beside the products
    assert stage_seconds(staged, 1, 6.0, overlapped=True) == {"compute": 3.0, "exposed communication": 3.0}
