"""Rows of some sources, packed edges and graphs beyond the GPU's memory, by a GPU that the host plays."""

import numpy as np
import pytest

from harness import ProblemError
from harness.api.paths import large
from harness.paths import closure, paths, shortest_paths
from tests._support.graphs import assert_trees, closure_by_definition, random_graph
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = BY_THE_SHIM
KINDS = [("min_plus", "float32"), ("lor_land", "bool")]


@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_rows_of_few_sources_and_of_many(gpu, semiring, dtype, rng):
    weights = random_graph(rng, 40, semiring, dtype)
    expected = closure_by_definition(weights, semiring)
    for sources in ([], [3], [39, 0, 7], list(range(30))):
        best, before = closure(gpu.array(weights), semiring, sources=sources, return_predecessors=True)
        np.testing.assert_array_equal(best.get(), expected[sources])
        np.testing.assert_array_equal(closure(gpu.array(weights), semiring, sources=sources).get(), expected[sources])
        for row, tree, source in zip(best.get(), before.get(), sources, strict=True):
            assert_trees(weights, row[None], tree[None], semiring, [source])


def test_paths_are_walked_on_the_gpu(gpu):
    before = np.array([[-9999, 2, 0], [-9999, -9999, 1], [-9999, 2, -9999]], np.int32)
    assert paths(gpu.array(before), 0, [0, 1, 2]).get().tolist() == [[0, -9999, -9999], [0, 2, 1], [0, 2, -9999]]


def test_packed_edges(gpu, rng):
    edges = rng.random((37, 37)) < 0.05
    octets = np.packbits(edges, axis=-1, bitorder="little")
    expected = np.packbits(closure_by_definition(edges, "lor_land"), axis=-1, bitorder="little")
    np.testing.assert_array_equal(closure(gpu.array(octets), "lor_land", packed=True).get(), expected)


def cap_of(n, itemsize, pivots=64, rows=64):
    """Return a cap that a panel of so many pivots and three ranges of rows just fit."""
    return int(((pivots + 3 * rows) * n + rows * (pivots + rows)) * itemsize / 0.9) + 1


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("pivots", [64, 128])
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_a_graph_beyond_the_cap_passes_by_panels(gpu, semiring, dtype, pivots, rng):
    n, itemsize = 200, np.dtype(dtype).itemsize
    weights = random_graph(rng, n, semiring, dtype)
    before = weights.copy()
    cap = cap_of(n, itemsize, pivots)
    best = closure(weights, semiring, device=0, memory_cap=cap)
    assert isinstance(best, np.ndarray)
    np.testing.assert_array_equal(best, closure_by_definition(weights, semiring))
    np.testing.assert_array_equal(weights, before)
    of_kernels = 1 << 15  # shares of k of the smallest products; of a cap of some size a tenth is left to kernels
    assert 0.5 * cap < gpu.most_held <= cap + of_kernels * (dtype == "bool")
    assert gpu.held == 0
    undirected = random_graph(rng, n, semiring, dtype, undirected=True)
    best = closure(undirected, semiring, device=0, memory_cap=cap_of(n, itemsize, pivots), directed=False, sources=[5])
    np.testing.assert_array_equal(best, closure_by_definition(undirected, semiring)[[5]])


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_a_graph_on_several_gpus(gpu, semiring, dtype, count, rng):
    gpu.cuda.runtime.getDeviceCount = lambda: 3
    for n in (1, 64, 140, 330):
        weights = random_graph(rng, n, semiring, dtype)
        best = closure(weights, semiring, device=[2, 0, 1][:count])
        np.testing.assert_array_equal(best, closure_by_definition(weights, semiring))
    sources = closure(weights, semiring, device=(0, 2), sources=[5, 3], memory_cap=1 << 20)
    np.testing.assert_array_equal(sources, best[[5, 3]])
    assert gpu.held == 0


def test_a_graph_below_the_cap_is_closed_at_once(gpu, rng):
    weights = random_graph(rng, 60, "min_plus", "float32")
    for how in ({}, {"memory_cap": 1 << 20}):
        lengths, before = shortest_paths(weights, device=0, return_predecessors=True, **how)
        np.testing.assert_array_equal(lengths, closure_by_definition(weights, "min_plus"))
        assert_trees(weights, lengths, before, "min_plus")


@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_rows_of_a_graph_below_the_cap_come_and_go(gpu, monkeypatch, semiring, dtype, rng):
    n, itemsize = 200, np.dtype(dtype).itemsize
    monkeypatch.setattr(large, "_WHOLE_FROM", n)
    weights, cap = random_graph(rng, n, semiring, dtype), cap_of(n, itemsize, 256)
    for given in (weights, np.asfortranarray(weights), np.repeat(weights, 2, axis=1)[:, ::2]):
        best = closure(given, semiring, device=0, memory_cap=cap)
        np.testing.assert_array_equal(best, closure_by_definition(weights, semiring))
        assert best.flags.c_contiguous
    assert n * 256 * itemsize < gpu.most_held <= cap


@pytest.mark.parametrize("how", [{}, {"memory_cap": cap_of(200, 1)}, {"device": [0, 1]}])
def test_any_byte_of_a_bool_but_0_is_true(gpu, how, rng):
    gpu.cuda.runtime.getDeviceCount = lambda: 2
    edges = random_graph(rng, 200, "lor_land", "bool")
    octets = edges * rng.integers(1, 256, edges.shape).astype(np.uint8)
    best = closure(octets.view(bool), "lor_land", **({"device": 0} | how))
    np.testing.assert_array_equal(best.view(np.uint8), closure_by_definition(edges, "lor_land").view(np.uint8))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"device": 1}, "there is no such device"),
        ({"device": []}, "there is no such device"),
        ({"device": [0, 0]}, "there is no such device"),
        ({"device": [0, 2], "memory_cap": 1000}, r"2 GPUs do not hold the rows(.|\n)*memory_cap=\d+ or more"),
        ({"device": [0, 2], "return_predecessors": True}, "predecessors on several GPUs"),
        ({"device": 0, "memory_cap": 0}, "memory_cap is no number of bytes"),
        ({"memory_cap": 1 << 20}, "device and memory_cap are for a matrix on the host"),
        (
            {"device": 0, "memory_cap": 1000},
            r"does not hold a panel and three ranges of rows\n.*memory_cap=\d+ or more",
        ),
        ({"device": 0, "memory_cap": 200_000, "return_predecessors": True}, r"predecessors and more(.|\n)*memory_cap="),
    ],
)
def test_what_a_gpu_cannot_hold_is_refused_with_what_it_needs(gpu, how, message):
    gpu.cuda.runtime.getDeviceCount = lambda: 1 if how.get("device") == 1 else 3
    with pytest.raises(ProblemError, match=f"shortest_paths: .*{message}"):
        shortest_paths(np.ones((200, 200), np.float32), **how)
    with pytest.raises(ProblemError, match="for a matrix on the host"):
        shortest_paths(gpu.array(np.ones((4, 4), np.float32)), device=0)


def test_a_cycle_and_nan_beyond_the_cap_are_told_of(gpu):
    weights, cap = np.full((200, 200), np.inf, np.float32), cap_of(200, 4)
    weights[70, 150], weights[150, 70] = 1.0, -2.0
    with pytest.raises(ProblemError, match=r"vertex (70|150) lies on a negative cycle"):
        shortest_paths(weights, device=0, memory_cap=cap)
    weights[3, 4] = np.nan
    with pytest.raises(ProblemError, match=r"NaN at \[3, 4\]"):
        shortest_paths(weights, device=0, memory_cap=cap)
