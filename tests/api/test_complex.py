"""Complex numbers through the public calls, against NumPy: conjugates, Hermitian matrices, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from harness import BackendUnavailable, Problem, ProblemError, axpy, einsum, gemm, gemv, ger, hemv, her, herk, symv, syr
from harness.operands import Operands
from harness.proof import reference
from harness.proof.verify import verify

DTYPES = "complex64", "complex128"
WHICH = "", "a", "b", "ab"


def drawn(*shape: int, dtype: str = "complex128") -> np.ndarray:
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def near(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    tolerance = 1e-4 if got.dtype.itemsize == 8 else 1e-12
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * (1 + np.abs(expected).max(initial=0)))


def conjugated(a: np.ndarray, b: np.ndarray, which: str) -> tuple[np.ndarray, np.ndarray]:
    return a.conj() if "a" in which else a, b.conj() if "b" in which else b


def poisoned(a: np.ndarray) -> np.ndarray:
    """Return `a` with NaN where a Hermitian matrix is not read."""
    a = np.where(np.tri(len(a), dtype=bool), a, complex(np.nan, np.nan))
    a.imag[range(len(a)), range(len(a))] = np.nan
    return a


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", WHICH)
def test_conjugates_are_those_of_numpy_in_every_call_of_a_kind(dtype, which):
    a, b, c = drawn(3, 7, 19, dtype=dtype), drawn(19, 11, dtype=dtype), drawn(7, 11, dtype=dtype)
    x, y = conjugated(a, b, which)
    for _ in range(3):  # later calls may be remembered
        near(gemm(a[0], b, conjugate=which), x[0] @ y)
        near(gemm(a[0], b, c, alpha=2j, beta=1 - 1j, conjugate=which), 2j * (x[0] @ y) + (1 - 1j) * c)
        near(gemm(a, b, conjugate=which), x @ y)
        near(gemm(b.T, a[1].T, conjugate=which), np.matmul(*conjugated(b.T, a[1].T, which)))
        near(gemm(a[0].real, b, conjugate=which), a[0].real @ y)
    near(gemv(b.T, b[:, 0], conjugate=which), np.matmul(*conjugated(b.T, b[:, 0], which)))
    near(ger(b[0], c[0], conjugate=which), np.outer(*conjugated(b[0], c[0], which)))
    for name in ("a", "b"):
        out = drawn(11, 11, dtype=dtype)
        operands = {"a": b[:11], "b": b[:11].copy(), name: out}
        expected = np.matmul(*conjugated(operands["a"], operands["b"], which))
        near(gemm(**operands, out=out, conjugate=which), expected)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 5, 70])
def test_a_hermitian_matrix_is_read_below_its_diagonal_alone(dtype, size):
    a, b = drawn(size, size, dtype=dtype), drawn(size, 4, dtype=dtype)
    below = np.tril(a, -1)
    hermitian = below + below.conj().T + np.diag(a.diagonal().real)
    symmetric = below + below.T + np.diag(a.diagonal())
    near(gemm(poisoned(a), b, triangle="h"), hermitian @ b)
    near(gemm(poisoned(a), b, triangle="h", conjugate="a"), hermitian.conj() @ b)
    near(hemv(poisoned(a), b[:, 0]), hermitian @ b[:, 0])
    near(hemv(poisoned(a), b[:, 0], alpha=2j), 2j * (hermitian @ b[:, 0]))
    near(hemv(poisoned(a.T).T.conj().T, b[:, 0], conjugate="a"), hemv(a.T, b[:, 0]))
    near(symv(a, b[:, 0]), symmetric @ b[:, 0])
    near(gemm(a.T, a, conjugate="a", triangle="d"), np.tril(a.conj().T @ a))
    near(herk(a), np.tril(a @ a.conj().T))
    near(herk(a.T, conjugate="a"), np.tril(a.conj().T @ a))
    near(her(b[:, 0], a.copy(), alpha=2.0), np.tril(a + 2 * np.outer(b[:, 0], b[:, 0].conj())))
    near(syr(b[:, 0]), np.tril(np.outer(b[:, 0], b[:, 0])))


def test_over_real_numbers_nothing_is_conjugated_and_hermitian_is_symmetric():
    problem = Problem(3, 4, 3, conjugate="ab", triangle="h")
    assert problem == Problem(3, 4, 3, triangle="a")
    a = np.arange(9.0).reshape(3, 3)
    assert np.array_equal(gemm(a, a, conjugate="ab", triangle="h"), gemm(a, a, triangle="a"))
    assert np.array_equal(gemm(a, a, semiring="min_plus", conjugate="a"), gemm(a, a, semiring="min_plus"))


def test_a_problem_says_and_stores_what_is_conjugated():
    problem = Problem(3, 4, 3, dtype="complex64", conjugate="b", triangle="h", alpha=1j)
    assert str(problem).endswith("3x4x3, A Hermitian, B conjugated")
    assert Problem.from_json(problem.to_json()) == problem
    assert "conjugate" not in Problem(3, 4, 3, dtype="complex64").to_json()


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("options", [{"conjugate": "a"}, {"conjugate": "b"}, {"triangle": "h"}])
def test_verification_sees_what_was_not_conjugated(options):
    for size in (9, 300):
        problem = Problem(size, size, size, dtype="complex128", **options)
        operands = Operands.generate(problem, 1)
        right = reference.product(problem, operands.a, operands.b)
        assert verify(problem, operands, right, seed=1)
        kept = Problem(size, size, size, dtype="complex128", triangle="a" if options.get("triangle") else "")
        with pytest.raises(Exception, match="is wrong"):
            verify(problem, operands, reference.product(kept, operands.a, operands.b), seed=1)


def test_complex_operands_promote_real_ones():
    a, b, c = drawn(4, 5, dtype="complex64"), drawn(5, 6).real, drawn(4, 6, dtype="complex64")
    near(gemm(a, b), a @ b)
    near(gemm(b.T, a.T, conjugate="b"), b.T @ a.conj().T)
    near(gemm(a.real, b.astype("float32"), c), a.real @ b.astype("float32") + c)
    near(axpy(a[0], b[:, 0], alpha=1j), 1j * a[0] + b[:, 0])
    near(einsum("ik,kj,j->ij", a, b, c[0]), np.einsum("ik,kj,j->ij", a, b, c[0]))
    near(
        einsum("bik,bkj->ijb", drawn(2, 3, 4), drawn(2, 4, 3)),
        np.einsum("bik,bkj->ijb", drawn(2, 3, 4), drawn(2, 4, 3)),
    )


A, R = drawn(3, 3), drawn(3, 3).real.copy()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gemm(A, A, out=np.empty((3, 3))), "out cannot take the result"),
        (lambda: gemm(R, R, alpha=1j), "alpha is no value of the product's dtype"),
        (lambda: gemm(A, A, semiring="min_plus"), "semiring min_plus does not take complex128"),
        (lambda: gemm(A, A, dtype="float64"), "dtype='float64' is not that of the product"),
        (lambda: gemm(A, A, conjugate="c"), "conjugate is not understood"),
        (lambda: gemm(A, A, conjugate=np.ones(2)), "conjugate is not understood"),
        (lambda: gemm(A, A, triangle="u"), "triangle is not understood"),
        (lambda: gemm(A[:2], A, triangle="h"), "triangle='h': A is not square"),
        (lambda: hemv(A[:2], A[0]), "hemv: a is not square"),
        (lambda: hemv(A, A[0], triangle="a"), "hemv: the triangle cannot be chosen"),
        (lambda: her(A[0], out=np.empty((3, 3))), "her: out cannot take the result"),
    ],
)
def test_what_cannot_be_done_is_said(call, says):
    with pytest.raises(ProblemError, match=says):
        call()


def test_a_backend_without_complex_numbers_is_named():
    with pytest.raises(BackendUnavailable, match="no arithmetic over complex numbers"):
        gemm(A, A, backend="cpu-half", conjugate="a")
