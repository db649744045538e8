"""Triangles by generated kernels: symmetric matrices by vectors, and the lower triangle of D, on every vector unit."""

import itertools

import numpy as np
import pytest

from backends.cpu._simd import argument_table, symmetric
from backends.cpu._simd.argument_table import Shape
from backends.cpu._vector.operators import operations
from backends.cpu._vector.unit import usable_units
from backends.cpu.simd import settings_of
from harness import Operands, VerificationError
from harness.operands import lower_triangle
from harness.proof.verify import verify
from tests._support.planted_kernels import compile_anew
from tests._support.simd_products import BACKEND, Kernel

# around groups of rows and around vectors, and a few of both
SIZES = (1, 3, 4, 5, 8, 15, 16, 17, 33, 70)
KERNELS = [
    *(Kernel("min_plus", "float32", unit.name, unit.mr, unit.nv) for unit in usable_units()),
    Kernel("plus_times", "float64", usable_units()[0].name, 8, 3),
    Kernel("max_min", "float64", usable_units()[0].name, 3, 2),  # with a careful form
    Kernel("plus_first", "int16", usable_units()[-1].name, 4, 2),  # (x) does not commute
]
OUTSIDE = 77  # what is above the diagonal of D, before and after


def computed(kernel, triangle, size, k, threads, **options):
    """Compute a product whose operands are poisoned where they must not be read, verify it, and return D."""
    n = 1 if triangle == "a" else size
    problem = kernel.problem(size, n, size if triangle == "a" else k, triangle=triangle, **options)
    operands = Operands.generate(problem, 5)
    operands.out[...] = OUTSIDE
    execution = BACKEND.prepare(kernel.plan(problem, threads, mc=2 * kernel.mr, nc=2 * kernel.nr), operands)
    execution.run()
    result = execution.result()
    verify(problem, operands, result, seed=1)
    if triangle == "d":
        assert (result[~lower_triangle(size)] == OUTSIDE).all(), "written above the diagonal"
    return result.copy()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
class TestProducts:
    def test_a_symmetric_matrix_and_a_vector(self, kernel):
        layouts = itertools.cycle(("CCC", "FCC", "AAA"))
        for size, threads in itertools.product(SIZES, (1, 2, 3)):
            computed(kernel, "a", size, size, threads, layout=next(layouts), accumulate=size % 2 == 0)

    def test_a_triangle_of_d(self, kernel):
        layouts = itertools.cycle(("CCC", "CFF", "AAA", "FCC"))
        for size, k in itertools.product(SIZES, (1, 11)):
            computed(kernel, "d", size, k, 1 + size % 3, layout=next(layouts), accumulate=k == 1)


@pytest.mark.parametrize("kernel", KERNELS[:1] + KERNELS[-2:], ids=str)
def test_any_number_of_threads_gives_the_same_bits_of_a_selective_sum(kernel):
    for triangle in "ad":
        results = [computed(kernel, triangle, 131, 19, threads) for threads in (1, 2, 3)]
        assert all(np.array_equal(result, results[0]) for result in results[1:])


def test_the_same_number_of_threads_gives_the_same_bits():
    kernel = Kernel("plus_times", "float64", usable_units()[0].name, 8, 3)
    first, *others = [computed(kernel, "a", 203, 203, 3) for _ in range(4)]
    assert all(np.array_equal(first, other) for other in others)


class TestShares:
    def test_rows_of_a_symmetric_matrix_have_equal_areas(self):
        for m, parts, is_upper in itertools.product((1, 5, 64, 1000, 1003), (1, 2, 3, 16), (False, True)):
            bounds = symmetric.cut_by_area(m, parts, 4, is_upper)
            assert bounds[0] == 0
            assert bounds[-1] == m
            assert bounds == sorted(set(bounds))
            if m >= 1000:
                areas = [(m - i + m - j if is_upper else i + j) * (j - i) for i, j in itertools.pairwise(bounds)]
                assert len(areas) == parts
                assert max(areas) < 1.15 * m * m / parts

    @pytest.mark.parametrize("threads", [1, 2, 3, 16])
    def test_parts_of_d_leave_out_what_is_above_the_diagonal(self, threads):
        kernel, size = Kernel("plus_times", "float64", usable_units()[0].name, 8, 3), 1500
        problem = kernel.problem(size, size, 100, triangle="d")
        settings, dtype = settings_of(kernel.plan(problem, threads)), problem.dtype
        shape = Shape(size, size, 100, (800, 8), (8, 800), 8 * size)
        choices = settings.loops(operations(problem.semiring, dtype), dtype, shape, "d")
        (stage,) = choices.stages(shape, accumulate=False)
        areas = [part.m * part.n for part in stage.parts]
        assert len(areas) >= threads
        assert areas == sorted(areas, reverse=True)
        assert size * (size + 1) / 2 <= sum(areas) <= size * size * 0.5 * (1 + 1 / choices.grid[0]) + 48 * size


class TestPlantedBugs:
    """What the tests above go through must notice a diagonal that counts twice, a lost sum and a tile in the way."""

    KERNEL = Kernel("plus_times", "float64", usable_units()[0].name, 2, 1)

    @pytest.fixture(autouse=True)
    def _none_is_kept(self, monkeypatch):
        compile_anew(monkeypatch)

    def test_the_diagonal_counts_twice(self, monkeypatch):
        right = symmetric._lanes_across

        def lanes(*arguments):
            in_sum, _, in_any = right(*arguments)
            return in_sum, in_sum, in_any

        monkeypatch.setattr(symmetric, "_lanes_across", lanes)
        with pytest.raises(VerificationError):
            computed(self.KERNEL, "a", 9, 9, 1)

    def test_the_sum_of_a_part_is_lost(self, monkeypatch):
        right = symmetric.fold_stage
        monkeypatch.setattr(
            symmetric,
            "fold_stage",
            lambda key, m, threads, rows_of, accumulate: right(key, m, threads, lambda _: (0, 1), accumulate),
        )
        computed(self.KERNEL, "a", 40, 40, 1)
        with pytest.raises(VerificationError):
            computed(self.KERNEL, "a", 40, 40, 2)

    def test_a_tile_that_the_diagonal_cuts_is_stored_to_the_next_diagonal(self, monkeypatch):
        right = argument_table.Loops._parts
        monkeypatch.setattr(
            argument_table.Loops,
            "_parts",
            lambda loops, *rest: [part._replace(diagonal=part.diagonal - 1) for part in right(loops, *rest)],
        )
        with pytest.raises(AssertionError, match="above the diagonal"):
            computed(self.KERNEL, "d", 9, 3, 1)
