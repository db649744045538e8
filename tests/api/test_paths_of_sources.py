"""The rows of some sources, walks of many pairs at once, and reachability in bits."""

import numpy as np
import pytest
from scipy.sparse import csgraph

from harness import ProblemError
from harness.api import gemm as gemm_module
from harness.api.paths import rows
from harness.machine import detect
from harness.paths import closure, path, paths, shortest_paths
from tests._support.graphs import assert_trees, closure_by_definition, random_graph
from tests.api.test_paths import random_weights


@pytest.fixture
def products(monkeypatch):
    """The sizes of all products that rows of sources take."""
    made, gemm = [], gemm_module.gemm
    monkeypatch.setattr(rows.gemm, "gemm", lambda a, b, c, **how: made.append(a.shape) or gemm(a, b, c, **how))
    return made


@pytest.mark.deep(but=5)
@pytest.mark.parametrize("count", [0, 1, 2, 7, 60])
@pytest.mark.parametrize(("semiring", "dtype"), [("min_plus", "float64"), ("max_min", "float32"), ("lor_land", "bool")])
def test_rows_of_sources_are_those_of_all(semiring, dtype, count, rng):
    for n in (1, 5, 61, 97):
        weights = random_graph(rng, n, semiring, dtype)
        sources = rng.integers(0, n, count)
        expected = closure_by_definition(weights, semiring)[sources]
        np.testing.assert_array_equal(closure(weights, semiring, sources=sources.tolist()), expected)
        best, before = closure(weights, semiring, sources=sources, return_predecessors=True)
        np.testing.assert_array_equal(best, expected)
        assert_trees_of(weights, best, before, semiring, sources)


def assert_trees_of(weights, best, before, semiring, sources):
    """Check whole trees: what is before a vertex of a row has its own value in that row."""
    for row, tree, source in zip(best, before, sources, strict=True):
        assert_trees(weights, row[None], tree[None], semiring, [source])


def test_few_sources_take_products_of_their_rows_and_many_the_whole(products):
    weights = random_weights(200, 1)
    shortest_paths(weights, sources=[3, 199, 3])
    assert set(products) == {(3, 200)}
    assert len(products) < 12
    products.clear()
    shortest_paths(weights, sources=range(150))
    assert products == []


def test_a_long_path_falls_back_to_the_whole(products):
    n = 120
    weights = np.full((n, n), np.inf)
    weights[np.arange(n - 1), np.arange(1, n)] = 1.0
    np.testing.assert_array_equal(shortest_paths(weights, sources=[0, 5]), shortest_paths(weights)[[0, 5]])
    assert len(products) == n // 4
    np.testing.assert_array_equal(shortest_paths(weights, sources=[110]), shortest_paths(weights)[[110]])


@pytest.mark.parametrize("n", [12, 40])
def test_a_negative_cycle_counts_where_a_source_reaches_it(n):
    weights = np.full((n, n), np.inf)
    weights[0, 1] = weights[4, 5] = 1.0
    weights[5, 6], weights[6, 5] = 1.0, -2.0
    for sources in ([0], [1, 0], list(range(4)) + list(range(7, n))):
        distances = shortest_paths(weights, sources=sources)
        assert (distances[sources.index(0)][:2] == [0.0, 1.0]).all()
    for sources in ([4], [0, 6], list(range(n))):
        with pytest.raises(ProblemError, match=r"shortest_paths: vertex [56] lies on a negative cycle"):
            shortest_paths(weights, sources=sources)


def test_sources_of_undirected_graphs_of_batches_and_by_squaring(rng):
    weights = np.stack([random_graph(rng, 50, "min_plus", "float64", undirected=True) for _ in range(4)])
    expected = np.stack([closure_by_definition(x, "min_plus")[[7, 0]] for x in weights]).reshape(2, 2, 2, 50)
    batch = weights.reshape(2, 2, 50, 50)
    for how in ({}, {"directed": False}, {"method": "squaring"}):
        np.testing.assert_array_equal(shortest_paths(batch, sources=[7, 0], **how), expected)
    best, before = shortest_paths(batch, sources=[7, 0], return_predecessors=True)
    np.testing.assert_array_equal(best, expected)
    for one, row, tree in zip(weights, best.reshape(4, 2, 50), before.reshape(4, 2, 50), strict=True):
        assert_trees_of(one, row, tree, "min_plus", [7, 0])


@pytest.mark.parametrize("sources", [[-1], [9], [0.5], 3, [[1]], ["a"], [True]])
def test_sources_are_vertices(sources):
    with pytest.raises(ProblemError, match="shortest_paths: sources are no vertices"):
        shortest_paths(np.ones((9, 9)), sources=sources)


