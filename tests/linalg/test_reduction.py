"""Hessenberg reduction: zeros, A = Q H Q^T, eigenvalues, sizes around panels, and the products with a vector."""

import numpy as np
import pytest

from harness import BackendUnavailable
from harness.linalg import hessenberg
from harness.linalg import reduction as parts
from harness.linalg.products import Products
from tests._support.factorizations import check_hessenberg

BLOCK = 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, BLOCK, BLOCK + 1, BLOCK + 2, BLOCK + 3, 2 * BLOCK + 2, 37, 83])
def test_factors_of_all_sizes(n, dtype, rng):
    a = rng.standard_normal((n, n)).astype(dtype)
    before = a.copy()
    h, q, seconds = hessenberg(a, block=BLOCK)
    check_hessenberg(a, h, q)
    assert np.array_equal(a, before)
    assert seconds == {}


@pytest.mark.parametrize("kind", ["zeros", "identity", "symmetric", "reduced", "huge", "ones"])
def test_special_matrices(kind, rng):
    n = 40
    a = rng.standard_normal((n, n))
    a = {
        "zeros": 0 * a,
        "identity": np.eye(n),
        "symmetric": a + a.T,
        "reduced": np.triu(a, -1),
        "huge": 1e150 * a,
        "ones": np.ones((n, n)),
    }[kind]
    h, q, _ = hessenberg(a, block=BLOCK)
    check_hessenberg(a, h, q)
    if kind == "symmetric":
        np.testing.assert_allclose(np.triu(h, 2), 0, atol=1e-12)  # tridiagonal


def test_eigenvalues_stay(rng):
    a = rng.standard_normal((60, 60))
    h = hessenberg(a).h
    there = np.linalg.eigvals(h)
    for value in np.linalg.eigvals(a):
        assert np.abs(there - value).min() < 1e-10


def test_a_view_of_a_larger_matrix(rng):
    a = np.asfortranarray(rng.standard_normal((90, 80)))[1:71:1, 3:73]
    h, q, _ = hessenberg(a)
    check_hessenberg(a, h, q)


def test_one_window_a_column_is_multiplied_with_a_vector(rng, monkeypatch):
    shapes = []
    repeated = Products.repeated

    def noted(self, a, b, out):
        assert a.base is not None  # a window, not a copy
        run = repeated(self, a, b, out)
        return lambda: (shapes.append(a.shape), run())

    monkeypatch.setattr(Products, "repeated", noted)
    n = 14
    hessenberg(rng.standard_normal((n, n)), block=BLOCK, vector_backend="cpu-naive", backend="cpu-numpy")
    rows = [n - 1 - column // BLOCK * BLOCK for column in range(n - 2)]
    assert shapes == [(row, row) for row in rows]


def test_time_by_stages_is_recorded_when_asked_for(rng):
    seconds = hessenberg(rng.standard_normal((50, 50)), timed=True).seconds
    assert set(seconds) == {"vector products", "products", "panel", "rest"}
    with pytest.raises(BackendUnavailable):
        hessenberg(rng.standard_normal((9, 9)), vector_backend="cpu-nothing")


def test_planted_bugs_are_seen(rng, monkeypatch):
    a = rng.standard_normal((30, 30))
    update, reduce_panel, true_reflector = parts._update, parts._reduce_panel, parts.reflector

    def with_a_wrong_update(products, h, columns, reflectors, y):
        update(products, h, columns, reflectors, y * 1.0001)

    def with_t_transposed(vectors, h, columns):
        reflectors, y = reduce_panel(vectors, h, columns)
        return reflectors._replace(t=reflectors.t.T), y

    def with_a_wrong_beta(module, x):
        v, tau, beta = true_reflector(module, x)
        return v, tau, beta * 1.0001

    wrong = {"_update": with_a_wrong_update, "_reduce_panel": with_t_transposed, "reflector": with_a_wrong_beta}
    for name, planted in wrong.items():
        with monkeypatch.context() as patch:
            patch.setattr(parts, name, planted)
            h, q, _ = hessenberg(a, block=BLOCK)
        with pytest.raises(AssertionError):
            check_hessenberg(a, h, q)
