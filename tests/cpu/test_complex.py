"""Complex numbers by the rungs of the CPU: parts as four real products give them, and mistakes that the proof names."""

import itertools

import numba
import numpy as np
import pytest

from harness import Operands, Problem, gemm
from harness.errors import VerificationError
from harness.proof.verify import verify

OWN = ("cpu-naive", "cpu-transposed", "cpu-tiled", "cpu-packed", "cpu-strassen")
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5])
pytestmark = [
    pytest.mark.no_cover,
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="loops of Python over all rungs take minutes"),
]


def by_four_products(a, b):
    """Return a b by real products of parts, each part of the result the sum of its terms; nothing is skipped."""
    real, imaginary = np.zeros((2, a.shape[0], b.shape[1]))
    with np.errstate(all="ignore"):
        for column, row in zip(a.T, b, strict=True):
            x, y = column[:, None].astype(complex), row[None, :].astype(complex)
            real = real + x.real * y.real - x.imag * y.imag
            imaginary = imaginary + x.real * y.imag + x.imag * y.real
    return real, imaginary


def of_parts(real, imaginary, dtype):
    """Return complex numbers of these parts, of which none is computed."""
    x = np.empty(np.broadcast(real, imaginary).shape, dtype)
    x.real, x.imag = real, imaginary
    return x


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", OWN)
def test_no_number_stands_where_four_products_have_none(name, dtype, rng):
    pairs = np.array([*itertools.product(SPECIAL, repeat=2)])
    every = of_parts(*pairs.T, dtype)
    cases = [(every[:, None], every[None, :])]
    a, b = (of_parts(*rng.integers(-3, 4, (2, 9, 9)).astype(float), dtype) for _ in range(2))
    for part in ("real", "imag"):
        for value in SPECIAL[:5]:
            mixed = a.copy()
            getattr(mixed, part)[4, 2] = value
            cases += [(mixed, b), (b, mixed)]
    for x, y in cases:
        got, (real, imaginary) = gemm(x, y, backend=name, threads=1), by_four_products(x, y)
        assert np.array_equal(got.real, real, equal_nan=True), name
        assert np.array_equal(got.imag, imaginary, equal_nan=True), name


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("name", OWN)
def test_integers_of_gauss_and_operands_of_one_part_are_exact(name, rng):
    a, b = (of_parts(*rng.integers(-50, 50, (2, 33, 33)).astype(float), "complex64") for _ in range(2))
    for x, y in itertools.product((a, of_parts(a.real, 0, a.dtype), of_parts(0, a.imag, a.dtype)), repeat=2):
        got, (real, imaginary) = gemm(x, y, backend=name), by_four_products(x, y)
        assert np.array_equal(got, real + 1j * imaginary)
    wide = gemm(a, b, dtype="complex128")
    assert wide.dtype == np.complex128
    assert np.array_equal(wide, a.astype(complex) @ b.astype(complex))


PLANTED = {
    "A was conjugated": lambda a, b: a.conj() @ b,
    "B was conjugated": lambda a, b: a @ b.conj(),
    "sign of im im": lambda a, b: of_parts(a.real @ b.real + a.imag @ b.imag, (a @ b).imag, a.dtype),
    "swapped": lambda a, b: of_parts((a @ b).imag, (a @ b).real, a.dtype),
    "imaginary part lost": lambda a, b: of_parts((a @ b).real, 0, a.dtype),
}


@pytest.mark.parametrize("says", PLANTED)
def test_planted_mistakes_are_found_and_conjugates_named(says):
    problem = Problem(12, 13, 14, dtype=np.dtype(np.complex128))
    operands = Operands.generate(problem, 1)
    wrong = PLANTED[says](operands.a, operands.b)
    with pytest.raises(VerificationError, match=says if "conjugated" in says else None):
        verify(problem, operands, wrong, seed=1)


def test_an_alpha_whose_imaginary_part_is_lost_is_found():
    problem = Problem(12, 13, 14, dtype=np.dtype(np.complex64), alpha=2 - 0.5j)
    operands = Operands.generate(problem, 1)
    with pytest.raises(VerificationError):
        verify(problem, operands, 2 * (operands.a @ operands.b), seed=1)
    right = gemm(operands.a, operands.b, alpha=2 - 0.5j, backend="cpu-packed")
    verify(problem, operands, right, seed=1)


def test_three_products_whose_sums_overflow_are_left_to_the_base():
    a, b = np.array([[6e307 + 6e307j]]), np.array([[1 + 1j]])
    assert np.array_equal(gemm(a, b, backend="cpu-three-m"), a @ b)
    assert np.isfinite(a @ b).all(), "though the product of the sums does not"


def test_the_proof_knows_numbers_whose_modulus_is_infinite():
    problem = Problem(1, 1, 1, dtype="complex128")
    operands = Operands(np.array([[1.7e308 + 1.7e308j]]), np.array([[0.3 - 0.1j]]), None, np.empty((1, 1), complex))
    result = operands.a @ operands.b
    verify(problem, operands, result * (1 + 1e-16) + 1e292, seed=1)
    with pytest.raises(VerificationError):
        verify(problem, operands, result * 1.01, seed=1)
