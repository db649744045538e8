"""QR: the factors, all sizes around panels, all kinds of panels, and that the work outside panels is products."""

import copy
import pickle

import array_api_strict
import numba
import numpy as np
import pytest

from harness.linalg import QR, qr
from harness.linalg import reflectors as parts
from harness.linalg.products import Products
from tests._support.factorizations import check_qr, largest, of_condition, residual

BLOCK = 12  # more than the columns that a recursive panel reflects one by one
SIZES = [0, 1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 37]


@pytest.mark.parametrize("panel", parts.PANELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_of_all_shapes(dtype, panel, rng):
    for m in SIZES:
        for n in SIZES:
            a = rng.standard_normal((m, n)).astype(dtype)
            before = a.copy()
            check_qr(a, qr(a, block=BLOCK, panel=panel))
            assert np.array_equal(a, before)


@pytest.mark.parametrize("panel", ["library", "recursive"])
@pytest.mark.parametrize(
    "kind", ["zeros", "identity", "equal columns", "tiny", "huge", "a column of zeros", "ill-conditioned", "triangle"]
)
def test_factors_of_special_matrices(kind, panel, rng):
    m, n = 50, 40
    a = {
        "zeros": np.zeros((m, n)),
        "identity": np.eye(m, n),
        "equal columns": np.ones((m, n)),
        "tiny": rng.standard_normal((m, n)) * 1e-200,
        "huge": rng.standard_normal((m, n)) * 1e200,
        "a column of zeros": rng.standard_normal((m, n)) * (np.arange(n) != 7),
        "ill-conditioned": of_condition(rng, m, 1e14)[:, :n],
        "triangle": np.triu(rng.standard_normal((m, n))),
    }[kind]
    check_qr(a, qr(a, block=BLOCK, panel=panel))


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (25, 25)])
def test_q_is_applied_without_being_formed(shape, rng):
    a = rng.standard_normal(shape)
    factors = qr(a, block=7)
    b = rng.standard_normal((shape[0], 3))
    there = factors.apply_q_transposed(b)
    np.testing.assert_allclose(there[: min(shape)], factors.q().T @ b, atol=1e-13)
    np.testing.assert_allclose(factors.apply_q(there), b, atol=1e-13)
    np.testing.assert_allclose(factors.apply_q_transposed(b[:, 0]), there[:, 0], atol=1e-13)
    np.testing.assert_allclose(factors.apply_q_transposed(a)[: min(shape)], factors.r, atol=1e-13)


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("array", [np.asarray, array_api_strict.asarray])
def test_factors_that_have_been_used_can_be_sent_elsewhere(array, copied, rng):
    a, b = array(rng.standard_normal((30, 20))), array(rng.standard_normal((30, 2)))
    factors = qr(a, block=7, backend="cpu-simd", threads=1)
    used = factors.q(), factors.apply_q(b)
    there = copied(factors)
    for got, expected in zip((there.q(), there.apply_q(b), there.r), (*used, factors.r), strict=True):
        assert type(got) is type(a)
        assert np.array_equal(np.from_dlpack(got), np.from_dlpack(expected))
    assert there._products.chosen() == ("float64", "cpu-simd", 1)


def test_reflectors_and_taus_are_those_of_q(rng):
    a = rng.standard_normal((20, 15))
    for panel in ("library", "recursive"):
        factors = qr(a, block=4, panel=panel)
        q = np.eye(20)
        for v, tau in zip(factors.reflectors.T, factors.taus, strict=True):
            q -= tau * np.outer(q @ v, v)
        np.testing.assert_allclose(q[:, :15], factors.q(), atol=1e-13)


def test_least_squares_agree_with_numpy(rng):
    a, b = rng.standard_normal((60, 20)), rng.standard_normal((60, 2))
    factors = qr(a)
    x = np.linalg.solve(factors.r, factors.apply_q_transposed(b)[:20])
    np.testing.assert_allclose(x, np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-12)
    assert residual(factors.r, x, factors.apply_q_transposed(b)[:20]) < 10


def test_views_of_a_larger_matrix(rng):
    big = rng.standard_normal((80, 90))
    for a in (big[1:61, 3:50], big.T[5:50:2], np.asfortranarray(big)[::-1, 7:40]):
        check_qr(a, qr(a, block=9))


