"""All pairs of best paths: against SciPy's graph routines and against the definition, and every way to ask wrongly."""

import numpy as np
import pytest
from scipy.sparse import csgraph, csr_array

from harness import BackendUnavailable, ProblemError
from harness.api.paths import compute, predecessors
from harness.paths import CLOSED, METHODS, closure, path, shortest_paths
from tests._support.bools import assert_bools, bools_of_any_byte, truth

BACKEND = "cpu-numpy"
WAYS = [("blocked", 1), ("blocked", 3), ("blocked", 8), ("blocked", 1000), ("blocked", None), ("squaring", None)]


def random_weights(n, seed, *, density=0.4, low=0, high=20, dtype=np.float64):
    """Return integer-valued weights, so that every sum is exact."""
    rng = np.random.default_rng(seed)
    absent = np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    weights = rng.integers(low, high, (n, n), endpoint=True).astype(dtype)
    weights[rng.random((n, n)) >= density] = absent
    return weights


def by_scipy(weights, method="FW"):
    """Return SciPy's distances; a zero is an edge, which SciPy knows only in a sparse graph."""
    return csgraph.shortest_path(csgraph.csgraph_from_dense(weights, null_value=np.inf), method=method)


def by_relaxation(weights, worse, better, one):
    """Return the closure by relaxing until nothing changes: no matrix product, no elimination."""
    best = weights.copy()
    np.fill_diagonal(best, better(best.diagonal(), one))
    while True:
        through = better.reduce(worse(best[:, :, None], best[None, :, :]), axis=1)
        relaxed = better(best, through)
        if np.array_equal(relaxed, best):
            return best
        best = relaxed


@pytest.mark.parametrize(("method", "block"), WAYS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 17, 40])
def test_distances_are_scipys(n, method, block):
    weights = random_weights(n, n)
    assert np.array_equal(shortest_paths(weights, method=method, block=block, backend=BACKEND), by_scipy(weights))


@pytest.mark.parametrize("backend", ["auto", "cpu-naive", "cpu-packed"])
@pytest.mark.parametrize("method", METHODS)
def test_every_backend_and_thread_count_gives_the_same(backend, method):
    weights = random_weights(50, 7, density=0.1)
    distances = shortest_paths(weights, method=method, block=16, backend=backend, threads=1)
    assert np.array_equal(distances, by_scipy(weights, "D"))


@pytest.mark.parametrize("method", METHODS)
def test_no_vertices_and_one_vertex(method):
    assert shortest_paths(np.empty((0, 0)), method=method, backend=BACKEND).shape == (0, 0)
    assert shortest_paths(np.array([[5.0]]), method=method, backend=BACKEND) == [[0.0]]
    assert shortest_paths([[np.inf]], method=method, backend=BACKEND) == [[0.0]]


@pytest.mark.parametrize(("method", "block"), WAYS)
def test_negative_edges_without_a_negative_cycle(method, block):
    rng = np.random.default_rng(3)
    potential = rng.integers(-50, 50, 30)
    weights = random_weights(30, 4, density=0.3) + potential[:, None] - potential[None, :]
    assert weights.min() < 0
    distances = shortest_paths(weights, method=method, block=block, backend=BACKEND)
    assert np.array_equal(distances, by_scipy(weights, "BF"))


@pytest.mark.parametrize(("method", "block"), WAYS)
def test_disconnected_parts_stay_at_infinity(method, block):
    weights = np.full((12, 12), np.inf)
    weights[:5, :5], weights[5:, 5:] = random_weights(5, 1), random_weights(7, 2)
    distances = shortest_paths(weights, method=method, block=block, backend=BACKEND)
    assert np.array_equal(distances, by_scipy(weights))
    assert np.isinf(distances[:5, 5:]).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_zero_is_an_edge(method):
    weights = np.full((3, 3), np.inf)
    weights[0, 1], weights[1, 2] = 0.0, 2.0
    stored = csr_array(([0.0, 2.0], ([0, 1], [1, 2])), shape=(3, 3))
    distances = shortest_paths(weights, method=method, backend=BACKEND)
    assert distances[0].tolist() == [0, 0, 2]
    assert np.array_equal(distances, csgraph.dijkstra(stored))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint8", "uint16"])
