"""Experiments on products with a vector, and on what stands on them: what they ask, and what their figures say."""

import dataclasses
import importlib
import re
import types

import numpy as np
import pytest

from backends.cpu import _ceilings
from experiments._parts import linalg_shares, linalg_task, positional, sparse_task, vector_task, vectors
from harness import registry
from harness.analysis import rates, read_rates
from harness.catalogue import load_all
from harness.errors import Declined, VerificationError
from harness.problem import Problem
from tests._support.charts import charts, words
from tests._support.findings import numbers, of_figure
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
HOST = dataclasses.replace(MACHINE, memory=64 << 30)
GPU = dataclasses.replace(HOST, gpu={"name": "NVIDIA H200", "memory_mib": "143771"})
ALGORITHMS = ["trsm_blocks", "refine", "qr", "hessenberg"]
ALGORITHMS_AND_OPTIONS = {"trsm": {"block": 16}, "refine": {"factor_dtype": "float32"}, "qr": {}, "hessenberg": {}}
NAMES = [name for name in EXPERIMENTS if name.startswith(("mv_", "sparse_"))] + ALGORITHMS


def draw(name, machine=GPU, made=None):
    """Return the charts of an experiment by name, from planted cells."""
    return charts(EXPERIMENTS[name], cells(EXPERIMENTS[name], machine=machine) if made is None else made, machine)


@pytest.mark.parametrize("machine", [HOST, GPU], ids=["host", "gpu"])
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn_and_its_title_states_what_was_found(name, machine):
    made = draw(name, machine)
    timed = rates.contenders(cells(EXPERIMENTS[name], machine=machine))
    assert made
    for figure in EXPERIMENTS[name].figures:
        shown = rates.select(timed, figure.options.get("where", {}))
        if len({cell.contender for cell in shown}) > 1:
            assert made[figure.name].subtitle.startswith(figure.title)
            assert made[figure.name].title != figure.title


@pytest.mark.parametrize("name", NAMES)
def test_what_failed_is_said(name):
    made = draw(name, made=cells(EXPERIMENTS[name], failing=("all",), machine=HOST))
    assert all("No contender has a time" in words(chart) for chart in made.values() if chart.notes)


@pytest.mark.parametrize("preset", ["smoke", "full"])
def test_a_matrix_beyond_memory_is_declined_and_not_begun(preset):
    cases = [case for case in EXPERIMENTS["mv_map"].cases(preset, GPU) if "side" in case.axes]
    too_large = [case for case in cases if case.axes["rows"] == case.axes["columns"] == 10**6]
    assert len(too_large) >= 2
    for case in too_large:
        assert {c.arguments["reason"] for c in case.contenders} == {"out of memory"}
        assert "problem" not in case.arguments
    assert any("problem" in case.arguments for case in cases if case.axes["rows"] == 10**6)


def test_percent_of_the_read_rate_is_of_bytes_and_only_beyond_the_cache():
    found = cells(EXPERIMENTS["mv_map"], machine=HOST)
    timed = [c for c in rates.contenders(found) if "problem" in c.facts]
    shares = {(c.axes["level"], read_rates.of_read(c, found) is not None) for c in timed}
    assert shares == {("memory", True), ("cache", False)}
    cell = next(c for c in timed if c.axes["level"] == "memory")
    assert read_rates.of_read(dataclasses.replace(cell, threads=cell.threads + 1), found) is None


