"""cpu-simd by forced plans: every vector unit of this processor, register tiles, blocks, strides, special values.

Compiling a kernel takes a second, so each is compiled once, with a small tile where the tile does not matter, and put
through everything.
"""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from backends.cpu._vector import code as vector_code
from backends.cpu._vector import vectors
from backends.cpu._vector.unit import usable_units
from harness import Operands, PlanError, Problem, Semiring, VerificationError, gemm
from harness.proof.verify import verify
from harness.semiring import MONOIDS
from tests._support.planted_kernels import compile_anew
from tests._support.simd_products import (
    ADDING,
    BACKEND,
    HERE,
    KERNELS,
    LAYOUTS,
    PACKS,
    PLUS_MIN,
    Kernel,
    check,
    lay_out,
)
from tests._support.units import needs_masks

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)


def around(*blocks):
    return sorted({size for block in blocks for size in (block - 1, block, block + 1) if size > 0})


@every_kernel
class TestSizes:
    @pytest.mark.deep(but=5)
    def test_on_both_sides_of_every_block(self, kernel):
        mc, nc = 2 * kernel.mr, 2 * kernel.nr
        rows, columns = around(1, kernel.mr, mc, 2 * mc), around(1, kernel.lanes, kernel.nr, nc, nc + kernel.lanes)
        steps, hows = itertools.cycle(around(1, 4, 9, 18)), itertools.cycle(PACKS)
        for m, n in itertools.product(rows, columns):
            check(kernel, (m, n, next(steps)), accumulate=kernel in ADDING and (m + n) % 3 == 0, **next(hows))

    def test_long_k_with_tiles_that_prefetch(self, kernel):
        for m, n, k in ((2 * kernel.mr, 2 * kernel.nr, 167), (5 * kernel.mr, kernel.nr + 1, 4 * 40)):
            for pack in PACKS:
                check(kernel, (m, n, k), kc=1000, **pack)
                check(kernel, (m, n, k), kc=120, mc=kernel.mr, **pack)

    @pytest.mark.deep(but=5)
    def test_a_row_a_column_and_a_point(self, kernel):
        for sizes in itertools.product((1, 2 * kernel.lanes + 1), repeat=3):
            for layout in ("rows", "columns", "neither"):
                check(kernel, sizes, (layout,) * 3)


@pytest.mark.deep(but=5)
@every_kernel
def test_any_strides(kernel):
    sizes = 2 * kernel.mr + 1, min(2 * kernel.nr + kernel.lanes + 1, 140), min(2 * kernel.lanes + 3, 70)
    inputs, outputs = [*LAYOUTS, "one row", "one column"], itertools.cycle(LAYOUTS)
    for number, (a, b) in enumerate(itertools.product(inputs, inputs)):
        out = next(outputs)
        if kernel.nr < 64 or number % 3 == 0:
            check(
                kernel,
                sizes,
                (a, b, out),
                kc=23 + kernel.lanes,
                accumulate=kernel in ADDING and number % 5 == 0,
                **PACKS[number % 4],
            )


def test_rows_of_a_that_share_cache_sets_are_packed_and_right():
    kernel = KERNELS[0]
    for m, n, k in ((40, 30, 33), (200, 5, 140)):
        check(kernel, (m, n, k), ("rows 16 KiB apart", "rows", "rows"), mc=16 * kernel.mr, kc=100)


@pytest.mark.parametrize("layout", ("rows", "columns", "columns upside down", "neither"))
def test_operands_change_places_in_a_transposed_product_alone(layout):
    def plant(operands):
        operands.a[...], operands.b[...] = 1, 3

    kernel = next(kernel for kernel in KERNELS if kernel.semiring == "plus_first")
    assert set(np.unique(check(kernel, (9, 10, 5), ("rows", "columns", layout), values=plant))) == {5.0}


ON_FLOATS = [kernel for kernel in KERNELS if kernel.dtype.startswith("float")]
BY_RANGE = [kernel for kernel in KERNELS if kernel.semiring.endswith("_plus") and kernel.dtype[0] in "iu"]
SIGNED = [kernel for kernel in BY_RANGE if kernel.dtype[0] == "i"] or [
    Kernel("min_plus", "int16", KERNELS[0].unit, 2, 2)
]


