"""Graphs for experiments, and the task that computes paths in them."""

import numpy as np
import pytest

from experiments import shortest_paths as experiment
from experiments._parts import apsp_task, scipy_distances
from experiments._parts.apsp_task import PACKAGES, apsp, distances_by, floyd_warshall
from experiments._parts.graphs import LONGEST, REAL, graph, load, r_mat, uniform
from harness import ExperimentError, VerificationError, machine
from harness.errors import Declined
from harness.experiment import PRESETS


@pytest.mark.parametrize(("name", "vertices", "edges"), [("karate_club", 34, 78), ("les_miserables", 77, 254)])
def test_real_graphs_are_whole(name, vertices, edges):
    weights = load(name)
    assert weights.shape == (vertices, vertices)
    assert np.isfinite(weights).sum() == 2 * edges
    assert np.array_equal(weights, weights.T)
    assert np.isinf(weights.diagonal()).all()
    assert np.isfinite(floyd_warshall(weights)).all()  # connected


def test_an_unknown_graph_is_refused():
    with pytest.raises(ExperimentError, match="unknown graph"):
        load("petersen")


def test_r_mat_is_seeded_and_uneven():
    weights = r_mat(9, seed=5)
    assert np.array_equal(weights, r_mat(9, seed=5))
    assert not np.array_equal(weights, r_mat(9, seed=6))
    lengths = weights[np.isfinite(weights)]
    assert set(np.unique(lengths)) <= set(range(1, LONGEST + 1))
    assert np.isinf(weights.diagonal()).all()
    degrees = np.isfinite(weights).sum(axis=1)
    assert degrees.max() > 8 * np.median(degrees)  # an Erdős-Rényi graph of this density stays below 2


def test_r_mat_puts_edges_into_quarters_as_published():
    n = 1 << 10
    edges = np.isfinite(r_mat(10, edges_per_vertex=2))
    quarters = edges.reshape(2, n // 2, 2, n // 2).sum(axis=(1, 3)).ravel()
    shares = quarters / edges.sum()
    assert np.abs(shares - [0.57, 0.19, 0.19, 0.05]).max() < 0.06  # edges drawn twice count once, mostly in the first


def test_graph_by_name():
    assert np.array_equal(graph("r_mat", scale=4, seed=2), r_mat(4, seed=2))
    assert np.array_equal(graph("karate_club"), load("karate_club"))


@pytest.mark.parametrize("arguments", [{"name": "karate_club"}, {"name": "r_mat", "scale": 5}])
@pytest.mark.parametrize(
    "how",
    [
        {"method": "blocked", "backend": "cpu-numpy"},
        {"method": "squaring", "backend": "cpu-numpy"},
        {"method": "floyd_warshall"},
        {"method": "dijkstra"},
        {"method": "rustworkx"},
        {"method": "networkx"},
    ],
)
def test_every_method_is_proven_and_a_spoilt_result_is_not(arguments, how):
    if how["method"] in PACKAGES:
        pytest.importorskip(PACKAGES[how["method"]][0])
    task = apsp(graph=arguments, threads=1, **how)
    task.run()
    task.wait()
    assert "all" in task.verify()
    task.spoil()
    with pytest.raises(VerificationError):
        task.verify()
    facts = task.facts()
    n = len(graph(**arguments))
    assert facts["operations"] == 2 * n**3
    assert facts["bytes_moved"] == 16 * n**2


def test_uniform_graphs_have_as_many_edges_as_asked():
    weights = uniform(300, 20, seed=3)
    assert np.array_equal(weights, uniform(300, 20, seed=3))
    assert abs(np.isfinite(weights).sum() / 300 - 20) < 1
    assert np.isinf(weights.diagonal()).all()


@pytest.mark.parametrize("method", ["product", "blocked"])
def test_rows_of_products_and_of_large_distances_are_checked_by_loops(method, monkeypatch):
    monkeypatch.setattr(apsp_task, "WHOLE_UP_TO", 10)
    task = apsp(
        graph={"name": "uniform", "n": 64, "degree": 9}, method=method, backend="cpu-simd", dtype="float32", threads=1
    )
    task.run()
    assert "8 rows" in task.verify()
    task.result[63, 5] += 1
    with pytest.raises(VerificationError, match="element 63, 5 is wrong"):
        task.verify()
    task.spoil()
    with pytest.raises(VerificationError):
        task.verify()


def test_a_single_wrong_distance_is_found():
    task = apsp(graph={"name": "r_mat", "scale": 5}, method="blocked", backend="cpu-numpy", threads=1)
    task.run()
    task.result[3, 4] += 1
    with pytest.raises(VerificationError, match="from 3 to 4"):
        task.verify()


def test_fractions_may_differ_by_rounding_only():
    task = apsp(graph={"name": "les_miserables"}, method="blocked", backend="cpu-numpy", threads=1)
    task.run()
    task.result[3, 4] *= 1 + 1e-12
    with pytest.raises(VerificationError, match="from 3 to 4"):
        task.verify()


def test_the_oracle_without_scipy_agrees_with_scipy():
    weights = r_mat(5)
    assert np.array_equal(floyd_warshall(weights), distances_by("dijkstra", weights)())


def test_a_backend_that_cannot_is_declined():
    with pytest.raises(Declined) as raised:
        apsp(graph={"name": "karate_club"}, method="blocked", backend="cpu-scipy", threads=1)
    assert raised.value.status == "declined"


@pytest.mark.parametrize("preset", PRESETS)
def test_cases_of_the_experiment(preset):
    cases = experiment.cases(preset, machine.detect())
    assert len({case.key for case in cases}) == len(cases)
    for case in cases:
        if case.axes["family"] == "real":
            assert case.axes["graph"] in REAL
            assert case.axes["n"] == len(load(case.axes["graph"]))
        else:
            assert case.axes["n"] == len(graph(**case.arguments["graph"]))


def test_the_shipped_sums_are_those_that_scipy_finds():
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    shipped = scipy_distances.shipped()
    for parameters in ({"name": "karate_club"}, {"name": "les_miserables"}, {"name": "r_mat", "scale": 8, "seed": 1}):
        stored = csgraph.csgraph_from_dense(graph(**parameters), null_value=np.inf)
        found = scipy_distances.summary(csgraph.shortest_path(stored, method="FW"))
        assert found == pytest.approx(shipped[scipy_distances.name_of(parameters)], rel=1e-12)


def test_every_graph_of_the_experiment_has_its_sums_shipped():
    wanted = {
        scipy_distances.name_of(case.arguments["graph"])
        for preset in PRESETS
        for case in experiment.cases(preset, machine.detect())
        if case.axes["n"] <= apsp_task.WHOLE_UP_TO
    }
    assert wanted <= set(scipy_distances.shipped())


def test_distances_that_are_not_those_of_scipy_do_not_pass():
    distances = floyd_warshall(load("karate_club"))
    assert "scipy" in scipy_distances.agree(distances, {"name": "karate_club"}, 1e-9)
    distances[[0, 1]] = distances[[1, 0]]
    with pytest.raises(VerificationError, match="weighted_sum"):
        scipy_distances.agree(distances, {"name": "karate_club"}, 1e-9)
