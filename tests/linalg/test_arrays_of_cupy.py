"""The algorithms on arrays of CuPy: on the first GPU, and by a stand-in for CuPy that tells host arrays from others."""

import pickle
import sys

import numpy as np
import pytest

from harness import ProblemError, native_floats, registry
from harness.linalg import hessenberg, qr, refine, trsm
from harness.linalg.products import Products
from harness.linalg.reflectors import PANELS
from harness.linalg.tapes import Tape
from harness.linalg.triangles import INVERSES
from tests._support import fake_backends
from tests._support.factorizations import check_hessenberg, check_qr, of_condition, residual, wide


@pytest.fixture(params=["stand-in", pytest.param("CuPy", marks=pytest.mark.gpu)])
def cupy(request, monkeypatch):
    if request.param == "stand-in":
        return fake_backends.install(monkeypatch)
    module = pytest.importorskip("cupy", reason="CuPy is not installed")
    if registry.find("gpu-cublas").missing():
        pytest.skip("no CUDA device")
    return module


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "way", [{"method": "substitution"}, {}, *({"inverses": place, "block": 48} for place in INVERSES)], ids=str
)
def test_triangles(dtype, way, cupy, rng):
    for n in (1, 48, 100):
        a = (np.tril(rng.standard_normal((n, n))) / n**0.5 + 2 * np.eye(n)).astype(dtype)
        b = rng.standard_normal((2, n, 3)).astype(dtype)
        x = trsm(cupy.asarray(a), cupy.asarray(b), **way)
        assert isinstance(x, cupy.ndarray)
        assert x.dtype == dtype
        assert residual(a, x, b) < 4
        upper = trsm(cupy.asarray(a).T, cupy.asarray(b[0, :, 0]), lower=False, **way)
        assert residual(a.T, upper, b[0, :, 0]) < 4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("panel", PANELS)
def test_qr(panel, dtype, cupy, rng):
    for m, n in ((1, 1), (70, 50), (50, 70), (64, 64)):
        a = cupy.asarray(rng.standard_normal((m, n)).astype(dtype))
        factors = qr(a, block=24, panel=panel, timed=True)
        assert isinstance(factors.r, cupy.ndarray)
        check_qr(a, factors)
        b = rng.standard_normal((m, 2)).astype(dtype)
        there = wide(factors.apply_q_transposed(cupy.asarray(b)))[: min(m, n)]
        np.testing.assert_allclose(there, wide(factors.q()).T @ b, atol=1e-4 if dtype == "float32" else 1e-12)


def test_factors_that_have_been_used_can_be_pickled(cupy, rng):
    factors = qr(cupy.asarray(rng.standard_normal((30, 20))), block=7)
    q = factors.q()
    there = pickle.loads(pickle.dumps(factors)).q()
    assert isinstance(there, cupy.ndarray)
    assert np.array_equal(there.get(), q.get())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hessenberg(dtype, cupy, rng):
    for n in (1, 3, 70):
        a = cupy.asarray(rng.standard_normal((n, n)).astype(dtype))
        h, q, _ = hessenberg(a, block=16)
        assert isinstance(h, cupy.ndarray)
        check_hessenberg(a, h, q)


@pytest.mark.parametrize("factor_dtype", ["float32", "bfloat16", "float64"])
def test_refinement(factor_dtype, cupy, rng):
    a, b = of_condition(rng, 70, 5), rng.standard_normal((70, 2))
    x = refine(cupy.asarray(a), cupy.asarray(b), factor_dtype=factor_dtype, block=16).x
    assert isinstance(x, cupy.ndarray)
    np.testing.assert_allclose(wide(x), np.linalg.solve(a, b), atol=1e-12)


def test_arrays_on_the_host_and_on_a_gpu_do_not_mix(cupy):
    with pytest.raises(ProblemError, match=r"(?s)trsm: a lies on a GPU, b does not"):
        trsm(cupy.asarray(np.eye(3)), np.ones(3))


def test_no_product_leaves_the_gpu_and_updates_are_in_place(monkeypatch, rng):
    fake_backends.install(monkeypatch)
    (entry,) = registry.discover()
    n = 40
    qr(sys.modules["cupy"].asarray(rng.standard_normal((n, n))), block=10)
    updates = [problem for problem in entry.backend.computed if problem.accumulate]
    assert [(problem.m, problem.n, problem.k) for problem in updates] == [(40, 30, 10), (30, 20, 10), (20, 10, 10)]


