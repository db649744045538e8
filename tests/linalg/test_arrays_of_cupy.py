"""The algorithms on arrays of CuPy: on the first GPU, and by a stand-in for CuPy that tells host arrays from others."""

import sys

import numpy as np
import pytest

from harness import ProblemError, registry
from harness.linalg import hessenberg, qr, refine, trsm
from harness.linalg.reflectors import PANELS
from harness.linalg.triangles import INVERSES
from tests._support import numpy_on_device
from tests._support.factorizations import check_hessenberg, check_qr, of_condition, residual, wide


@pytest.fixture(params=["stand-in", pytest.param("CuPy", marks=pytest.mark.gpu)])
def cupy(request, monkeypatch):
    if request.param == "stand-in":
        return numpy_on_device.install(monkeypatch)
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
    numpy_on_device.install(monkeypatch)
    (entry,) = registry.discover()
    n = 40
    qr(sys.modules["cupy"].asarray(rng.standard_normal((n, n))), block=10)
    updates = [problem for problem in entry.backend.computed if problem.accumulate]
    assert [(problem.m, problem.n, problem.k) for problem in updates] == [(40, 30, 10), (30, 20, 10), (20, 10, 10)]


def test_products_are_remembered_by_layout_across_calls(monkeypatch, rng):
    cupy = numpy_on_device.install(monkeypatch)
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