def test_integers_hold_the_maximum_for_no_path(dtype, method):
    weights = random_weights(25, 11, density=0.08, high=5, dtype=dtype)
    absent = np.iinfo(dtype).max
    distances = shortest_paths(weights, method=method, block=8, backend=BACKEND)
    expected = by_scipy(np.where(weights == absent, np.inf, weights.astype(float)))
    assert distances.dtype == np.dtype(dtype)
    assert np.isinf(expected).any()
    assert np.array_equal(distances, np.where(np.isinf(expected), absent, expected))


@pytest.mark.parametrize("method", METHODS)
def test_integer_sums_saturate_and_never_wrap(method):
    weights = np.full((4, 4), 127, np.int8)
    weights[0, 1] = weights[1, 2] = weights[2, 3] = 60
    distances = shortest_paths(weights, method=method, block=2, backend=BACKEND)
    assert distances[0].tolist() == [0, 60, 120, 127]


def test_float32_stays_float32_and_the_input_unchanged():
    weights = random_weights(9, 1, dtype=np.float32).T
    before = weights.copy()
    distances = shortest_paths(weights, backend=BACKEND)
    assert distances.dtype == np.float32
    assert distances.flags.c_contiguous
    assert np.array_equal(weights, before)


@pytest.mark.parametrize(("method", "block"), WAYS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 16, 17])
def test_a_negative_cycle_through_all_vertices_is_found(n, method, block):
    weights = np.full((n, n), np.inf)
    weights[np.arange(n), np.roll(np.arange(n), -1)] = 1.0
    weights[n - 1, 0] = -float(n)
    with pytest.raises(ProblemError, match="negative cycle"):
        shortest_paths(weights, method=method, block=block, backend=BACKEND)
    weights[n - 1, 0] = 1.0 - n
    assert (shortest_paths(weights, method=method, block=block, backend=BACKEND).diagonal() == 0).all()


@pytest.mark.parametrize(("method", "block"), WAYS)
def test_the_vertex_named_lies_on_a_negative_cycle(method, block):
    weights = np.full((20, 20), np.inf)
    weights[np.arange(19), np.arange(1, 20)] = 1.0
    weights[13, 11] = -3.0
    with pytest.raises(ProblemError, match=r"vertex 1[123] lies on a negative cycle"):
        shortest_paths(weights, method=method, block=block, backend=BACKEND)


def test_an_integer_cycle_that_is_negative_is_found():
    weights = np.array([[100, -7], [6, 100]], np.int16)
    with pytest.raises(ProblemError, match="negative cycle"):
        shortest_paths(weights, backend=BACKEND)


@pytest.mark.parametrize(("method", "block"), WAYS)
@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "min_max"])
def test_other_semirings_agree_with_relaxation(name, method, block):
    worse, better = {"plus": np.add, "min": np.minimum, "max": np.maximum}, {"min": np.minimum, "max": np.maximum}
    add, multiply = name.split("_")
    one = {"plus": 0.0, "min": np.inf, "max": -np.inf}[multiply]
    weights = random_weights(14, 5, density=0.3)
    if name == "max_plus":
        weights = -weights
    elif add == "max":
        weights[np.isinf(weights)] = -np.inf
    expected = by_relaxation(weights, worse[multiply], better[add], one)
    assert np.array_equal(closure(weights, name, method=method, block=block, backend=BACKEND), expected)


@pytest.mark.parametrize(("method", "block"), WAYS)
def test_reachability_is_scipys(method, block):
    edges = np.random.default_rng(2).random((30, 30)) < 0.04
    reached = closure(edges, "lor_land", method=method, block=block, backend=BACKEND)
    assert reached.dtype == bool
    expected = np.isfinite(csgraph.shortest_path(csr_array(edges), unweighted=True))
    assert np.array_equal(reached, expected)


