"""Products with a vector: dot products of rows and sums of rows, on every vector unit, against the definition."""

import numpy as np
import pytest

from backends.cpu._simd import dot_products, matrix_vector
from backends.cpu._vector.unit import usable_units
from harness import Operands, gemm
from harness.proof import reference
from harness.threads import limit
from harness.tuning import simd as tuning_simd
from tests._support.pairs import pairs
from tests._support.planted_kernels import compile_anew
from tests._support.simd_products import BACKEND, Kernel

# k and n around lanes, around vectors of partial sums, and around the rows taken at once; rows taken one by one.
# No loop depends on the register tile, which matters to matrices that have no contiguous rows alone: the smallest is
# soonest compiled.
SIZES = [(1, 1), (3, 4), (4, 15), (5, 16), (9, 17), (8, 31), (2, 33), (13, 130)]
LAYOUTS = (
    *(lambda a: a, lambda a: np.pad(a, ((0, 0), (0, 99)))[:, : a.shape[1]], np.asfortranarray),
    *(lambda a: a[::-1, ::-1], lambda a: np.repeat(a, 2, axis=1)[:, ::2]),
)
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


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_matrix_and_a_vector_in_any_order_and_layout(kernel, rng):
    semiring = kernel.problem(1, 1, 1).semiring
    longest = [(19, 4100)] if kernel in KERNELS[-3:] else []  # too long to be taken one by one
    for (m, k), layout, is_spread, is_turned, threads in pairs(
        SIZES + longest, LAYOUTS, (False, True), (False, True), (1, 2)
    ):
        a, x = vectors(rng, m, k, kernel.dtype)
        matrix, vector = layout(a), np.repeat(x, 3, axis=0)[::3] if is_spread else x
        left, right = (vector.T, matrix.T) if is_turned else (matrix, vector)
        problem = kernel.problem(left.shape[0], right.shape[1], k)
        expected = reference.product(problem, left, right)
        c = rng.integers(-20, 20, expected.shape).astype(kernel.dtype)
        assert np.array_equal(by_kernel(kernel, left, right, threads=threads), expected)
        added = semiring.add.ufunc(c, expected)
        assert np.array_equal(by_kernel(kernel, left, right, c), added)


def test_rows_up_to_the_limit_of_the_unit_are_taken_one_by_one(rng):
    """Seven rows always are; eight at once are summed in another order."""
    kernel, limits = KERNELS[-3], tuning_simd.streams(usable_units()[0].size_bytes)
    for k, is_alone in ((limits.longest_of_a // 8, True), (limits.longest_of_a // 8 + 8, False)):
        a, x = rng.standard_normal((8, k)), rng.standard_normal((k, 1))
        assert np.array_equal(by_kernel(kernel, a, x)[:7], by_kernel(kernel, a[:7], x)) == is_alone


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_tall_matrix_is_shared_by_rows_whose_sums_are_combined_in_order(kernel, rng):
    for k, n in ((130, 1), (515, 5), (700, 33), (1000, 130)):  # so many rows that each thread has a sum
        b, x = rng.integers(-20, 20, (k, n)).astype(kernel.dtype), rng.integers(-20, 20, (1, k)).astype(kernel.dtype)
        problem = kernel.problem(1, n, k)
        expected = reference.product(problem, x, b)
        c = rng.integers(-20, 20, (1, n)).astype(kernel.dtype)
        for threads in (1, 2, 3):
            assert np.array_equal(by_kernel(kernel, x, b, threads=threads), expected)
            added = problem.semiring.add.ufunc(c, expected)
            assert np.array_equal(by_kernel(kernel, x, b, c, threads=threads), added)


def test_a_low_matrix_is_shared_by_columns(rng):
    kernel = KERNELS[0]
    for m, k in ((1, 300), (3, 1000), (15, 517)):
        a, x = vectors(rng, m, k, kernel.dtype)
        expected = reference.product(kernel.problem(m, 1, k), a, x)
        c = rng.integers(-20, 20, (m, 1)).astype(kernel.dtype)
        for threads in (1, 2, 3):
            assert np.array_equal(by_kernel(kernel, a, x, threads=threads), expected)
            assert np.array_equal(by_kernel(kernel, a, x, c, threads=threads), np.minimum(c, expected))


def test_rows_have_the_same_bits_for_any_number_of_threads(rng):
    for m, k in ((517, 700), (517, 20), (90, 9000)):  # one by one; in groups of short and of long rows
        a, x = rng.standard_normal((m, k)), rng.standard_normal((k, 1))
        first, *others = [by_kernel(KERNELS[-3], a, x, threads=threads) for threads in (1, 2, 3)]
        assert all(np.array_equal(first, other) for other in others)


def test_sums_of_parts_are_combined_in_the_same_order_every_time(rng):
    b, x = rng.standard_normal((3000, 70)), rng.standard_normal((1, 3000))
    first, *others = [gemm(x, b, np.zeros((1, 70)), threads=2) for _ in range(5)]
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_vector_times_a_number_is_one_row(threads, rng):
    x, y = rng.integers(-9, 9, (301, 1)).astype(float), rng.integers(-9, 9, (301, 1)).astype(float)
    two = np.full((1, 1), 2.0)
    assert np.array_equal(gemm(x, two, y, threads=threads), y + 2 * x)
    assert np.array_equal(gemm(x, two, y, semiring="min_plus", threads=threads), np.minimum(y, x + 2))


class TestPlantedBugs:
    KERNEL = KERNELS[-3]

    @pytest.fixture(autouse=True)
    def _none_is_kept(self, monkeypatch):
        compile_anew(monkeypatch)

    def by_sums(self, rng):
        b, x = rng.integers(1, 20, (515, 9)).astype(float), rng.integers(1, 20, (1, 515)).astype(float)
        return np.array_equal(by_kernel(self.KERNEL, x, b, threads=3), x @ b)

    def test_a_part_without_its_sum(self, monkeypatch, rng):
        right = matrix_vector.fold_stage
        assert self.by_sums(rng)
        monkeypatch.setattr(
            matrix_vector,
            "fold_stage",
            lambda key, n, threads, rows_of, accumulate: right(
                key, n, threads, lambda j: (1, rows_of(j)[1]), accumulate
            ),
        )
        assert not self.by_sums(rng)

    def test_rows_whose_totals_change_places(self, monkeypatch, rng):
        right = dot_products.add_totals
        monkeypatch.setattr(
            dot_products,
            "add_totals",
            lambda b, code, ops, sums, places, *rest: right(b, code, ops, sums[::-1], places, *rest),
        )
        a, x = rng.integers(1, 20, (8, 20)).astype(float), rng.integers(1, 20, (20, 1)).astype(float)
        assert not np.array_equal(by_kernel(self.KERNEL, a, x), a @ x)


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
