"""gemv, symv, ger, syr, syrk and axpy against the definition."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import harness
from harness import axpy, gemm, gemv, ger, symv, syr, syrk
from harness.errors import ProblemError

RNG = np.random.default_rng(5)
A, SQUARE = RNG.standard_normal((5, 7)), RNG.standard_normal((7, 7))
X, Y = RNG.standard_normal(7), RNG.standard_normal(5)
ABOVE = ~np.tri(7, dtype=bool)
SYMMETRIC = np.where(ABOVE, SQUARE.T, SQUARE)


def hidden_above_diagonal(x: np.ndarray) -> np.ndarray:
    return np.where(ABOVE[: len(x), : len(x)], np.nan, x)


class TestGemv:
    def test_multiplies_and_adds(self):
        np.testing.assert_allclose(gemv(A, X), A @ X)
        np.testing.assert_allclose(gemv(A, X, Y, alpha=2.0, beta=-3.0), 2 * A @ X - 3 * Y)

    def test_takes_the_transposed_and_the_sliced_matrix(self):
        np.testing.assert_allclose(gemv(A.T, Y), A.T @ Y)
        np.testing.assert_allclose(gemv(A[::2, 1:], X[1:]), A[::2, 1:] @ X[1:])

    def test_broadcasts_batches(self):
        stack = RNG.standard_normal((4, 1, 5, 7))
        vectors = RNG.standard_normal((3, 7))
        np.testing.assert_allclose(
            gemv(stack, vectors), np.einsum("bcij,cj->bci", np.broadcast_to(stack, (4, 3, 5, 7)), vectors)
        )

    def test_keeps_the_sides_of_operands_that_do_not_commute(self):
        first = harness.Semiring.of("min", "first")
        np.testing.assert_array_equal(gemv(A, X, semiring=first), A.min(1))

    def test_over_a_semiring_of_integers(self):
        a, x = RNG.integers(-9, 9, (5, 7)), RNG.integers(-9, 9, 7)
        np.testing.assert_array_equal(gemv(a, x, semiring="min_plus"), (a + x).min(1))

    def test_writes_to_out_and_returns_it(self):
        out = Y.copy()
        assert gemv(A, X, out, out=out) is out
        np.testing.assert_allclose(out, A @ X + Y)

    def test_of_no_columns_is_the_zero(self):
        np.testing.assert_array_equal(gemv(A[:, :0], X[:0]), np.zeros(5))


class TestTriangles:
    def test_symv_reads_nothing_above_the_diagonal(self):
        np.testing.assert_allclose(symv(hidden_above_diagonal(SQUARE), X), SYMMETRIC @ X)
        np.testing.assert_allclose(
            symv(hidden_above_diagonal(SQUARE), X, X, alpha=2.0, beta=0.5), 2 * SYMMETRIC @ X + X / 2
        )

    def test_symv_of_an_upper_triangle_by_its_transpose(self):
        np.testing.assert_allclose(symv(hidden_above_diagonal(SQUARE).T.T, X), SYMMETRIC @ X)
        upper = hidden_above_diagonal(SQUARE).T
        np.testing.assert_allclose(symv(upper.T, X), SYMMETRIC @ X)

    def test_a_product_with_a_symmetric_matrix(self):
        b = RNG.standard_normal((7, 4))
        np.testing.assert_allclose(gemm(hidden_above_diagonal(SQUARE), b, triangle="a"), SYMMETRIC @ b)

    def test_syrk_leaves_what_is_above_the_diagonal(self):
        c = hidden_above_diagonal(RNG.standard_normal((5, 5)))
        out = c.copy()
        assert syrk(A, out, out=out, alpha=2.0) is out
        above = ABOVE[:5, :5]
        np.testing.assert_allclose(out[~above], (2 * A @ A.T + c)[~above])
        assert np.isnan(out[above]).all()

    def test_a_new_result_holds_zeros_above_the_diagonal(self):
        np.testing.assert_allclose(syrk(A), np.tril(A @ A.T))
        distances = syrk(A, semiring="min_plus")
        assert np.isposinf(distances[ABOVE[:5, :5]]).all()
        np.testing.assert_allclose(np.tril(distances), np.tril((A[:, None] + A[None]).min(2)))

    def test_syrk_of_the_other_side_and_of_many_blocks(self):
        a = RNG.integers(-3, 3, (200, 30)).astype(float)
        np.testing.assert_array_equal(syrk(a.T), np.tril(a.T @ a))
        np.testing.assert_array_equal(syrk(a), np.tril(a @ a.T))

    def test_syr_adds_an_outer_product(self):
        np.testing.assert_allclose(syr(X, hidden_above_diagonal(SQUARE)), np.tril(SQUARE + np.outer(X, X)))

    @pytest.mark.parametrize("semiring", ["min_plus", "max_min", "plus_min", "plus_times"])
    @pytest.mark.parametrize("lay", [np.asfortranarray, lambda x: x[::-1, ::-1], lambda x: np.repeat(x, 2, 1)[:, ::2]])
    def test_a_large_outer_product_leaves_what_is_above_the_diagonal_in_any_layout(self, lay, semiring):
        x, size = np.arange(700.0), 700  # C is larger than caches, so that its rows pass through once
        dtype = "int64" if semiring == "min_plus" else "float64"
        out = lay(np.full((size, size), -7, dtype))
        assert not out.flags.c_contiguous
        with np.errstate(all="raise"):
            syr(x.astype(dtype), out=out, semiring=semiring)
        whole = {"min_plus": np.add, "plus_times": np.multiply}.get(semiring, np.minimum).outer(x, x)
        np.testing.assert_array_equal(out, np.where(np.tri(size, dtype=bool), whole, -7))

    def test_batches(self):
        stack = RNG.standard_normal((3, 5, 7))
        np.testing.assert_allclose(syrk(stack), np.tril(stack @ stack.swapaxes(1, 2)))


class TestUpdates:
    def test_ger_in_place(self):
        c = A.copy()
        assert ger(Y, X, c, out=c, alpha=-1.0) is c
        np.testing.assert_allclose(c, A - np.outer(Y, X))

    def test_axpy(self):
        y = X.copy()
        np.testing.assert_allclose(axpy(X, y, alpha=3.0, out=y), 4 * X)
        np.testing.assert_allclose(axpy(X, np.zeros(7), alpha=3.0, semiring="min_plus"), np.minimum(X + 3, 0))


def test_buffers_are_arrays():
    np.testing.assert_allclose(gemv(memoryview(A), memoryview(X)), A @ X)
    np.testing.assert_allclose(syrk(memoryview(A)), np.tril(A @ A.T))


class Table:
    """What `numpy.asarray` takes and looks like an array, but cannot be indexed like one, as a table of pandas."""

    def __init__(self, values):
        self._values = np.asarray(values)
        self.ndim, self.dtype, self.shape = self._values.ndim, self._values.dtype, self._values.shape

    def __array__(self, dtype=None, copy=None):
        return self._values

    def __getitem__(self, index):
        raise ValueError("Multi-dimensional indexing")


def test_tables_are_arrays():
    a, x, y = Table(A), Table(X), Table(Y)
    np.testing.assert_allclose(gemv(a, x, y), A @ X + Y)
    np.testing.assert_allclose(symv(Table(SQUARE), x), symv(SQUARE, X))
    np.testing.assert_allclose(ger(y, x, a), np.outer(Y, X) + A)
    np.testing.assert_allclose(axpy(x, x), 2 * X)
    np.testing.assert_allclose(syr(x), np.tril(np.outer(X, X)))
    np.testing.assert_allclose(syrk(a), np.tril(A @ A.T))
    for call in (gemv, axpy):
        with pytest.raises(ProblemError, match=r"out cannot take the result(.|\n)*got       Table"):
            call(SQUARE if call is gemv else X, X, out=Table(np.zeros(7)))


class TestBadInput:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: gemv(A, Y), "gemv: the length of x is not the number of columns of a"),
            (lambda: gemv(A, X, X), "gemv: the length of y is not the number of rows of a"),
            (lambda: gemv(X, X), "gemv: a is no matrix"),
            (lambda: gemv(A, 3.0), "gemv: x is no vector"),
            (lambda: gemv([[1], [2, 3]], X), "gemv: a is no array"),
            (lambda: syrk([[1], [2, 3]]), "syrk: a is no array"),
            (lambda: gemv(A, X, out=np.empty(3)), "gemv: out cannot take the result\n.*shape .5,."),
            (lambda: gemv(A, X, out=np.empty((5, 1))), "gemv: out cannot take the result\n.*shape .5,."),
            (lambda: gemv(A, X, out=[0.0] * 5), "gemv: out cannot take the result\n.*array.*\n.*list"),
            (lambda: axpy(X, X, out=X.tolist()), "axpy: out cannot take the result"),
            (lambda: symv(A, X), "symv: a is not square"),
            (lambda: symv(SQUARE, X, triangle="d"), "symv: the triangle cannot be chosen"),
            (lambda: syrk(A, triangle="a"), "syrk: the triangle cannot be chosen"),
            (lambda: syr(X, triangle=""), "syr: the triangle cannot be chosen"),
            (lambda: gemm(A, A.T, triangle="a"), "triangle='a': A is not square"),
            (lambda: gemm(A, A.T, triangle="u"), "triangle is not understood"),
            (lambda: gemm(A, SQUARE, triangle="d"), "triangle='d': D is not square"),
            (lambda: axpy(X, Y), "axpy: the lengths of x and y differ"),
            (lambda: gemv(A, X, out=np.empty(5, "f4")), "gemv: out .*\n.*shape .5,. and dtype.*\n.*\n.*empty..5,.,"),
            (lambda: axpy(X, X, out=np.empty(7, "f4")), "axpy: out .*\n.*shape .7,. and dtype.*\n.*\n.*empty..7,.,"),
            (lambda: ger(Y, X, out=np.empty((5, 7), "f4")), "ger: out cannot take the result"),
            (lambda: gemv(A, X, out=np.ma.array(Y)), "gemv: out cannot take the result\n.*shape .5,.(.|\n)*mask"),
            (lambda: ger(Y, X.astype(object)), "ger: y does not hold numbers(.|\n)*y.astype"),
            (lambda: axpy(X, X.astype(object)), "axpy: y does not hold numbers"),
            (lambda: axpy(X.astype("M8[s]"), X), "axpy: x does not hold numbers"),
            (lambda: syr(X.astype(object)), "syr: x does not hold numbers"),
            (lambda: syrk(np.array(None)), "syrk: a is no matrix"),
            (lambda: gemv(A, np.ma.array(X)), "gemv: x is a masked array"),
            (lambda: gemv(A, X, Y, dtype="f4"), "gemv: dtype=.*\n.*for a and x of float16(.|\n)*y of float64"),
            (lambda: axpy(X, X, dtype="f4"), "axpy: dtype=.*\n.*for x of float16"),
            (lambda: gemv(*(z.astype("f2") for z in (A, X, Y)), dtype="f4"), "gemv: y has not the dtype of the sums"),
            (lambda: gemv(np.ones((3, 5, 7)), np.ones((2, 7))), "gemv: the leading(.|\n)*a .3, 5, 7., x .2, 7."),
            (lambda: axpy(np.ones((3, 7)), np.ones((2, 7))), "axpy: the leading(.|\n)*x .3, 7., y .2, 7."),
            (lambda: ger(Y, X, A.T), "ger: c does not have the shape of the product"),
            (lambda: gemv(A.astype(np.float16), X.astype(np.float16)), "float16"),
        ],
    )
    def test_raises_one_clear_message(self, call, message):
        with pytest.raises(ProblemError, match=message):
            call()

    @pytest.mark.parametrize(
        ("call", "given", "fix"),
        [
            (gemv, {"a": A, "x": Y}, "a=a.T"),
            (gemv, {"a": A, "x": Y, "y": X}, "a=a.T"),
            (gemv, {"a": np.stack([A, A]), "x": Y}, "a=a.swapaxes(-1, -2)"),
            (gemv, {"a": A, "x": Y, "y": Y}, ""),  # of the transposed matrix y does not fit
            (gemv, {"a": A, "x": X, "y": X}, ""),
            (gemv, {"a": A, "x": X, "y": Y[:1]}, "y=numpy.broadcast_to(y, (5,))"),
            (gemv, {"a": A, "x": X, "y": Y[:, None]}, "y=y[..., 0]"),
            (gemv, {"a": A, "x": X[:, None]}, "x=x[..., 0]"),
            (gemv, {"a": A, "x": X[:3]}, ""),
            (symv, {"a": A, "x": Y}, ""),
            (symv, {"a": SQUARE, "x": X[:, None]}, "x=x[..., 0]"),
            (ger, {"x": Y, "y": X, "c": A[:1]}, "numpy.broadcast_to(c, (5, 7))"),
            (syrk, {"a": SQUARE, "c": X[:, None]}, "numpy.broadcast_to(c, (7, 7))"),
            (gemv, {"a": A, "x": X, "out": np.empty((5, 1))}, "out=numpy.empty((5,), 'float64')"),
            (syr, {"x": X, "out": np.empty(7)}, "out=numpy.empty((7, 7), 'float64')"),
            (gemm, {"a": A, "b": SQUARE[:5]}, "b=b.T"),
            (gemm, {"a": A, "b": SQUARE[:4], "c": A[:, :4]}, "b=b.T"),
            (gemm, {"a": A, "b": SQUARE[:4], "c": A}, ""),
        ],
    )
    def test_the_fix_of_a_shape_is_one(self, call, given, fix):
        with pytest.raises(ProblemError) as caught:
            call(**given)
        assert caught.value.fix == fix
        if fix:
            mended = fix if fix.startswith(tuple(f"{name}=" for name in given)) else f"c={fix}"
            call(**{**given, **eval(f"dict({mended})", {"numpy": np, **given})})

    def test_the_fix_of_a_semiring_without_a_one_is_one(self):
        with pytest.raises(ProblemError, match="axpy: semiring plus_pair has no one") as caught:
            axpy(X, X, semiring="plus_pair")
        given = {"x": X, "y": X, "factor": np.ones((1, 1)), "gemm": functools.partial(gemm, semiring="plus_pair")}
        np.testing.assert_array_equal(eval(caught.value.fix.partition(" with ")[0], given)[:, 0], X + 1)

    @pytest.mark.parametrize(
        ("call", "name"),
        [
            (lambda **options: gemv(A, X, **options), "c"),
            (lambda **options: symv(SQUARE, X, **options), "c"),
            (lambda **options: ger(Y, X, **options), "b"),
            (lambda **options: syrk(A, **options), "b"),
            (lambda **options: axpy(X, X, **options), "foo"),
        ],
    )
    def test_an_unknown_option_is_told_in_the_name_of_the_call(self, call, name):
        with pytest.raises(
            TypeError, match=rf"^(gemv|symv|ger|syrk|axpy)\(\) got .*'{name}'; it takes .*alpha"
        ) as caught:
            call(**{name: A})
        assert "gemm" not in str(caught.value)

    def test_a_backend_that_knows_no_triangle_says_so(self):
        with pytest.raises(harness.BackendUnavailable, match="cannot leave a triangle out"):
            syrk(A, backend="cpu-naive")