def test_a_positive_cycle_has_no_longest_path():
    with pytest.raises(ProblemError, match="positive cycle"):
        closure(np.array([[-np.inf, 1.0], [1.0, -np.inf]]), "max_plus", backend=BACKEND)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((2, 3)), "not square"),
        ([[1, 2], [3]], "the matrix is no array"),
        (np.zeros(4), "not square"),
        (np.zeros((2, 2, 3)), "not square"),
        (3.0, "not square"),
        (np.array([[0.0, np.nan], [1.0, 0.0]]), "an edge is NaN"),
        (np.zeros((2, 2), complex), "does not take complex128"),
        (np.array([["a", "b"], ["c", "d"]]), "dtype"),
        (np.zeros((2, 2), bool), "does not take bool"),
        (csr_array(np.eye(3)), "plain array"),
        (np.ma.masked_array(np.eye(2), np.eye(2)), "plain array"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights, message):
    with pytest.raises(ProblemError, match=message):
        shortest_paths(weights, backend=BACKEND)


def test_nan_is_named_by_its_place():
    weights = np.zeros((4, 4))
    weights[2, 3] = np.nan
    with pytest.raises(ProblemError, match=r"\[2, 3\]"):
        shortest_paths(weights)


@pytest.mark.parametrize("block", [0, -1, 1.5, "8", True])
def test_a_block_is_a_positive_number(block):
    with pytest.raises(ProblemError, match="block"):
        shortest_paths(np.zeros((2, 2)), block=block)


def test_unknown_names_are_refused():
    with pytest.raises(ProblemError, match="unknown method"):
        shortest_paths(np.zeros((2, 2)), method="magic")
    with pytest.raises(ProblemError, match="no closure"):
        closure(np.zeros((2, 2)), "plus_times")
    with pytest.raises(BackendUnavailable, match="unknown backend"):
        shortest_paths(np.zeros((3, 3)), backend="cpu-nothing")
    with pytest.raises(BackendUnavailable, match="unknown backend"):
        shortest_paths(np.zeros((1, 1)), backend="cpu-nothing")
    with pytest.raises(ProblemError, match="threads"):
        shortest_paths(np.zeros((1, 1)), threads=-5)


def test_every_semiring_with_a_closure_starts_from_its_one():
    for name in CLOSED:
        matrix = np.zeros((1, 1), bool) if name == "lor_land" else np.array([[-np.inf if "max_" in name else np.inf]])
        one = {"plus": 0.0, "min": np.inf, "max": -np.inf, "land": True}[name.split("_")[1]]
        assert closure(matrix, name, backend=BACKEND) == one


# ------------------------------------------------------------------------------------------------------ predecessors


def walk_back(before, i, j):
    """Return the vertices from i to j as the predecessors have them; fails if they run in a circle."""
    path = [j]
    while path[-1] != i:
        path.append(int(before[i, path[-1]]))
        assert 0 <= path[-1] < before.shape[0]
        assert len(path) <= before.shape[0], "a circle"
    return path[::-1]


def assert_paths(weights, best, before, absent, multiply=np.add, tolerance=0.0):
    """Every path that is claimed exists, ends, and has the value that is claimed; where none is claimed none is."""
    n = weights.shape[0]
    assert before.dtype == np.int32
    has_path = (best != absent) & ~np.eye(n, dtype=bool)
    assert np.array_equal(before != -9999, has_path)
    for i, j in np.argwhere(has_path):
        path = walk_back(before, i, j)
        edges = weights[path[:-1], path[1:]]
        assert (edges != absent).all()
        assert abs(multiply.reduce(edges.astype(float)) - float(best[i, j])) <= tolerance


# Dtypes below are those of test_argk.py where the semiring is one of its: another one's kernels take 10 s to compile.
PREDECESSOR_WAYS = [("blocked", 1), ("blocked", 4), ("blocked", None), ("squaring", None)]


