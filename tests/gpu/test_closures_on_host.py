"""Closures by a GPU that the host plays: every launch of small ones, against Floyd and Warshall's three loops."""

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._paths import program as paths_program
from experiments._parts.apsp_task import apsp
from harness import SEMIRINGS, Problem, ProblemError, VerificationError
from harness.machine import detect
from harness.paths import closure, shortest_paths
from tests._support.graphs import closure_by_definition as floyd_warshall
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.on_cpu import RUNGS

pytestmark = BY_THE_SHIM
NONE = -9999
KINDS = [
    ("min_plus", "float32"),
    ("min_plus", "float64"),
    ("min_plus", "float16"),
    ("min_plus", "int16"),
    ("min_plus", "int32"),
    ("max_plus", "int64"),
    ("max_min", "float32"),
    ("min_max", "uint8"),
    ("lor_land", "bool"),
]


def edges(n, semiring, dtype, seed, *, density=0.3, high=6):
    """Return a graph whose best paths are exact in any dtype; edges of length zero make ties and cycles."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    zero = SEMIRINGS[semiring].zero(kind)
    weights = rng.integers(0, high, (n, n)).astype(kind)
    if semiring == "max_plus":
        weights = -weights
    if kind.kind == "b":
        weights = np.ones((n, n), bool)
    weights[rng.random((n, n)) >= density] = zero
    return weights


def assert_paths(weights, best, before, semiring):
    """Walk every path back, and check that its edges exist and have its value."""
    n, kind = len(weights), SEMIRINGS[semiring]
    zero = kind.zero(weights.dtype)
    multiply = {"plus": np.add, "min": np.minimum, "max": np.maximum, "land": np.logical_and}[semiring[4:]]
    for i, j in np.ndindex(n, n):
        if i == j or best[i, j] == zero:
            assert before[i, j] == NONE
            continue
        path = [j]
        while path[-1] != i:
            path.append(int(before[i, path[-1]]))
            assert 0 <= path[-1] < n
            assert len(path) <= n, "a circle"
        values = weights[path[:0:-1], path[-2::-1]]
        assert (values != zero).all()
        assert multiply.reduce(values) == best[i, j]


def close(gpu, weights, semiring, *, keeps, block=None, name="gpu-tuned", symmetric=False):
    n, count = weights.shape[-1], weights.size // weights.shape[-1] ** 2
    problem = Problem(n, n, n, SEMIRINGS[semiring], weights.dtype)
    closure = RUNGS[name].prepare_closure(problem, count, block, detect(), keeps=keeps, symmetric=symmetric)
    best, before = gpu.array(weights), gpu.array(np.full(weights.shape, 7, np.int32)) if keeps else None
    findings = closure(best, before)
    return best.get(), before.get() if keeps else None, findings


@pytest.mark.deep(but=6)
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_every_step_of_small_matrices(gpu, monkeypatch, semiring, dtype, keeps):
    monkeypatch.setattr(paths_program, "panel_of", lambda n, keeps: 32)
    for n, block in ((1, None), (2, None), (3, None), (33, None), (37, 8), (64, 16), (67, 32)):
        weights = edges(n, semiring, dtype, n, density=min(1, 3 / n + 0.05))
        best, before, findings = close(gpu, weights, semiring, keeps=keeps, block=block)
        expected = floyd_warshall(weights, semiring)
        np.testing.assert_array_equal(best, expected)
        assert (findings.nan, findings.cycle) == (-1, -1)
        if keeps:
            assert_paths(weights, best, before, semiring)


def assert_closed(gpu, weights, semiring):
    """Check whole calls, with predecessors and without."""
    best, before = closure(gpu.array(weights), semiring, return_predecessors=True)
    n = weights.shape[-1]
    np.testing.assert_array_equal(best.get(), closure(gpu.array(weights), semiring).get())
    for each in zip(*(x.reshape(-1, n, n) for x in (weights, best.get(), before.get())), strict=True):
        np.testing.assert_array_equal(each[1], floyd_warshall(each[0], semiring))
        assert_paths(*each, semiring)


@pytest.mark.parametrize(
    ("semiring", "dtype"),
    [
        ("min_plus", "float32"),
        pytest.param("lor_land", "bool", marks=pytest.mark.deep),
        pytest.param("min_plus", "int32", marks=pytest.mark.deep),
        pytest.param("min_plus", "float16", marks=pytest.mark.deep),
    ],
)
def test_whole_calls_with_ties_and_cycles_of_length_zero(gpu, semiring, dtype):
    for n in (1, 20, 40, 140):
        weights = edges(n, semiring, dtype, 3, density=0.1, high=2)
        assert_closed(gpu, weights, semiring)
        assert_closed(gpu, weights, semiring)  # remembered
    batch = np.stack([edges(140, semiring, dtype, seed, density=0.03, high=2) for seed in range(6)])
    assert_closed(gpu, batch.reshape(2, 3, 140, 140), semiring)


@pytest.mark.parametrize(("semiring", "dtype"), [("min_plus", "float32"), ("lor_land", "bool")])
def test_undirected_graphs(gpu, semiring, dtype):
    for n in (1, 40, 140):
        weights = edges(n, semiring, dtype, 3, density=0.1)
        weights = SEMIRINGS[semiring].add.ufunc(weights, weights.T)
        best, before = closure(gpu.array(weights), semiring, directed=False, return_predecessors=True)
        np.testing.assert_array_equal(closure(gpu.array(weights), semiring, directed=False).get(), best.get())
        batch = gpu.array(np.stack([weights, weights[::-1, ::-1]]))
        np.testing.assert_array_equal(closure(batch, semiring, directed=False).get()[1, ::-1, ::-1], best.get())
        np.testing.assert_array_equal(best.get(), floyd_warshall(weights, semiring))
        assert_paths(weights, best.get(), before.get(), semiring)
    assert closure(gpu.array(np.zeros((0, 0), np.uint8)), "max_min", directed=False).shape == (0, 0)
    weights = np.random.default_rng(1).random((140, 140), np.float32)
    best = shortest_paths(gpu.array(np.minimum(weights, weights.T)), directed=False).get()
    np.testing.assert_array_equal(best, best.T)  # sums that round otherwise too
    weights = edges(140, "min_plus", "float32", 3, density=0.1)
    weights = np.minimum(weights, weights.T)
    weights[130, 2] = 9.0
    with pytest.raises(ProblemError, match=r"not symmetric(.|\n)*at \[130, 2\]"):
        shortest_paths(gpu.array(weights), directed=False)


@pytest.mark.deep(but=3)
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_half_of_an_undirected_graph_is_computed(gpu, monkeypatch, semiring, dtype):
    monkeypatch.setattr(gpu_backend, "HALVES_FROM", 0)
    monkeypatch.setattr(paths_program, "panel_of", lambda n, keeps: 64)
    for n, block in ((67, 32), (140, None), (161, 16)):
        weights = edges(n, semiring, dtype, n, density=0.05)
        weights = SEMIRINGS[semiring].add.ufunc(weights, weights.T)
        batch = np.stack([weights, weights[::-1, ::-1]])
        best, _, _ = close(gpu, batch, semiring, keeps=False, block=block, symmetric=True)
        for each, found in zip(batch, best, strict=True):
            np.testing.assert_array_equal(found, floyd_warshall(each, semiring))
        auto = closure(gpu.array(batch), semiring, directed=False, block=block)  # also of who takes no such triangle
        np.testing.assert_array_equal(auto.get(), best)
    assert {"mirror", "take_rows"} <= {function for function, _ in gpu.launches}


def test_a_batch_of_small_graphs_is_closed_by_one_launch(gpu):
    assert_closed(gpu, np.stack([edges(30, "min_plus", "float32", seed) for seed in range(7)]), "min_plus")
    assert [function for function, _ in gpu.launches].count("close_block") == 2


@pytest.mark.parametrize("name", ["gpu-naive", "gpu-bits", "gpu-paired"])
def test_products_are_those_of_the_rung(gpu, monkeypatch, name):
    monkeypatch.setattr(paths_program, "panel_of", lambda n, keeps: 32)
    semiring, dtype = {"gpu-bits": ("lor_land", "bool"), "gpu-paired": ("min_plus", "int16")}.get(name, KINDS[0])
    for n in (64, 67):
        weights = edges(n, semiring, dtype, n, density=0.1)
        best, _, _ = close(gpu, weights, semiring, keeps=False, block=16, name=name)
        np.testing.assert_array_equal(best, floyd_warshall(weights, semiring))


def test_negative_edges_without_a_negative_cycle(gpu):
    potential = np.random.default_rng(1).integers(-9, 9, 140)
    for dtype in ("float32", "int32"):
        weights = edges(140, "min_plus", dtype, 2, density=0.05, high=1)
        is_edge = weights != SEMIRINGS["min_plus"].zero(weights.dtype)
        weights[is_edge] += (potential[:, None] - potential[None, :])[is_edge].astype(dtype)
        assert_closed(gpu, weights, "min_plus")


def test_what_is_wrong_with_a_graph_is_found_at_the_end(gpu):
    with pytest.raises(ProblemError, match="vertex 0 lies on a negative cycle"):
        shortest_paths(gpu.array(-np.ones((140, 140), np.float32)))
    cyclic, unknown = np.full((3, 40, 40), -np.inf), np.ones((2, 140, 140), np.float32)
    cyclic[1, 2, 3] = cyclic[1, 3, 2] = 1.0
    unknown[1, 3, 4] = np.nan
    with pytest.raises(ProblemError, match="vertex 2 of graph 1 lies on a positive cycle"):
        closure(gpu.array(cyclic), "max_plus")
    with pytest.raises(ProblemError, match=r"NaN at \[1, 3, 4\]"):
        shortest_paths(gpu.array(unknown))


@pytest.mark.parametrize("method", ["blocked", "product"])
def test_the_experiment_has_everything_on_the_gpu(gpu, method):
    graph = {"name": "uniform", "n": 64, "degree": 32}
    task = apsp(graph=graph, method=method, backend="gpu-tuned", where="gpu", dtype="float32", threads=1)
    gpu.launches.clear()
    task.run()
    task.wait()
    assert gpu.launches
    assert ("all 4096 distances" if method == "blocked" else "8 rows") in task.verify()
    task.spoil()
    with pytest.raises(VerificationError):
        task.verify()
