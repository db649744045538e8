"""Products with a vector: dot products of rows and sums of rows, on every vector unit, against the definition."""

import numpy as np
import pytest

from backends.cpu._vector.unit import usable_units
from harness import Operands, gemm
from harness.proof import reference
from harness.threads import limit
from tests._support.simd_products import BACKEND, Kernel

# k and n around lanes, around two vectors of partial sums, and around the rows taken at once. No loop depends on the
# register tile, which matters to matrices that have no contiguous rows alone: the smallest is soonest compiled.
SIZES = [(1, 1), (3, 4), (4, 15), (5, 16), (9, 17), (8, 31), (2, 33), (13, 130)]
KERNELS = [
    *(Kernel("min_plus", "float32", unit.name, 1, 1) for unit in usable_units()),
    Kernel("plus_times", "float64", usable_units()[0].name, 1, 1),
    Kernel("max_min", "float64", usable_units()[0].name, 1, 1),  # with a careful form
    Kernel("plus_first", "int16", usable_units()[-1].name, 1, 1),  # (x) does not commute
]


def vectors(rng, m, k, dtype):
    """Return a matrix of small whole numbers, and a vector."""
    return rng.integers(-20, 20, (m, k)).astype(dtype), rng.integers(-20, 20, (k, 1)).astype(dtype)


def by_kernel(kernel, a, b, c=None, threads=1):
    problem = kernel.problem(a.shape[0], b.shape[1], a.shape[1], accumulate=c is not None)
    out = np.zeros((problem.m, problem.n), problem.dtype)
    with limit(2):
        BACKEND.prepare(kernel.plan(problem, threads), Operands(a, b, c, out)).run()
    return out


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_matrix_and_a_vector_in_any_order_and_layout(kernel, rng):
    semiring = kernel.problem(1, 1, 1).semiring
    for m, k in SIZES:
        a, x = vectors(rng, m, k, kernel.dtype)
        spread = np.repeat(x, 3, axis=0)[::3]
        for matrix in (a, np.asfortranarray(a), a[::-1, ::-1], np.repeat(a, 2, axis=1)[:, ::2]):
            for vector in (x, spread):
                for left, right in ((matrix, vector), (vector.T, matrix.T)):
                    problem = kernel.problem(left.shape[0], right.shape[1], k)
                    expected = reference.product(problem, left, right)
                    c = rng.integers(-20, 20, expected.shape).astype(kernel.dtype)
                    for threads in (1, 2):
                        assert np.array_equal(by_kernel(kernel, left, right, threads=threads), expected)
                    added = semiring.add.ufunc(c, expected)
                    assert np.array_equal(by_kernel(kernel, left, right, c), added)


@pytest.mark.parametrize("side", [0, 1])
def test_a_nan_of_either_operand_is_absent(side):
    a, x = np.array([[1.0, 4.0, 2.0]]), np.array([[5.0], [3.0], [1.0]])
    (a, x)[side].ravel()[2] = np.nan
    assert gemm(a, x, semiring="min_max").item() == 4.0
    assert gemm(a, x, semiring="max_min").item() == 3.0


@pytest.mark.parametrize("n", [7, 300])
def test_the_public_call_takes_vectors_of_any_stride(n, rng):
    a, x = rng.random((n, n)), rng.random((n, 2))[:, :1]
    out = np.full((n, 3), -1.0)
    np.testing.assert_allclose(gemm(a, x, out=out[:, 1:2]), a @ x)
    assert (out[:, ::2] == -1).all()
    np.testing.assert_allclose(gemm(x.T, a), x.T @ a)
    np.testing.assert_allclose(gemm(a[:1], a), a[:1] @ a)