def test_nearly_all_operations_are_products(rng):
    """With panels by products too even those of panels are, but for eight columns at a time."""
    n, block = 256, 32
    a = rng.standard_normal((n, n)).astype("float32")
    all_operations = 4 / 3 * n**3
    outside = qr(a, block=block).operations
    assert all_operations < outside < 1.5 * all_operations
    panels = qr(a, block=block, panel="recursive").operations - outside
    assert panels > 0.05 * all_operations


def test_time_by_stages_is_recorded_when_asked_for(rng):
    a = rng.standard_normal((64, 64))
    assert qr(a).seconds == {}
    factors = qr(a, timed=True, backend="cpu-naive")
    assert isinstance(factors, QR)
    assert set(factors.seconds) == {"panel", "products", "rest"}
    assert all(seconds > 0 for seconds in factors.seconds.values())
    before = dict(factors.seconds)
    factors.q()
    assert factors.seconds == before


@pytest.mark.parametrize("backend", ["cpu-naive", "cpu-packed", "cpu-numpy"])
def test_backends_agree(backend, rng):
    a = rng.standard_normal((50, 50))
    factors = qr(a, backend=backend, threads=1, panel="recursive", block=20)
    check_qr(a, factors)
    assert largest(factors.r - qr(a, backend="cpu-simd").r) < 1e-12


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="generated code has no Python form")
def test_products_of_any_window_take_the_shortcut(rng, monkeypatch):
    """None is planned or prepared but for its kind."""
    planned = []
    plan = Products._plan
    monkeypatch.setattr(Products, "_plan", lambda self, *sizes: planned.append(sizes) or plan(self, *sizes))
    monkeypatch.setattr(Products, "_run", None)
    a = rng.standard_normal((70, 60))
    check_qr(a, qr(a, backend="cpu-simd", block=BLOCK))
    assert len(planned) == 4  # sums or not: of the factorisation, and of forming Q


def test_planted_bugs_are_seen(rng, monkeypatch):
    a = rng.standard_normal((40, 40))
    true_triangle, true_reflector = parts.triangle, parts.reflector

    def with_a_wrong_sign(module, x):
        v, tau, beta = true_reflector(module, x)
        return v, tau, -beta

    def with_a_wrong_tau(module, x):
        v, tau, beta = true_reflector(module, x)
        return v, tau * 1.001, beta

    def transposed(*x):
        return true_triangle(*x).T

    for name, wrong in [("triangle", transposed), ("reflector", with_a_wrong_sign), ("reflector", with_a_wrong_tau)]:
        with monkeypatch.context() as patch:
            patch.setattr(parts, name, wrong)
            factors = qr(a, block=16, panel="recursive")
            with pytest.raises(AssertionError):
                check_qr(a, factors)


@pytest.mark.parametrize("panel", parts.PANELS)
def test_columns_whose_squares_overflow_raise_nothing(panel):
    with np.errstate(all="raise"):
        assert not np.isfinite(qr(np.full((4, 4), 1e308), panel=panel).r[0, 1:]).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("panel", ["library", "recursive"])
def test_complex_matrices(dtype, panel):
    rng, eps = np.random.default_rng(4), np.finfo(dtype).eps
    for m, n in ((1, 1), (9, 4), (70, 50), (20, 45)):
        a = (rng.standard_normal((m, n)) + 1j * rng.standard_normal((m, n))).astype(dtype)
        a[:, n // 2] = 0
        a[0, n // 2] = 1j  # nothing below to reflect, and no real number
        factors = qr(a, block=16, panel=panel)
        q = factors.q()
        assert q.dtype == factors.r.dtype == dtype
        assert np.abs(q.conj().T @ q - np.eye(min(m, n))).max() < 50 * eps
        assert np.abs(q @ factors.r - a).max() < 50 * m * eps
        assert np.abs(np.tril(factors.r, -1)).max() == 0
        b = a[:, 0].copy()
        assert np.allclose(factors.apply_q_transposed(b)[: min(m, n)], q.conj().T @ b, atol=100 * m * eps)
        assert np.allclose(factors.apply_q(factors.apply_q_transposed(b)), b, atol=100 * m * eps)