@pytest.mark.parametrize(("method", "block"), PREDECESSOR_WAYS)
@pytest.mark.parametrize("density", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("high", [0, 1, 20])
def test_walking_the_predecessors_gives_the_distance(high, density, method, block):
    weights = random_weights(37, 5, density=density, high=high)  # high = 0: every edge and every cycle has length zero
    how = {"method": method, "block": block, "backend": BACKEND}
    distances, before = shortest_paths(weights, return_predecessors=True, **how)
    assert np.array_equal(distances, shortest_paths(weights, **how))
    assert np.array_equal(distances, by_scipy(weights))
    assert_paths(weights, distances, before, np.inf)


@pytest.mark.parametrize(("method", "block"), PREDECESSOR_WAYS)
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_predecessors_with_negative_edges_and_cycles_of_length_zero(dtype, method, block):
    rng = np.random.default_rng(3)
    potential = rng.integers(-50, 50, 30)
    absent = np.inf if dtype is np.float64 else np.iinfo(dtype).max
    weights = random_weights(30, 4, density=0.3, high=1, dtype=dtype)
    is_edge = weights != absent
    weights[is_edge] += (potential[:, None] - potential[None, :]).astype(dtype)[is_edge]
    assert weights.min() < 0
    distances, before = shortest_paths(weights, method=method, block=block, backend=BACKEND, return_predecessors=True)
    assert_paths(weights, distances, before, absent)


@pytest.mark.parametrize(("method", "block"), PREDECESSOR_WAYS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predecessors_end_where_rounding_makes_zero_cycles_look_negative(dtype, method, block):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        weights = np.full((7, 7), np.inf, dtype)
        for a, b in ((1, 2), (3, 4), (5, 6)):  # to b and back costs nothing, but may seem to gain by rounding
            weights[a - 1, a], weights[a, b] = rng.random(2)
            weights[b, a] = -weights[a, b]
        distances, before = shortest_paths(
            weights, method=method, block=block, backend=BACKEND, return_predecessors=True
        )
        assert_paths(weights, distances, before, np.inf, tolerance=7 * 7 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("method", "block"), PREDECESSOR_WAYS)
@pytest.mark.parametrize(
    ("name", "dtype", "multiply"), [("max_min", "float32", np.minimum), ("min_max", "float64", np.maximum)]
)
def test_predecessors_of_widest_paths_where_ties_are_everywhere(name, dtype, multiply, method, block):
    absent = -np.inf if name == "max_min" else np.inf
    for high in (0, 2, 9):
        weights = random_weights(33, 6, density=0.15, high=high, dtype=dtype)
        weights[np.isinf(weights)] = absent
        best, before = closure(weights, name, method=method, block=block, backend=BACKEND, return_predecessors=True)
        assert_paths(weights, best, before, absent, multiply)


@pytest.mark.parametrize(("method", "block"), PREDECESSOR_WAYS)
def test_predecessors_of_reachability_and_longest_paths(method, block):
    how = {"method": method, "block": block, "backend": BACKEND, "return_predecessors": True}
    edges = np.random.default_rng(2).random((30, 30)) < 0.06
    reached, before = closure(edges, "lor_land", **how)
    assert_paths(edges, reached, before, False, np.multiply)
    absent = np.iinfo(np.int16).min
    weights = random_weights(20, 8, density=0.3, dtype=np.int16)
    weights[(weights == np.iinfo(np.int16).max) | ~np.triu(np.ones((20, 20), bool), 1)] = absent
    best, before = closure(weights, "max_plus", **how)
    assert_paths(weights, best, before, absent)


def test_predecessors_of_reachability_where_true_is_any_byte_but_0(rng):
    for n in (2, 30, 140):
        edges = bools_of_any_byte(rng, (n, n), share=2 / n)
        reached, before = closure(edges, "lor_land", return_predecessors=True)
        assert_paths(truth(edges), reached, before, False, np.multiply)
        assert_bools(reached, by_relaxation(truth(edges), np.logical_and, np.logical_or, True))


def test_random_floats_walk_to_their_distance_but_for_rounding(rng):
    weights = np.where(rng.random((50, 50)) < 0.2, rng.random((50, 50)), np.inf)
    distances, before = shortest_paths(weights, block=16, return_predecessors=True)
    assert_paths(weights, distances, before, np.inf, tolerance=50 * np.finfo(float).eps * 50)


def test_a_path_is_scipys_and_its_edges_sum_to_the_distance(rng):
    weights = np.where(rng.random((40, 40)) < 0.05, rng.random((40, 40)), np.inf)
    distances, before = csgraph.shortest_path(csgraph.csgraph_from_dense(weights, np.inf), return_predecessors=True)
    for i, j in np.ndindex(40, 40):
        vertices = path(before, i, j)
        if i == j or np.isinf(distances[i, j]):
            assert vertices == ([i] if i == j else [])
        else:
            assert (vertices[0], vertices[-1]) == (i, j)
            assert np.isclose(weights[vertices[:-1], vertices[1:]].sum(), distances[i, j])


@pytest.mark.parametrize(
    ("before", "i", "j", "message"),
    [
        (np.zeros((2, 3), int), 0, 1, "predecessors is no matrix"),
        (np.zeros((2, 2)), 0, 1, "predecessors is no matrix"),
        ([[0, 1], [1, 0]], 0, 1, "from 1 the predecessors do not lead to 0"),
        (np.zeros((2, 2), int), 2, 1, "i is no vertex"),
        (np.zeros((2, 2), int), 0, -1, "j is no vertex"),
        (np.array([[-9999, 2, 1]] * 3), 0, 1, "from 1 the predecessors do not lead to 0"),
        (np.array([[-9999, 7, 1]] * 3), 0, 1, "do not lead to 0"),
        (np.array([[-9999, -9999, 1]] * 3), 0, 2, "do not lead to 0"),
    ],
)
def test_a_path_of_what_are_no_predecessors_is_refused(before, i, j, message):
    with pytest.raises(ProblemError, match=f"^path: .*{message}"):
        path(before, i, j)


def test_predecessors_of_no_vertices_and_of_one():
    assert shortest_paths(np.empty((0, 0)), return_predecessors=True, backend=BACKEND)[1].shape == (0, 0)
    assert shortest_paths([[5.0]], return_predecessors=True, backend=BACKEND)[1].tolist() == [[-9999]]


def test_predecessors_of_float16_are_refused_before_any_work():
    with pytest.raises(ProblemError, match=r"shortest_paths: predecessors of float16(.|\n)*weights\.astype"):
        shortest_paths(np.ones((3, 3), "float16"), return_predecessors=True)


@pytest.mark.parametrize("keeps", [True, False])
def test_too_little_memory_is_told_of_with_how_much_is_needed(keeps, monkeypatch):
    def full(*rest, **options):
        raise MemoryError

    monkeypatch.setattr(compute, "_closer", full)
    needed = 3.0 if keeps else 2.0
    large = np.broadcast_to(np.float64(1), (16384, 16384))
    monkeypatch.setattr(compute, "check_matrix", lambda arrays, matrix, *rest, **how: np.ones((2, 2)))
    with pytest.raises(ProblemError, match=f"shortest_paths: there is not enough memory\n(.|\n)*{needed:g} GiB and"):
        shortest_paths(large, return_predecessors=keeps)


def test_what_hangs_on_a_circle_is_hung_on_the_tree_again():
    weights = np.full((4, 4), np.inf)
    weights[0, 1], weights[1, 2], weights[2, 1], weights[2, 3] = 1.0, 2.0, -2.0, 1.0
    best = np.array([[0.0, 1.0, 3.0, 4.0]] + [[np.inf] * 4] * 3)
    found = np.full((4, 4), -9999, np.int32)
    found[0] = [-9999, 2, 1, 2]
    predecessors.untangle(found, best, weights)
    assert found[0].tolist() == [-9999, 0, 1, 2]


@pytest.mark.parametrize(
    ("weights", "what", "fix"),
    [
        (np.ones((2, 3)), "shortest_paths: the matrix is not square", ""),
        (-np.ones((2, 2)), "shortest_paths: vertex 0 lies on a negative cycle", ""),
        (np.full((2, 2), np.nan), "shortest_paths: an edge is NaN", "weights[np.isnan(weights)] = inf"),
    ],
)
def test_shortest_paths_are_refused_in_their_own_words(weights, what, fix):
    with pytest.raises(ProblemError) as caught:
        shortest_paths(weights)
    assert caught.value.what.startswith(what)
    assert caught.value.fix.startswith(fix)


def test_tensors_of_shortest_paths_are_named_as_the_caller_names_them():
    torch = pytest.importorskip("torch")
    with pytest.raises(ProblemError, match=r"shortest_paths: weights requires gradients(.|\n)*weights\.detach"):
        shortest_paths(torch.ones(2, 2, requires_grad=True))