def test_products_are_remembered_by_layout_across_calls(monkeypatch, rng):
    cupy = fake_backends.install(monkeypatch)
    (entry,) = registry.discover()
    a, b = (cupy.asarray(rng.standard_normal((40, 40)) + 40 * np.eye(40)) for _ in "ab")
    first = trsm(a, b, block=10)
    prepared, repeated = list(entry.backend.computed), list(entry.backend.repeated)
    assert len(prepared) + len(repeated) == 4 + 3  # blocks, and updates
    assert np.array_equal(trsm(a, b, block=10).get(), first.get())
    assert entry.backend.computed == prepared
    assert len(entry.backend.repeated) - len(repeated) == 4 + 3
    trsm(a, b[:, :39], block=10)
    assert len(entry.backend.computed) > len(prepared)


def well_conditioned(cupy, rng, *batch, n=200):
    """Return triangles with a strong diagonal, whose inverses are made by two doublings."""
    return cupy.asarray(np.tril(rng.standard_normal((*batch, n, n))) / n**0.5 + 2 * np.eye(n))


@pytest.mark.parametrize("way", [{}, {"method": "corrected", "block": 70}, {"inverses": "gemm", "block": 128}], ids=str)
def test_a_recorded_solve_is_right_for_other_arrays(way, cupy, rng):
    for batch in ((), (3,)):
        for lower in (True, False):
            for _ in range(3):
                a, b = well_conditioned(cupy, rng, *batch), rng.standard_normal((*batch, 200, 5))
                a = a if lower else a.swapaxes(-1, -2)
                assert residual(a, trsm(a, cupy.asarray(b), lower=lower, **way), b) < 4


def test_a_recorded_solve_prepares_nothing_and_looks_nothing_up(monkeypatch, rng):
    cupy = fake_backends.install(monkeypatch)
    (entry,) = registry.discover()
    a, b = well_conditioned(cupy, rng), cupy.asarray(rng.standard_normal((200, 5)))
    first = trsm(a, b, block=64)
    prepared, repeated = len(entry.backend.computed), len(entry.backend.repeated)
    monkeypatch.setattr(Products, "_compute", None)
    assert np.array_equal(trsm(a.copy(), b.copy(), block=64).get(), first.get())
    assert len(entry.backend.computed) == prepared
    assert len(entry.backend.repeated) == repeated + prepared + repeated


def test_a_batch_is_one_product(monkeypatch, rng):
    cupy = fake_backends.install(monkeypatch)
    (entry,) = registry.discover()
    trsm(well_conditioned(cupy, rng, 3), cupy.asarray(rng.standard_normal((3, 200, 5))), block=100)
    assert {problem.batch for problem in entry.backend.computed} == {(3,), (3, 2, 1)}


def test_arrays_that_begin_anywhere_are_not_recorded(monkeypatch, rng):
    cupy = fake_backends.install(monkeypatch)
    memory = cupy.empty(200 * 200 + 1, np.float64)
    a = memory[1 if memory.data.ptr % 16 == 0 else 0 :][: 200 * 200].reshape(200, 200)
    a[...] = well_conditioned(cupy, rng)
    assert a.data.ptr % 16
    b, computed, compute = rng.standard_normal((200, 5)), [], Products._compute
    assert residual(a, trsm(a, cupy.asarray(b)), b) < 4
    monkeypatch.setattr(Products, "_compute", lambda *x, **options: computed.append(compute(*x, **options)))
    assert residual(a, trsm(a, cupy.asarray(b)), b) < 4
    assert len(computed) == 1, "the only block, beside its inverse"


def test_native_products_are_not_those_that_were_recorded(monkeypatch, rng):
    cupy = fake_backends.install(monkeypatch)
    (entry,) = registry.discover()
    a, b = well_conditioned(cupy, rng), cupy.asarray(rng.standard_normal((200, 5)))
    trsm(a, b)
    before = len(entry.backend.computed)
    with native_floats():
        trsm(a, b)
    assert len(entry.backend.computed) > before


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, 1e-310])
def test_a_singular_triangle_is_refused_though_it_is_solved_meanwhile(bad, cupy, rng):
    a, b = well_conditioned(cupy, rng), cupy.asarray(rng.standard_normal((200, 5)))
    a[77, 77] = bad
    with np.errstate(all="raise"), pytest.raises(ProblemError, match=r"(?s)trsm: the triangle is singular.*row 77"):
        trsm(a, b)


@pytest.mark.parametrize("bug", ["none", "windows of a from its beginning", "x for its negated solution"])
def test_a_planted_bug_in_what_is_recorded_is_found(bug, monkeypatch, rng):
    cupy = fake_backends.install(monkeypatch)
    place = Tape._place

    def planted(self, address):
        number, byte = place(self, address)
        if bug.startswith("x"):
            number = {1: 2, 2: 1}.get(number, number)
        return number, 0 if bug.startswith("windows") and number == 0 else byte

    monkeypatch.setattr(Tape, "_place", planted)
    for _ in range(2):
        a, b = well_conditioned(cupy, rng), rng.standard_normal((200, 5))
        x = trsm(a, cupy.asarray(b), block=64)
    assert (residual(a, x, b) < 4) == (bug == "none")
