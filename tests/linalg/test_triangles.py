"""trsm: residuals and errors for all triangles, sizes around the blocks, batches, growing conditions, and bad input."""

from types import SimpleNamespace

import numpy as np
import pytest

from harness import ProblemError
from harness.linalg import trsm
from harness.linalg.inverses import inverted
from harness.linalg.products import Products
from harness.linalg.triangles import INVERSES
from harness.linalg.triangular_systems import BLOCK as BLOCK_ON_HOST
from harness.linalg.triangular_systems import default_block
from tests._support.factorizations import of_condition, residual

BLOCK = 8
SIZES = [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 13, 2 * BLOCK, 31, 67]
WAYS = [{"method": "substitution"}, {"method": "corrected"}, *({"inverses": place} for place in INVERSES)]


def triangle(rng, n, *, lower, unit_diagonal=False, dtype="float64", batch=()):
    """Return a well-conditioned triangle, NaN wherever it must not be read."""
    full = rng.standard_normal((*batch, n, n)) / max(n, 1) ** 0.5 + 2 * np.eye(n)
    a = np.tril(full) if lower else np.triu(full)
    poison = np.triu(np.full((n, n), np.nan), 1)
    a = a + (poison if lower else poison.T)
    if unit_diagonal:
        a[..., np.arange(n), np.arange(n)] = np.nan
    return a.astype(dtype)


def op(a, *, lower, transposed, unit_diagonal):
    """Return the matrix that the triangle stands for."""
    clean = np.where(np.tril(np.ones(a.shape[-2:], bool)) if lower else np.triu(np.ones(a.shape[-2:], bool)), a, 0)
    if unit_diagonal:
        clean[..., np.arange(a.shape[-1]), np.arange(a.shape[-1])] = 1
    return clean.swapaxes(-1, -2) if transposed else clean


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_all_triangles_are_solved_and_nothing_else_is_read(lower, transposed, unit_diagonal, dtype, way, rng):
    kind = {"lower": lower, "transposed": transposed, "unit_diagonal": unit_diagonal}
    for n in SIZES:
        a = triangle(rng, n, lower=lower, unit_diagonal=unit_diagonal, dtype=dtype)
        b = rng.standard_normal((n, 3)).astype(dtype)
        before = a.copy(), b.copy()
        x = trsm(a, b, **kind, **way, block=BLOCK)
        assert x.dtype == dtype
        assert x.shape == b.shape
        assert residual(op(a, **kind), x, b) <= 4, n
        assert np.array_equal(before[0], a, equal_nan=True)
        assert np.array_equal(before[1], b)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_batches_broadcast(way, rng):
    for batch, batch_b in [((3,), (3,)), ((), (2, 3)), ((2, 1), (3,)), ((0,), (0,))]:
        a, b = triangle(rng, 19, lower=True, batch=batch), rng.standard_normal((*batch_b, 19, 2))
        x = trsm(a, b, block=BLOCK, **way)
        assert x.shape == (*np.broadcast_shapes(batch, batch_b), 19, 2)
        full = np.broadcast_to(b, x.shape)
        clean = op(a, lower=True, transposed=False, unit_diagonal=False)
        np.testing.assert_allclose(clean @ x, full, rtol=1e-12, atol=1e-12)


def test_a_vector_gives_a_vector_and_dtypes_are_promoted(rng):
    a, b = triangle(rng, 20, lower=False, dtype="float32"), rng.standard_normal(20)
    x = trsm(a, b, lower=False, block=BLOCK)
    assert x.shape == (20,)
    assert x.dtype == np.float64
    assert residual(op(a, lower=False, transposed=False, unit_diagonal=False), x, b) <= 4
    assert np.array_equal(trsm(np.stack([a, a]), b, lower=False, block=BLOCK)[1], x)


def test_any_strides_and_blocks_longer_than_the_matrix(rng):
    big = triangle(rng, 40, lower=True)
    for a in (np.asfortranarray(big), big[::-1, ::-1], big[3:30, 3:30]):
        lower = not np.isnan(a[-1, 0])
        b = rng.standard_normal((2, len(a))).T[::-1]
        for block in (1, 7, 1000):
            x = trsm(a, b, lower=lower, block=block)
            assert residual(op(a, lower=lower, transposed=False, unit_diagonal=False), x, b) <= 4


def test_no_right_hand_side(rng):
    assert trsm(triangle(rng, 9, lower=True), np.empty((9, 0))).shape == (9, 0)


@pytest.mark.parametrize("condition", [1e1, 1e4, 1e8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_residual_of_substitution_is_small_whatever_the_condition(condition, dtype, rng):
    """That of blocks grows with the condition of a block, the error with that of the matrix."""
    n = 60
    r = np.triu(np.linalg.qr(of_condition(rng, n, condition))[1]).astype(dtype)
    b = rng.standard_normal((n, 4)).astype(dtype)
    assert residual(r, trsm(r, b, lower=False, method="substitution", block=n), b) <= 2
    blocks = [r[i : i + BLOCK, i : i + BLOCK].astype(float) for i in range(0, n, BLOCK)]
    of_blocks = max(np.linalg.cond(x, np.inf) for x in blocks)
    x = trsm(r, b, lower=False, block=BLOCK)
    assert residual(r, x, b) <= 4 * of_blocks
    if dtype == "float32":
        exact = np.linalg.solve(r.astype(float), b.astype(float))
        error = np.abs(x - exact).max() / np.abs(exact).max()
        assert error <= 4 * np.finfo(dtype).eps * np.linalg.cond(r.astype(float), np.inf)


def test_long_blocks_cost_accuracy_where_they_are_ill_conditioned(rng):
    """One residual hangs on how the processor rounds; the middle of several does not."""
    n, ways = 128, ({"method": "substitution"}, {"block": 128}, {"block": 128, "method": "corrected"})
    residuals = []
    for _ in range(9):
        r = np.triu(np.linalg.qr(of_condition(rng, n, 1e7))[1]).astype("float32")
        b = (r.astype(float) @ rng.standard_normal((n, 4))).astype("float32")
        residuals.append([residual(r, trsm(r, b, lower=False, **way), b) for way in ways])
    by_substitution, in_one_block, corrected = np.median(residuals, axis=0)
    assert in_one_block > 6 * by_substitution
    assert corrected < 4 * by_substitution


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 33, 64])
def test_inverses_are_triangles_and_inverses(n, rng):
    stack = np.stack([triangle(rng, n, lower=True) for _ in range(3)])
    inverse = inverted(stack, np)
    assert np.array_equal(inverse, np.tril(inverse))
    np.testing.assert_allclose(inverse @ np.tril(stack), np.broadcast_to(np.eye(n), stack.shape), atol=1e-13)