class TestSpecialFloats:
    @pytest.mark.parametrize("where", ("a", "b", "both"))
    @pytest.mark.parametrize("kernel", ON_FLOATS, ids=str)
    def test_nan_and_infinities(self, kernel, where):
        def scatter(operands):
            rng = np.random.default_rng(4)
            for name, x in (("a", operands.a), ("b", operands.b)):
                if where in (name, "both"):
                    x[rng.random(x.shape) < 0.3] = np.nan
                x[rng.random(x.shape) < 0.1] = np.inf
                x[rng.random(x.shape) < 0.1] = -np.inf

        for layout, accumulate in itertools.product(("rows", "columns"), {False, kernel in ADDING}):
            check(kernel, (11, 35, 7), ("rows", "rows", layout), values=scatter, accumulate=accumulate)
            check(kernel, (11, 35, 2), (layout, layout, "rows"), values=scatter, accumulate=accumulate)

    @pytest.mark.parametrize("layout", [*LAYOUTS, "one row", "one column"])
    def test_one_nan_anywhere_in_a_is_found(self, layout):
        for place in ((0, 0), (4, 6), (2, 3), (4, 0), (0, 6)):

            def plant(operands, place=place):
                operands.a[place] = np.nan

            def plant_in_b(operands, place=place):
                operands.b[place] = np.nan

            check(PLUS_MIN, (5, 9, 7), (layout, "rows", "rows"), values=plant)
            check(PLUS_MIN, (9, 7, 5), ("rows", layout, "columns"), values=plant_in_b)  # computed as B^T (x) A^T


