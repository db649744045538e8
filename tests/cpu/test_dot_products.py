"""Columns left over after whole vectors, computed as dot products: when, and that nobody can tell from the result."""

import itertools

import numpy as np
import pytest

from backends.cpu._simd import dot_products
from backends.cpu._simd.argument_table import Shape
from backends.cpu._simd.loops import columns_left
from backends.cpu._vector import code as v
from backends.cpu._vector.operators import operations
from backends.cpu.simd import settings_of
from harness import VerificationError, gemm, gemm_argk
from tests._support.pairs import pairs
from tests._support.planted_kernels import compile_anew
from tests._support.simd_products import ADDING, BACKEND, HERE, KERNELS, LAYOUTS, PACKS, Kernel, check

K = 167  # long enough for a dot product to be cheaper than a vector of columns, unless that has two
PACKED = {"pack_b": "always"}
# bools have 32 columns to a word; portable-float64 stays: its columns left over are not dot products
# Every other one, of each unit some: compiling is what costs.
TRIED = [kernel for kernel in KERNELS if kernel.dtype != "bool"][::2]


class TestTheRule:
    def test_whole_vectors_leave_nothing(self):
        assert {columns_left(n, 1000, 16) for n in range(0, 161, 16)} == {0}

    @pytest.mark.parametrize("lanes", (2, 4, 8, 16, 32, 64))
    def test_what_is_left_is_all_or_nothing_and_more_the_longer_k_is(self, lanes):
        most = []
        for k in (1, 8, 64, 257, 1024, 1 << 15):
            taken = [columns_left(5 * lanes + beyond, k, lanes) for beyond in range(lanes)]
            assert all(left in (0, beyond) for beyond, left in enumerate(taken))
            most.append(max(taken))
            assert taken == [min(x, most[-1] if x <= most[-1] else 0) for x in range(lanes)]
        assert most == sorted(most)
        assert most[0] == 0
        assert most[-1] == (lanes - 1) // 3  # a vector of k takes three steps


@pytest.mark.parametrize("kernel", TRIED, ids=str)
class TestProducts:
    @pytest.mark.deep(but=3)
    def test_of_any_height_by_blocks_and_threads(self, kernel):
        hows = itertools.cycle([*PACKS, {"pack_b": "always", "kc": 1000}, {"pack_b": "always", "kc": K - 1}])
        widths = [1 + kernel.lanes * vectors for vectors in (0, 1, kernel.nv, 2 * kernel.nv + 1)]
        assert {columns_left(n, K, kernel.lanes) for n in widths} == {1 if kernel.lanes > 2 else 0}
        for m, n, threads in pairs((2, 9, 4 * kernel.mr + 3), widths, (1, 2)):
            check(kernel, (m, n, K), threads=threads, accumulate=kernel in ADDING and n % 3 == 0, **next(hows))

    @pytest.mark.deep(but=3)
    def test_of_any_strides(self, kernel):
        sizes = (2 * kernel.mr + 1, kernel.nr + 1, K)
        for number, layout in enumerate(LAYOUTS):
            others = itertools.cycle(LAYOUTS)
            layouts = layout, next(itertools.islice(others, 3 * number % len(LAYOUTS), None)), "rows"
            check(kernel, sizes, layouts, accumulate=kernel in ADDING and number % 2 == 0, **PACKED)
            check(kernel, sizes, ("rows", layout, layout), **PACKED)


@pytest.mark.parametrize("where", ("a", "b", "both"))
@pytest.mark.parametrize("kernel", [x for x in KERNELS if x.dtype.startswith("float")], ids=str)
def test_nan_and_infinities(kernel, where):
    def scatter(operands):
        rng = np.random.default_rng(7)
        for name, x in (("a", operands.a), ("b", operands.b)):
            if where in (name, "both"):
                x[rng.random(x.shape) < 0.02] = np.nan
            x[rng.random(x.shape) < 0.02] = np.inf
            x[rng.random(x.shape) < 0.02] = -np.inf

    check(kernel, (kernel.mr + 1, kernel.lanes + 1, K), values=scatter, **PACKED)


def test_more_columns_than_one(rng):
    for dtype, (m, n, k) in itertools.product((np.float32, np.float64, np.int32), ((40, 260, 900), (300, 3, 700))):
        a, b = (rng.integers(-50, 50, shape).astype(dtype) for shape in ((m, k), (k, n)))
        for x, y in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
            assert np.array_equal(gemm(x, y, threads=1), a @ b)
            assert np.array_equal(gemm(x, y, semiring="min_plus"), np.min(a[:, :, None] + b, axis=1))


def test_products_of_such_columns_alone_stream_a_once():
    kernel = Kernel("plus_times", "int16", KERNELS[0].unit, 2, 1)
    most = (kernel.lanes - 1) // 3  # columns that are dot products
    problem = kernel.problem(40, 2, 5000)
    settings = settings_of(BACKEND.plan(problem, HERE))
    wanted = operations(problem.semiring, problem.dtype)
    for n, k_of_block in ((most, 5000), (most + 1, settings.blocking.kc)):
        loops = settings.loops(wanted, problem.dtype, Shape(40, n, 5000, (10000, 2), (2 * n, 2), 2 * n))
        assert loops.blocking.kc == k_of_block


def test_numbers_of_blocks_are_those_of_every_column(rng):
    a, b = rng.random((20, 300)).astype(np.float32), rng.random((300, 49)).astype(np.float32)
    terms = a[:, :, None] + b
    product, argk = gemm_argk(a, b, semiring="min_plus", threads=1)
    assert np.array_equal(product, terms.min(axis=1))
    assert np.array_equal(argk, terms.argmin(axis=1))


class TestPlantedBugs:
    """What the tests above go through must notice columns that are missed, and ones that are taken wrongly."""

    KERNEL = Kernel("plus_times", "float32", KERNELS[0].unit, 1, 1)

    @pytest.fixture(autouse=True)
    def _none_is_kept(self, monkeypatch):
        compile_anew(monkeypatch)

    def run(self):
        check(self.KERNEL, (9, 2 * self.KERNEL.lanes + 1, K), **PACKED)

    def test_the_last_row_is_missed(self, monkeypatch):
        right = dot_products.add_totals
        monkeypatch.setattr(
            dot_products,
            "add_totals",
            lambda b, code, ops, sums, targets, *rest: (
                right(b, code, ops, sums[:-1], targets[:-1], *rest) if sums[1:] else None
            ),
        )
        with pytest.raises(VerificationError):
            self.run()

    def test_it_is_one_term_short(self, monkeypatch):
        right = dot_products.emit_dots

        def emit(operations, code, shape, b, k, *rest):
            right(operations, code, shape, b, b.sub(k, v.size(1)), *rest)

        monkeypatch.setattr(dot_products, "emit_dots", emit)
        with pytest.raises(VerificationError):
            self.run()
