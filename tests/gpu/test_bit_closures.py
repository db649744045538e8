"""Closures of bools as bits, executed on the CPU: whole calls, and programs between fences, against three loops."""

from types import SimpleNamespace

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._paths.bits import BitsProgram
from harness import SEMIRINGS, Problem
from harness.machine import detect
from harness.paths import closure
from harness.tuning.gpu import paths as tuning
from tests._support.bools import assert_bools, bools_of_any_byte, truth
from tests._support.graphs import closure_by_definition
from tests.gpu.host_kernels import BY_THE_SHIM, HostExecution, fenced
from tests.gpu.on_cpu import RUNGS, needs_nvrtc

pytestmark = BY_THE_SHIM
NAME = "gpu-tensor-core"
RUNG, BY = RUNGS[NAME], {"backend": NAME}


def one_path(rng, n, *, cuts):
    """Return a path through all vertices in any order, which takes all squares, cut into pieces."""
    order, edges = rng.permutation(n), np.zeros((n, n), bool)
    edges[order[:-1], order[1:]] = True
    edges[order[rng.integers(0, n, cuts)]] = False
    return edges


def packed(edges):
    return np.packbits(edges, axis=-1, bitorder="little")


def program(n, *, is_packed=False):
    problem = Problem(n, n, n, SEMIRINGS["lor_land"], np.dtype(bool))
    return BitsProgram(problem, lambda product: RUNG.plan(product, detect()), is_packed=is_packed)


def by_program(edges, *, is_packed):
    """Close a graph by a program whose buffers lie between fences; octets have bits after the last vertex."""
    n, made = len(edges), program(len(edges), is_packed=is_packed)
    given = packed(np.pad(edges, ((0, 0), (0, -n % 8)), constant_values=True)) if is_packed else edges
    of_edges = fenced(given.size, given.dtype, at_end=True)
    of_edges[...] = given.reshape(-1)
    best = fenced(given.size // made.itemsize, np.dtype(f"u{made.itemsize}"), at_end=True)
    HostExecution(made.program, SimpleNamespace(buffers={"edges": of_edges, "best": best, "out": best})).run()
    return best.view(given.dtype).reshape(given.shape)


def assert_closed(patch, n, *, panel):
    """Check graphs of n vertices by panels of so many pivots."""
    patch.setattr(tuning, "BITS_PANELS", {0: panel})
    rng = np.random.default_rng(n)
    for edges in (one_path(rng, n, cuts=0), rng.random((n, n)) < 1.2 / n):
        expected = closure_by_definition(edges, "lor_land")
        assert_bools(by_program(edges, is_packed=False), expected)
        np.testing.assert_array_equal(by_program(edges, is_packed=True), packed(expected))


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(("n", "panel"), [(290, 1024), (1, 1024), (2, 1024), (33, 1024), (1024, 1024), (1100, 2048)])
def test_graphs_of_a_panel(monkeypatch, n, panel):
    assert_closed(monkeypatch, n, panel=panel)


@pytest.mark.parametrize("n", [1030, pytest.param(2048, marks=pytest.mark.deep)])
def test_graphs_of_several_panels(monkeypatch, n):
    assert_closed(monkeypatch, n, panel=1024)


def test_whole_calls(gpu, rng):
    n, spaced = 140, np.zeros((3, 140, 280), bool)
    graphs = np.stack([one_path(rng, n, cuts=2), bools_of_any_byte(rng, (n, n), 1.2 / n), np.zeros((n, n), bool)])
    expected = np.stack([closure_by_definition(truth(x), "lor_land") for x in graphs])
    gpu.launches.clear()
    given = gpu.array(graphs)
    assert_bools(closure(given, "lor_land", **BY).get(), expected)
    np.testing.assert_array_equal(given.get().view(np.uint8), graphs.view(np.uint8))
    assert {"turn", "put_one"} <= {function for function, _ in gpu.launches}
    spaced[..., ::2] = truth(graphs)
    for edges in (gpu.array(spaced)[..., ::2], gpu.array(truth(graphs).swapaxes(-1, -2).copy()).swapaxes(-1, -2)):
        assert_bools(closure(edges, "lor_land", **BY).get(), expected)
    octets = gpu.array(packed(truth(graphs)))
    np.testing.assert_array_equal(closure(octets, "lor_land", packed=True, **BY).get(), packed(expected))
    np.testing.assert_array_equal(octets.get(), packed(truth(graphs)))
    assert_bools(closure(given[0], "lor_land", sources=[*range(100)]).get(), expected[0, :100])
    both = graphs[1] | graphs[1].T
    undirected = closure(gpu.array(both), "lor_land", directed=False).get()
    assert_bools(undirected, closure_by_definition(truth(both), "lor_land"))


def test_bits_of_whole_stages_are_closed_where_they_are_written(gpu, rng):
    edges = one_path(rng, 1024, cuts=1)
    octets = gpu.array(packed(edges))
    gpu.launches.clear()
    best = closure(octets, "lor_land", packed=True)
    np.testing.assert_array_equal(best.get(), packed(closure_by_definition(edges, "lor_land")))
    assert "give_octets" not in {function for function, _ in gpu.launches}


def test_a_panel_is_squared_as_often_as_the_longest_path_asks():
    for n, squares in ((1, 0), (2, 0), (3, 1), (4, 2), (1000, 10), (1024, 10), (1025, 10), (1026, 11)):
        kernels = program(n).program.kernels()
        assert [x.function for x in kernels].count("gemm") == squares, n


@pytest.mark.no_cover
@needs_nvrtc
def test_kernels_compile_and_do_not_spill():
    kernels = {x for is_packed in (False, True) for x in program(3000, is_packed=is_packed).program.kernels()}
    assert {x.stem for x in kernels} == {"close_bits", "pack_bits", "tensor_core_bits"}
    for kernel in kernels:
        taken = resources(compile_kernel(kernel.stem, kernel.defines, "sm_90" + kernel.suffix))[kernel.function]
        assert taken.spill_bytes == 0, kernel.function


@pytest.mark.gpu
@pytest.mark.parametrize("n", [140, 1024, 2500, 9001, 17000])
def test_one_path_on_a_gpu(n, rng):
    """Of one panel and of several: who comes later on the path is reached, and all if it is closed to a circle."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    order = rng.permutation(n)
    place = cupy.empty(n, np.int32)
    place[cupy.asarray(order)] = cupy.arange(n, dtype=np.int32)
    edges, expected = cupy.zeros((n, n), bool), place[None, :] >= place[:, None]
    edges[cupy.asarray(order[:-1]), cupy.asarray(order[1:])] = True

    def octets(bools):
        whole = cupy.zeros((n, -(-n // 8) * 8), bool)
        whole[:, :n] = bools
        return cupy.packbits(whole.reshape(-1), bitorder="little").reshape(n, -1)

    for _ in range(2):
        assert bool((closure(edges, "lor_land") == expected).all())
        assert bool((closure(octets(edges), "lor_land", packed=True) == octets(expected)).all())
        edges[int(order[-1]), int(order[0])] = expected[...] = True