def test_nan_is_told_of_before_rows_are_computed():
    weights = random_weights(40, 1)
    weights[30, 31] = np.nan
    with pytest.raises(ProblemError, match=r"NaN at \[30, 31\]"):
        shortest_paths(weights, sources=[2])


# ------------------------------------------------------------------------------------------------------------- paths


def test_many_paths_are_walked_as_one_is(rng):
    weights = np.where(rng.random((40, 40)) < 0.05, rng.random((40, 40)), np.inf)
    _, before = csgraph.shortest_path(csgraph.csgraph_from_dense(weights, np.inf), return_predecessors=True)
    all_paths = paths(before, np.arange(40)[:, None], np.arange(40))
    assert all_paths.shape[:2] == (40, 40)
    for i, j in np.ndindex(40, 40):
        assert [x for x in all_paths[i, j].tolist() if x != -9999] == path(before, i, j)
    assert paths(before, [], []).shape[0] == 0
    assert paths(before, 3, 3).tolist() == [3]


@pytest.mark.parametrize(
    ("before", "i", "j", "message"),
    [
        (np.zeros((2, 3), int), 0, 1, "predecessors is no matrix"),
        ([[0, 1], [1, 0]], 0, [0, 1], "from 1 the predecessors do not lead to 0"),
        (np.zeros((2, 2), int), [2], 1, "sources are no vertices"),
        (np.zeros((2, 2), int), 0, -1, "targets are no vertices"),
        (np.array([[-9999, 2, 1]] * 3), 0, [0, 1], "from 1 the predecessors do not lead to 0"),
        (np.array([[-9999, 7, 1]] * 3), 0, 1, "do not lead to 0"),
        (np.array([[-9999, -9999, 1]] * 3), 0, 2, "do not lead to 0"),
    ],
)
def test_paths_of_what_are_no_predecessors_are_refused(before, i, j, message):
    with pytest.raises(ProblemError, match=f"^paths: .*{message}"):
        paths(before, i, j)


# -------------------------------------------------------------------------------------------------------------- bits


def octets(edges):
    return np.packbits(edges, axis=-1, bitorder="little")


@pytest.mark.parametrize("backend", ["cpu-simd", "cpu-naive"])
def test_packed_edges_give_packed_reachability(rng, backend):
    for n in (0, 1, 2, 7, 8, 9, 63, 64, 65, 131):
        edges = rng.random((n, n)) < 1.5 / max(n, 1)
        expected = closure_by_definition(edges, "lor_land")
        given = octets(edges)
        if n % 8:
            given[:, -1] |= np.uint8(0x80)  # after the last vertex
        before = given.copy()
        np.testing.assert_array_equal(closure(given, "lor_land", packed=True, backend=backend), octets(expected))
        np.testing.assert_array_equal(given, before)
        for threads in range(1, min(detect().cores, 2) + 1):
            np.testing.assert_array_equal(closure(edges, "lor_land", backend=backend, threads=threads), expected)


def test_packed_edges_with_sources_predecessors_and_batches(rng):
    edges = rng.random((3, 70, 70)) < 0.03
    expected = np.stack([closure_by_definition(x, "lor_land") for x in edges])
    np.testing.assert_array_equal(closure(octets(edges), "lor_land", packed=True), octets(expected))
    np.testing.assert_array_equal(
        closure(octets(edges), "lor_land", packed=True, sources=[5, 1]), octets(expected[:, [5, 1]])
    )
    best, before = closure(octets(edges[0]), "lor_land", packed=True, return_predecessors=True)
    np.testing.assert_array_equal(best, octets(expected[0]))
    assert_trees(edges[0], expected[0], before, "lor_land")


@pytest.mark.parametrize(
    ("matrix", "semiring", "message"),
    [
        (np.zeros((9, 1), np.uint8), "lor_land", "not packed"),
        (np.zeros((9, 9), bool), "lor_land", "not packed"),
        (np.zeros(3, np.uint8), "lor_land", "not packed"),
        (np.zeros((9, 2), np.uint8), "max_min", "packed edges have no values"),
    ],
)
def test_what_is_not_packed_is_refused(matrix, semiring, message):
    with pytest.raises(ProblemError, match=f"closure: .*{message}"):
        closure(matrix, semiring, packed=True)


@pytest.mark.parametrize("shape", ((0, 0), (3, 1, 2, 0, 0), (0, 3, 1)))
def test_graphs_without_vertices_and_batches_without_graphs_are_bits_too(shape):
    best, before = closure(np.zeros(shape, np.uint8), "lor_land", packed=True, return_predecessors=True)
    assert (best.shape, before.shape) == (shape, (*shape[:-1], shape[-2]))