def test_the_read_rate_is_that_measured_in_turns_sample_by_sample():
    found = cells(EXPERIMENTS["mv_map"], machine=HOST)
    cell = next(c for c in rates.contenders(found) if c.axes["level"] == "memory")
    beside = next(c for c in found if c.contender == "read" and rates.in_turns(c, cell))
    slow = [1, 2] * (len(cell.all_samples_ns) // 2)  # what both share
    product, read = (
        dataclasses.replace(c, samples_ns=[[ns * factor for factor in slow]]) for c, ns in ((cell, 4e6), (beside, 3e6))
    )
    made = [product, read, *(c for c in found if c not in (cell, beside))]
    interval = read_rates.of_read(product, made)
    assert interval == pytest.approx((75, 75, 75))
    assert read_rates.samples_of_read(product, made) == pytest.approx([75] * len(slow))


def test_without_one_in_turns_it_is_on_a_gpu_the_fastest_call_of_the_case_that_measures_it():
    found = cells(EXPERIMENTS["mv_map"], machine=GPU)
    roof = next(cell for cell in found if cell.contender == "read" and rates.is_on_device(cell))
    rate = max(roof.facts["bytes_moved"] / ns for ns in roof.all_samples_ns)
    cell = next(c for c in rates.contenders(found) if rates.is_on_device(c) and c.axes["level"] == "memory")
    expected = 100 * Problem.from_json(cell.facts["problem"]).bytes_moved / rates.time_interval(cell).estimate / rate
    assert read_rates.of_read(cell, found).estimate == pytest.approx(expected)
    assert np.median(read_rates.samples_of_read(cell, found)) == pytest.approx(expected, rel=1e-4)


def test_a_rate_of_reading_of_another_time_says_nothing_on_a_host():
    found = [c for c in cells(EXPERIMENTS["mv_map"], machine=HOST) if c.contender != "read" or "role" in c.axes]
    assert any(c.contender == "read" for c in found)
    cell = next(c for c in rates.contenders(found) if c.axes["level"] == "memory")
    assert read_rates.of_read(cell, found) is None
    assert read_rates.samples_of_read(cell, found) == []


def test_what_is_read_in_turns_is_as_large_as_the_matrix():
    cases = EXPERIMENTS["mv_map"].cases("full", HOST)
    case = next(c for c in cases if "side" in c.axes and c.axes["level"] == "memory")
    reader = case.contenders[-1]
    problem = vectors.sided(300, 1000, "A x", "float32")
    module, function = reader.task.split(":")
    task = getattr(importlib.import_module(module), function)(problem=problem.to_json(), seed=1, threads=2)
    task.run()
    assert task.verify()
    assert task.facts()["bytes_moved"] // (_ceilings.BYTES_PER_CALL // 1_200_000) == pytest.approx(1_200_000, abs=128)


def test_the_line_below_the_title_of_a_map_has_the_worst_shape():
    made = [
        dataclasses.replace(c, samples_ns=[[4 * ns for ns in c.all_samples_ns]])
        if c.contender == "cpu-simd" and (c.axes["rows"], c.axes["columns"]) == (10**5, 100) and c.axes["side"] == "A x"
        else c
        for c in cells(EXPERIMENTS["mv_map"], machine=HOST)
    ]
    below = draw("mv_map", HOST, made)["mv_map_ax_float32"].subtitle
    assert re.search(r"From \d+ % \(100,000 x 100\)", below)


def test_both_sides_multiply_the_same_matrix():
    by = {side: vectors.sided(30, 7, side, "float32") for side in vectors.SIDES}
    assert (by["A x"].m, by["A x"].n, by["A x"].k) == (30, 1, 7)
    assert (by["x A"].m, by["x A"].n, by["x A"].k) == (1, 7, 30)
    assert {vectors.matrix_bytes(problem) for problem in by.values()} == {840}


@pytest.mark.parametrize("method", ["dense", "csr", "dia", "graphblas"])
@pytest.mark.parametrize("form", sparse_task.FORMS)
def test_a_sparse_product_is_proven_and_a_wrong_one_is_found(form, method):
    arguments = {"form": form, "n": 60, "columns": 2, "percent": 20, "semiring": "plus_times", "threads": 1}
    if method != "dense":
        pytest.importorskip({"graphblas": "graphblas"}.get(method, "scipy"))
    task = sparse_task.product(**arguments, method=method, backend="cpu-numpy")
    task.run()
    assert task.verify()
    assert 0.1 < task.facts()["density"] < 0.3
    assert bool(task.facts().get("project")) == (method != "dense"), "whose method it is"
    task.spoil()
    with pytest.raises(VerificationError):
        task.verify()


def test_scipy_has_no_semirings_and_absent_elements_are_zeros_of_theirs():
    arguments = {"form": "uniform", "n": 30, "columns": 1, "percent": 10, "semiring": "min_plus", "threads": 1}
    pytest.importorskip("scipy")
    with pytest.raises(Declined, match="plus_times only"):
        sparse_task.product(**arguments, method="csr")
    task = sparse_task.product(**arguments, method="dense", backend="cpu-simd")
    assert np.isinf(sparse_task.sparse("uniform", 30, 10, "min_plus", 1)[0]).sum() == 30 * 30 - task.facts()["stored"]
    task.run()
    assert task.verify()


def test_dense_wins_from_the_density_on_at_which_it_stays_faster():
    made = []
    for cell in cells(EXPERIMENTS["sparse_crossover"]):
        slow = 0.5 if cell.axes["percent"] < 20 else 2.0
        made.append(dataclasses.replace(cell, samples_ns=[[1e6 * (slow if cell.contender == "scipy CSR" else 1)] * 8]))
    found = of_figure(EXPERIMENTS["sparse_crossover"], "sparse_crossover", made)
    assert (found.over, found.values[0].words) == ("scipy CSR", "from 20 % on")


def test_the_first_place_and_the_last_where_a_reference_becomes_faster_are_said():
    made = []
    for cell in cells(EXPERIMENTS["sparse_crossover"], "full"):
        least = 20 if cell.axes["n"] == 1 else 5
        slow = 0.5 if cell.axes["percent"] < least else 2.0
        made.append(dataclasses.replace(cell, samples_ns=[[1e6 * (slow if cell.contender == "scipy CSR" else 1)] * 8]))
    found = of_figure(EXPERIMENTS["sparse_crossover"], "sparse_crossover", made)
    assert (found.values[0].words, "columns" in found.values[0].place) == ("from 5 % on", True)
    assert "from 20 % on" in [value.words for value in found.others["than scipy CSR"]]
    never = [cell for cell in made if cell.axes["n"] == 1 and cell.axes["percent"] < 20]
    words = of_figure(EXPERIMENTS["sparse_crossover"], "sparse_crossover", never).values[0].words
    assert words.startswith("nowhere up to")


@pytest.mark.parametrize("method", ["cpu-numpy", "library"])
@pytest.mark.parametrize("name", ALGORITHMS_AND_OPTIONS)
def test_the_residual_of_an_algorithm_is_proven_and_stored(name, method):
    if method == "library" and name in ("trsm", "hessenberg"):
        pytest.importorskip("scipy")
    options = ALGORITHMS_AND_OPTIONS[name]
    dtype = "float64" if name == "refine" else "float32"
    task = linalg_task.algorithm(
        name=name, n=70, dtype=dtype, where="host", method=method, threads=1, columns=3, options=options
    )
    task.run()
    assert "residual" in task.verify()
    facts = task.facts()
    assert 0 < facts["residual"] < facts["bound"]
    assert "share" not in facts or (0 < facts["share"] < 1 and sum(facts["seconds"].values()) > 0)
    task.spoil()
    with pytest.raises(VerificationError, match="no result"):
        task.verify()


def test_a_share_is_of_the_fastest_run_and_only_if_that_is_as_fast_as_a_plain_one(monkeypatch):
    runs = iter([9.0, 4.0, 3.0, 3.0, 5.0, 6.0, 7.0, 8.0])  # the first one compiles
    monkeypatch.setattr(linalg_shares, "RUNS", 3)

    def staged():
        seconds = next(runs)
        return {"products": 1.0, "rest": seconds - 1.0}

    def measured(plain_seconds):
        moments = [0.0]
        monkeypatch.setattr("harness.timing.clock.time.perf_counter", lambda: moments[-1])
        return linalg_shares.measured(lambda: moments.append(moments[-1] + plain_seconds), staged, wait=lambda: None)

    assert measured(2.5) == {"seconds": {"products": 1.0, "rest": 2.0}, "share": 1 / 3}
    assert measured(1.0) == {}, "more than half again as long as a plain run"


@pytest.mark.parametrize("name", ALGORITHMS_AND_OPTIONS)
def test_a_wrong_factor_has_too_large_a_residual(name):
    chosen = linalg_task.ALGORITHMS[name]
    arrays = chosen.inputs(np.random.default_rng(1), 40, np.dtype(np.float64), 3)
    result = chosen.run(arrays, {**ALGORITHMS_AND_OPTIONS[name], "backend": "cpu-numpy", "threads": 1})
    assert chosen.residual(arrays, result) < 1e-13
    array = {"qr": lambda: result.r, "hessenberg": lambda: result.h}.get(name, lambda: result)()
    array[0, -1] += 1e-6
    assert chosen.residual(arrays, result) > 1e-11


@pytest.mark.parametrize(("name", "of"), [("qr", "QR"), ("hessenberg", "the reduction")])
def test_the_share_of_products_is_that_of_the_named_algorithm(name, of):
    made = [
        dataclasses.replace(c, facts={**c.facts, "share": 0.25, "seconds": {"products": 0.0}})
        for c in cells(EXPERIMENTS[name])
    ]
    found = of_figure(EXPERIMENTS[name], f"{name}_shares", made)
    assert (found.subject, set(numbers(found.values))) == (of, {25.0})


def test_the_winner_of_most_shapes_is_named():
    made = []
    for cell in cells(EXPERIMENTS["mv_grid"], machine=GPU):
        is_fast = cell.contender == ("256 x 1" if cell.axes.get("rows") == 10**6 else "1 x 256")
        made.append(dataclasses.replace(cell, samples_ns=[[1e5 if is_fast else 1e6] * 8]))
    found = of_figure(EXPERIMENTS["mv_grid"], "mv_grid", made)
    assert (found.subject, list(found.others)) == ("1 x 256", ["256 x 1"])


@pytest.mark.parametrize(("level", "maps"), [("memory", 4), ("cache", 2)])
def test_maps_of_the_read_rate_are_left_out_where_every_matrix_fits_a_cache(level, maps):
    made = [
        dataclasses.replace(c, axes={**c.axes, "level": level}) if "level" in c.axes and "role" not in c.axes else c
        for c in cells(EXPERIMENTS["mv_map"], machine=HOST)
    ]
    chart = draw("mv_map", HOST, made)["mv_map_ax_float32"]
    titles = [panel.title for panel in chart.panels]
    assert len(titles) == maps
    assert sum("% of the rate of reading" in title for title in titles) == maps - 2
    assert "cpu-simd over the fastest library" in titles
    assert any("no matrix comes from memory" in note for note in chart.notes) == (maps == 2)


class OnGpu(np.ndarray):
    """An array that says it lies on a GPU."""

    def get(self) -> np.ndarray:
        return np.asarray(self).copy()


@pytest.mark.parametrize("side", vectors.SIDES)
def test_copies_of_a_product_on_a_gpu_take_turns_and_the_last_result_is_proven(side, monkeypatch):
    made = []

    def empty(shape, dtype):
        made.append(np.empty(shape, dtype).view(OnGpu))
        return made[-1]

    monkeypatch.setattr(vector_task.device, "empty", empty)
    monkeypatch.setattr(vector_task.device, "cupy", lambda: types.SimpleNamespace(arange=np.arange))
    monkeypatch.setattr(vector_task, "MOST_COPIES", 3)
    monkeypatch.setattr(positional, "AT_ONCE", 100)
    problem = vectors.sided(90, 130, side, "float32")
    task = vector_task.product(problem=problem.to_json(), backend="cpu-numpy", seed=1, threads=1)
    assert task.facts()["copies"] == 3
    results = made[2::3]
    task.spoil()
    for done in range(1, 4):
        task.run()
        assert "cross" in task.verify()
        assert sum(not np.isnan(out).any() for out in results) == done
    task.spoil()
    with pytest.raises(VerificationError, match="NaN"):
        task.verify()


def halves_of(preset):
    return [case for case in EXPERIMENTS["mv_half"].cases(preset, GPU) if case.axes.get("role") is None]


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_half_a_product_is_set_against_the_whole_by_the_same_backend(preset):
    """Or the two differ by more than the triangle."""
    for case in halves_of(preset):
        whole, *halves = case.contenders
        bases = [c.arguments["parameters"].get("base") for c in halves if c.label.endswith("-triangle")]
        assert whole.arguments["backend"] in bases


def test_halves_of_matrices_that_memory_does_not_hold_are_declined():
    def declined(memory):
        cases = EXPERIMENTS["mv_half"].cases("full", dataclasses.replace(MACHINE, memory=memory))
        return {case.axes["size"] for case in cases if "reason" in case.contenders[0].arguments}

    assert declined(24 << 30) == {"syr, 16,384 x 16,384"}
    assert declined(256 << 30) == set()


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_no_contender_of_half_a_product_declines_by_its_sizes(preset):
    entries = {entry.name: entry.backend for entry in registry.discover()}
    for case in halves_of(preset):
        asked = [(c.arguments["backend"], Problem.from_json(c.arguments["problem"])) for c in case.contenders]
        of_gpu = [(name, problem) for name, problem in asked if name.startswith("gpu-") and name != "gpu-triangle"]
        declined = [name for name, problem in of_gpu if entries[name].refuses(problem)]
        is_ordinary = case.axes["semiring"] == "plus_times"
        assert declined in ([], [] if is_ordinary else ["gpu-cublas-triangle"])
