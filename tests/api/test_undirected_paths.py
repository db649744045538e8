"""Graphs whose edges go both ways, `directed=False`: the same paths as of directed ones, and what is not symmetric."""

import numpy as np
import pytest

from harness import SEMIRINGS, ProblemError
from harness.paths import closure, shortest_paths
from tests.api.test_paths import BACKEND, WAYS, assert_paths, by_scipy, random_weights

BY = {"plus": np.add, "min": np.minimum, "max": np.maximum, "land": np.multiply}


def symmetric_weights(n, seed, **how):
    weights = random_weights(n, seed, **how)
    return np.minimum(weights, weights.T)


@pytest.mark.parametrize("backend", [BACKEND, "auto", "cpu-simd"])
@pytest.mark.parametrize(("method", "block"), WAYS)
def test_distances_and_predecessors_are_those_of_both_directions(method, block, backend):
    how = {"method": method, "block": block, "backend": backend, "directed": False}
    for n in (0, 1, 2, 3, 17, 40, 61):
        weights = symmetric_weights(n, n, density=min(1, 3 / (n + 1)), high=4)
        expected = by_scipy(weights) if n else weights
        np.testing.assert_array_equal(shortest_paths(weights, **how), expected)
        distances, before = shortest_paths(weights, return_predecessors=True, **how)
        np.testing.assert_array_equal(distances, expected)
        assert_paths(weights, distances, before, np.inf)


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize(
    ("semiring", "dtype"),
    [
        ("max_min", "float32"),
        ("min_max", "int16"),
        ("min_plus", "uint8"),
        ("min_plus", "float16"),
        ("lor_land", "bool"),
    ],
)
def test_other_semirings_and_dtypes_are_those_of_directed_graphs(semiring, dtype, block):
    weights = symmetric_weights(150, 5, density=0.03, high=9).astype("float64")
    zero = SEMIRINGS[semiring].zero(np.dtype(dtype))
    with np.errstate(invalid="ignore"):
        weights = np.where(np.isinf(weights), zero, weights if dtype != "bool" else 1.0).astype(dtype)
    directed = closure(weights, semiring, block=block)
    np.testing.assert_array_equal(closure(weights, semiring, block=block, directed=False), directed)
    if dtype == "float16":  # whose predecessors no CPU keeps
        return
    best, before = closure(weights, semiring, block=block, directed=False, return_predecessors=True)
    np.testing.assert_array_equal(best, directed)
    assert_paths(weights, best, before, zero, BY[semiring.split("_")[1]])


def test_graphs_of_a_batch_are_undirected_each():
    weights = np.stack([symmetric_weights(20, seed) for seed in range(6)]).reshape(2, 3, 20, 20)
    np.testing.assert_array_equal(shortest_paths(weights, directed=False), shortest_paths(weights))


def test_an_edge_that_is_not_the_one_back_is_named():
    weights = symmetric_weights(600, 1)
    weights[5, 580] = 21.0
    back = weights[580, 5]
    with pytest.raises(ProblemError) as caught:
        shortest_paths(weights, directed=False)
    assert caught.value.what == "shortest_paths: the matrix is not symmetric, though directed=False"
    assert caught.value.got == f"{back} at [580, 5], 21.0 at [5, 580]"
    assert caught.value.fix.endswith("np.fmin(weights, weights.swapaxes(-1, -2))")
    with pytest.raises(ProblemError, match=r"1\.0 at \[1, 0, 2\], -inf at \[1, 2, 0\](.|\n)*np\.fmax"):
        closure(np.stack([np.eye(3), [[0, 0, 1.0], [0, 0, 0], [-np.inf, 0, 0]]]), "max_min", directed=False)


def test_of_two_edges_the_better_makes_a_graph_undirected(rng):
    weights = rng.random((30, 30))
    distances = shortest_paths(np.minimum(weights, weights.T), directed=False)
    np.testing.assert_allclose(distances, by_scipy(np.minimum(weights, weights.T)), rtol=1e-14)


def test_nan_and_negative_edges_of_undirected_graphs_are_told_of():
    weights = symmetric_weights(9, 2)
    weights[3, 4] = np.nan
    with pytest.raises(ProblemError, match=r"NaN at \[3, 4\]"):
        shortest_paths(weights, directed=False)
    weights[3, 4] = weights[4, 3] = -1.0  # there and back
    with pytest.raises(ProblemError, match=r"vertex \d lies on a negative cycle"):
        shortest_paths(weights, directed=False)