@pytest.mark.parametrize("backend", ["cpu-naive", "cpu-numpy"])
def test_the_backend_named_computes_the_products(backend, rng, monkeypatch):
    used = []
    run = Products._run
    monkeypatch.setattr(Products, "_run", lambda self, chosen, *x: (used.append(chosen.name), run(self, chosen, *x)))
    a, b = triangle(rng, 20, lower=True), rng.standard_normal((20, 2))
    trsm(a, b, block=BLOCK, backend=backend, threads=1)
    assert set(used) == {backend}
    assert len(used) == 3 + 2  # blocks, and what is below them


@pytest.mark.parametrize("bug", ["none", "an update is lost", "an inverse is not doubled", "the last block is skipped"])
def test_a_planted_bug_is_seen(bug, rng, monkeypatch):
    if bug == "an update is lost":
        monkeypatch.setattr(Products, "add", lambda *_: None)
    elif bug == "an inverse is not doubled":
        monkeypatch.setattr(
            "harness.linalg.triangles.inverted",
            lambda stack, *_, **__: -np.eye(BLOCK) / np.diagonal(stack, axis1=-2, axis2=-1)[..., None],
        )
    elif bug == "the last block is skipped":
        multiply = Products.multiply
        monkeypatch.setattr(
            Products, "multiply", lambda self, a, b, out: multiply(self, a, b, out).__imul__(a.shape[-1] == BLOCK)
        )
    a = np.tril(rng.standard_normal((20, 20))) + 5 * np.eye(20)
    b = rng.standard_normal((20, 3))
    assert (residual(a, trsm(a, b, block=BLOCK), b) <= 4) == (bug == "none")


def test_blocks_on_a_gpu_are_longer_where_columns_are_few():
    gpu, host = SimpleNamespace(on_device=True), SimpleNamespace(on_device=False)
    assert [default_block(gpu, n, r) for n, r in ((4096, 16), (4096, 256), (1000, 16))] == [
        1024,
        512,
        512,
    ]
    assert default_block(host, 4096, 256) == BLOCK_ON_HOST


@pytest.mark.parametrize(("method", "first"), [("blocks", 4), ("corrected", 4), ("substitution", 5)])
def test_nan_spreads_within_its_column_from_its_block_or_its_row_on(method, first):
    b = np.ones((10, 2))
    b[5, 0] = np.nan
    x = trsm(np.tri(10) + np.eye(10), b, method=method, block=4)
    assert np.flatnonzero(np.isnan(x[:, 0])).tolist() == list(range(first, 10))
    assert np.isfinite(x[:, 1]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_substitution_solves_every_matrix_of_a_batch_whatever_the_blocks(dtype, rng):
    for n in (4, 8):
        a, b = np.stack([np.eye(n)] * 3).astype(dtype), rng.standard_normal((3, n, 1)).astype(dtype)
        for block in range(1, n + 1):
            np.testing.assert_array_equal(trsm(a, b, method="substitution", block=block), b)


@pytest.mark.parametrize("method", ["substitution", "blocks", "corrected"])
@pytest.mark.filterwarnings("error")
def test_infinities_of_b_spread_in_their_column_without_a_warning(method):
    b = np.ones((5, 2))
    b[1, 0] = np.inf
    x = trsm(np.tril(np.ones((5, 5))), b, method=method)
    assert not np.isfinite(x[1:, 0]).any()
    np.testing.assert_array_equal(x[:, 1], [1, 0, 0, 0, 0])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("method", ["blocks", "corrected", "substitution"])
def test_complex_triangles(dtype, method):
    rng = np.random.default_rng(5)
    for n, lower in ((1, True), (9, False), (130, True)):
        a = (rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)) + 3 * n * np.eye(n)).astype(dtype)
        b = (rng.standard_normal((n, 3)) + 1j * rng.standard_normal((n, 3))).astype(dtype)
        half = np.tril(a) if lower else np.triu(a)
        for transposed, op in ((False, half), (True, half.T)):
            for right in (b, b[:, 0], b.real):
                x = trsm(a, right, lower=lower, transposed=transposed, method=method)
                assert x.dtype == dtype
                residual = np.abs(op @ x - right).max() / np.abs(right).max()
                assert residual < 20 * n * np.finfo(dtype).eps
        unit = np.tril(a / (4 * n), -1) + np.eye(n)
        assert np.allclose(unit @ trsm(unit, b, unit_diagonal=True, method=method), b, atol=1e-4)
    with pytest.raises(ProblemError, match="singular"):
        trsm(np.zeros((2, 2), dtype), np.ones(2, dtype))
