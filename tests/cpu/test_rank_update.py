"""Few terms: rows of C pass through once, whole or as a triangle, on every vector unit, against the definition."""

import itertools

import numpy as np
import pytest

from backends.cpu._simd import rank_update
from backends.cpu._simd.argument_table import Shape
from backends.cpu._simd.rank_update import UpdateLoops
from backends.cpu._vector.operators import operations
from backends.cpu._vector.unit import usable_units
from backends.cpu.simd import settings_of
from harness import Operands, VerificationError, gemm, ger, syr
from harness.operands import lower_triangle
from harness.proof.verify import verify
from harness.threads import limit
from harness.tuning import simd_parts as tuning_parts
from tests._support.planted_kernels import compile_anew
from tests._support.simd_products import BACKEND, Kernel

# around vectors, two of them, and what the loop is unrolled to
SIZES = (2, 5, 15, 16, 17, 33, 70, 131)
KERNELS = [
    *(Kernel("min_plus", "float32", unit.name, 1, 1) for unit in usable_units()),
    Kernel("plus_times", "float64", usable_units()[0].name, 1, 1),
    Kernel("max_min", "float64", usable_units()[0].name, 1, 1),  # with a careful form
    Kernel("min_plus", "int32", usable_units()[0].name, 1, 1),  # likewise
    Kernel("plus_first", "int16", usable_units()[-1].name, 1, 1),  # (x) does not commute
]
OUTSIDE = 77  # what is above the diagonal of D, before and after


@pytest.fixture
def _small_ones_too(monkeypatch):
    monkeypatch.setattr(tuning_parts, "SIMD_FEWEST_BYTES_TO_UPDATE", 0)
    monkeypatch.setattr(tuning_parts, "SIMD_SHORTEST_UPDATE", 0)


def computed(kernel, m, n, k, threads, triangle="", **options):
    """Compute a product whose operands are poisoned where they must not be read, verify it, and return D."""
    problem = kernel.problem(m, n, k, triangle=triangle, **options)
    operands = Operands.generate(problem, 5)
    operands.out[...] = OUTSIDE
    with limit(2):
        execution = BACKEND.prepare(kernel.plan(problem, threads), operands)
        execution.run()
    result = execution.result()
    verify(problem, operands, result, seed=1)
    if triangle:
        assert (result[~lower_triangle(m)] == OUTSIDE).all(), "written above the diagonal"
    return result.copy()


@pytest.mark.usefixtures("_small_ones_too")
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
class TestProducts:
    def test_whole_matrices_of_any_layout(self, kernel):
        layouts, terms = itertools.cycle(("CCC", "FCC", "CFF", "AAA", "CFC")), itertools.cycle((1, 2, 1))
        for m, n in itertools.product(SIZES, SIZES[::-1]):
            computed(kernel, m, n, next(terms), 1 + m % 3, layout=next(layouts), accumulate=(m + n) % 3 > 0)

    def test_triangles(self, kernel):
        layouts = itertools.cycle(("CCC", "CFF", "AAA", "FCC"))
        for size, k, accumulate in itertools.product(SIZES, (1, 2), (False, True)):
            computed(kernel, size, size, k, 1 + size % 3, "d", layout=next(layouts), accumulate=accumulate)

    def test_any_number_of_threads_gives_the_same_bits(self, kernel):
        for triangle in ("", "d"):
            first, *others = [computed(kernel, 70, 70, 2, threads, triangle, accumulate=True) for threads in (1, 2, 3)]
            assert all(np.array_equal(first, other) for other in others)


def test_updates_of_large_matrices_take_it():
    kernel = Kernel("plus_times", "float64", usable_units()[0].name, 8, 3)

    def loops(m, n, k, triangle=""):
        problem = kernel.problem(m, n, k, triangle=triangle)
        shape = Shape(m, n, k, (8 * k, 8), (8 * n, 8), 8 * n)
        return settings_of(kernel.plan(problem, 2)).loops(
            operations(problem.semiring, problem.dtype), problem.dtype, shape, triangle
        )

    assert all(isinstance(loops(2000, 2000, k, triangle), UpdateLoops) for k in (1, 2) for triangle in ("", "d"))
    others = [(2000, 2000, 3), (100, 100, 1), (1, 4000, 1), (4000, 1, 1), (100000, 3, 1), (30, 200000, 1)]
    assert not any(isinstance(loops(*sizes), UpdateLoops) for sizes in others)


def test_the_public_calls_update_in_place(rng):
    n = 601
    x, y, c = (rng.integers(-9, 9, shape).astype(float) for shape in (n, n, (n, n)))
    for threads in (1, 2):
        out = c.copy()
        assert ger(x, y, out, out=out, threads=threads) is out
        assert np.array_equal(out, c + np.outer(x, y))
        out = c.copy(order="F")
        ger(x, y, out, out=out, threads=threads, alpha=2)
        assert np.array_equal(out, c + 2 * np.outer(x, y))
        out = c.copy()
        syr(x, out, out=out, threads=threads)
        assert np.array_equal(out, np.where(lower_triangle(n), c + np.outer(x, x), c))
    x[3] = np.nan
    assert np.array_equal(gemm(x[:, None], y[None], semiring="max_min")[4], np.minimum(x[4], y))


@pytest.mark.usefixtures("_small_ones_too")
class TestPlantedBugs:
    KERNEL = Kernel("plus_times", "float64", usable_units()[0].name, 1, 1)

    @pytest.fixture(autouse=True)
    def _none_is_kept(self, monkeypatch):
        compile_anew(monkeypatch)

    def test_the_second_term_is_the_first_one(self, monkeypatch):
        right = rank_update.combine_row
        monkeypatch.setattr(
            rank_update,
            "combine_row",
            lambda key, code, b, n, rows, *rest, **how: right(key, code, b, n, rows[:1] * 2, *rest, **how),
        )
        with pytest.raises(VerificationError):
            computed(self.KERNEL, 9, 40, 2, 1)

    def test_parts_of_a_triangle_begin_one_too_far_right(self, monkeypatch):
        right = UpdateLoops.stages
        monkeypatch.setattr(
            UpdateLoops,
            "stages",
            lambda loops, *rest: [
                stage._replace(parts=[part._replace(diagonal=part.diagonal - 1) for part in stage.parts])
                for stage in right(loops, *rest)
            ],
        )
        with pytest.raises(AssertionError, match="above the diagonal"):
            computed(self.KERNEL, 40, 40, 1, 2, "d")
