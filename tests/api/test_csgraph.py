"""Graphs as SciPy has them: dense, masked and sparse, its distances and its predecessors."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csgraph, csr_array, csr_matrix

from harness import ProblemError
from harness.paths import from_csgraph, shortest_paths


def dense(rng):
    graph = np.where(rng.random((30, 30)) < 0.1, rng.integers(1, 9, (30, 30)), 0).astype(float)
    graph[1, 2], graph[3, 4], graph[5, 6] = np.nan, np.inf, -np.inf
    return graph


def masked(rng):
    graph = np.ma.masked_array(rng.integers(0, 9, (30, 30)).astype(float), rng.random((30, 30)) < 0.9)
    graph[0, 1] = 0.0
    return graph


def coordinates(rng):
    return coo_array((rng.integers(0, 9, 80).astype(float), rng.integers(0, 30, (2, 80))), shape=(30, 30))


def with_duplicates(rng):
    graph = csr_array((30, 30))
    indptr = np.r_[0, np.cumsum(rng.integers(0, 6, 30))]
    graph.indptr, graph.indices = indptr.astype(np.int32), rng.integers(0, 8, indptr[-1]).astype(np.int32)
    graph.data = rng.integers(0, 9, indptr[-1]).astype(float)
    return graph


GRAPHS = {
    "dense": dense,
    "integers": lambda rng: rng.integers(0, 2, (30, 30)) * rng.integers(0, 2, (30, 30)),
    "bools": lambda rng: rng.random((30, 30)) < 0.1,
    "masked": masked,
    "coo": coordinates,
    "csr": lambda rng: coordinates(rng).tocsr(),
    "matrix": lambda rng: csr_matrix(coordinates(rng)),
    "csc": lambda rng: csc_array(coordinates(rng)),
    "duplicates": with_duplicates,
}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("unweighted", [True, False])
@pytest.mark.parametrize("kind", GRAPHS)
def test_paths_are_scipys(kind, unweighted, directed, rng):
    graph = GRAPHS[kind](rng)
    expected = csgraph.shortest_path(graph, directed=directed, unweighted=unweighted, method="D")
    weights = from_csgraph(graph, directed=directed, unweighted=unweighted)
    distances, before = shortest_paths(weights, directed=directed, return_predecessors=True)
    np.testing.assert_array_equal(distances, expected)
    stored = csgraph.csgraph_from_dense(weights, np.inf)
    np.testing.assert_array_equal(csgraph.construct_dist_matrix(stored, before), expected)  # both ways are stored
    tree = csgraph.reconstruct_path(stored, before[0])
    assert (tree.toarray() != 0).sum() <= (before[0] != -9999).sum()


@pytest.mark.parametrize("graph", [np.zeros((2, 3)), np.zeros(3), csr_array((2, 3)), [["a"]]])
def test_what_is_no_graph_is_refused(graph):
    with pytest.raises(ProblemError, match="from_csgraph: the graph is no square matrix"):
        from_csgraph(graph)