class TestIntegerLimits:
    @pytest.mark.parametrize("kernel", BY_RANGE, ids=str)
    def test_from_ordinary_values_to_the_extremes(self, kernel):
        low, high = int(np.iinfo(kernel.dtype).min), int(np.iinfo(kernel.dtype).max)
        values = {low, low + 1, low // 2, low // 2 - 1, 0, 1, high // 2, high // 2 + 1, high - 1, high}
        legal = sorted(value for value in values if low <= value)
        for x, y in itertools.product(legal, repeat=2):

            def plant(operands, x=x, y=y):
                operands.a[...] = np.clip(operands.a, low // 4, high // 4)
                operands.b[...] = np.clip(operands.b, low // 4, high // 4)
                operands.a[1, 2], operands.b[2, 3] = x, y

            check(kernel, (5, 7, 4), values=plant)

    @pytest.mark.parametrize("kernel", SIGNED, ids=str)
    @pytest.mark.parametrize("name", ("a", "b"))
    def test_the_zero_absorbs_though_no_sum_leaves_the_range(self, kernel, name):
        zero = int(kernel.problem(1, 1, 1).semiring.zero(np.dtype(kernel.dtype)))

        def plant(operands):
            for x in (operands.a, operands.b):
                x[...] = -1 if zero > 0 else 1
            getattr(operands, name)[...] = zero

        assert set(check(kernel, (5, 7, 4), values=plant).flat) == {zero}

    @pytest.mark.parametrize("layout", ("rows", "columns", "neither", "rows upside down", "one row"))
    def test_the_look_is_over_all_of_both_operands(self, layout):
        kernel = BY_RANGE[0]
        zero = kernel.problem(1, 1, 1).semiring.zero(np.dtype(kernel.dtype))
        for name, place in itertools.product("ab", ((0, 0), (-1, -1), (0, -1), (-1, 0))):

            def plant(operands, name=name, place=place):
                getattr(operands, name)[place] = zero

            check(kernel, (6, 6, 6), (layout, layout, "rows"), values=plant)


@pytest.mark.parametrize("kernel", (PLUS_MIN, BY_RANGE[0]), ids=str)
def test_values_that_change_after_it_is_prepared_are_looked_at_at_every_run(kernel):
    problem = kernel.problem(5, 9, 7)
    is_float = problem.dtype.kind == "f"
    planted = np.nan if is_float else problem.semiring.zero(problem.dtype)
    operands = Operands.generate(problem, 2)
    run = BACKEND.prepare(kernel.plan(problem), operands).run
    places = [(operands.a, (4, 6))] if is_float else [(operands.a, (4, 6)), (operands.b, (6, 8))]
    for x, place in places:
        for value in (x[place], planted, x[place]):
            x[place] = value
            operands.out[...] = 77
            run()
            verify(problem, operands, operands.out, seed=1)


class TestOptions:
    def test_a_tile_that_no_unit_has_is_refused(self):
        problem = Problem(40, 40, 40)
        lanes = usable_units()[0].lanes(problem.dtype)
        operands = Operands.generate(problem, 1)
        plan = BACKEND.plan(problem, HERE)
        for wrong in ({"mr": 17, "mc": 17}, {"nr": lanes + 1, "nc": lanes + 1}, {"nr": 7 * lanes, "nc": 7 * lanes}):
            with pytest.raises(PlanError, match="no such register tile"):
                BACKEND.prepare(plan.override(wrong), operands)
        for option in ({"pack_a": "never"}, {"pack_b": "sometimes"}, {"unit": "mmx"}):
            with pytest.raises(
                PlanError, match=next(iter(option.values())) if "unit" in option else next(iter(option))
            ):
                BACKEND.prepare(plan.override(option), operands)

    def test_an_accumulating_product_is_refused_when_it_is_prepared_too(self):
        problem = Problem(4, 4, 4, accumulate=True)
        plan = BACKEND.plan(problem, HERE).override({"unit": "mmx"})
        with pytest.raises(PlanError, match="mmx"):
            BACKEND.prepare(plan, Operands.generate(problem, 1))

    def test_what_has_no_vector_code_is_declined_with_a_reason(self):
        own = Semiring.from_functions("own", lambda c, t: c + t, lambda x, y: x * y, zero=0)
        own_min = Semiring(MONOIDS["min"], own.multiply, "own_min")
        for semiring, dtype in ((own, "float64"), (own_min, "int32")):
            problem = Problem(3, 3, 3, semiring, np.dtype(dtype))
            assert semiring.name in BACKEND.declines(problem)
        assert BACKEND.declines(Problem(3, 3, 3)) is None


@pytest.mark.parametrize("layout", ("rows", "columns", "neither"))
def test_out_may_be_c(layout):
    kernel = next(kernel for kernel in ADDING[1:] if kernel.dtype.startswith("float"))
    problem = kernel.problem(17, 33, 9, accumulate=True, beta=0.5, alpha=1.5)
    drawn = Operands.generate(problem, 5)
    drawn.c[3] = np.nan  # dropped, as the rule says, before anything is added to it
    out = lay_out(drawn.c, layout)
    BACKEND.prepare(kernel.plan(problem), Operands(drawn.a, drawn.b, out, out)).run()
    verify(problem, drawn, out, seed=1)


@pytest.mark.parametrize("order", "CF")
def test_out_may_overlap_any_operand(order):
    a, b, c = (np.asarray(x, order=order) for x in np.random.default_rng(3).standard_normal((3, 17, 17)))
    for name in "abc":
        given = {"a": a.copy("K"), "b": b.copy("K"), "c": c.copy("K")}
        gemm(given["a"], given["b"], given["c"], out=given[name][::-1], backend="cpu-simd")
        np.testing.assert_allclose(given[name][::-1], a @ b + c, rtol=1e-12, atol=1e-13)


SIZES = st.integers(1, 60)
INPUTS = st.sampled_from([*LAYOUTS, "one row", "one column"])


@hypothesis.settings(max_examples=150)
@hypothesis.given(
    kernel=st.sampled_from(KERNELS[:3]),
    sizes=st.tuples(SIZES, SIZES, SIZES),
    layouts=st.tuples(INPUTS, INPUTS, st.sampled_from(list(LAYOUTS))),
    blocks=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 40)),
    pack=st.sampled_from(PACKS),
    accumulate=st.booleans(),
    threads=st.integers(1, 3),
)
def test_any_product(kernel, sizes, layouts, blocks, pack, accumulate, threads):
    mc, nc, kc = blocks[0] * kernel.mr, blocks[1] * kernel.nr, blocks[2]
    check(kernel, sizes, layouts, accumulate=accumulate, threads=threads, mc=mc, nc=nc, kc=kc, **pack)


class TestPlantedBugs:
    """Kernels with a bug must not pass what the tests above go through."""

    @pytest.fixture(autouse=True)
    def _none_is_kept(self, monkeypatch):
        compile_anew(monkeypatch)

    @staticmethod
    def small(dtype="float64"):
        return Kernel("min_plus", dtype, usable_units()[0].name, 1, 1)

    @needs_masks
    def test_an_edge_that_is_one_lane_too_long(self, monkeypatch):
        right = vectors.VectorCode.edge
        monkeypatch.setattr(
            vectors.VectorCode, "edge", lambda code, b, n: right(code, b, b.add(n, vector_code.size(1)))
        )
        with pytest.raises(AssertionError, match="beside the output"):
            check(self.small(), (2, self.small().lanes - 1, 3))

    def test_a_k_loop_that_is_one_turn_short(self, monkeypatch):
        right = vector_code.loop
        monkeypatch.setattr(
            vector_code, "loop", lambda b, turns, *rest: right(b, b.sub(turns, vector_code.size(1)), *rest)
        )
        with pytest.raises(VerificationError):
            check(self.small("float32"), (2, self.small("float32").lanes, 9))
