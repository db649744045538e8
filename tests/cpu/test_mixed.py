"""cpu-mixed by every method that this processor has, and what a mixed product is to `gemm` and Problem."""

import dataclasses
import itertools
import tracemalloc

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

from backends.cpu._mixed import amx_product, methods, packing, packing_columns, subnormals
from backends.cpu._mixed.methods import METHODS
from backends.cpu._simd import argument_table
from backends.cpu._vector import code as v
from backends.cpu._vector.unit import features
from harness import BackendUnavailable, Operands, PlanError, Problem, VerificationError, gemm, registry
from harness.proof.verify import verify
from tests._support.mixed_products import (
    HERE,
    NARROW,
    WAYS,
    Forced,
    MarkedScratch,
    assert_contract,
    assert_right,
    check_columns,
    check_strides,
    check_threads,
    compute,
)
from tests._support.planted_kernels import compile_anew
from tests._support.processes import python
from tests._support.simd_products import LAYOUTS, lay_out

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BACKEND = registry.find("cpu-mixed")
every_way = pytest.mark.parametrize("way", WAYS, ids=str)
OF_FLOATS = [way for way in WAYS if way.wide.kind == "f"]
OF_INTEGERS = [way for way in WAYS if way.wide.kind == "i"]
BF16 = [way for way in WAYS if way.method.name == "avx512_bf16"]
VNNI = [way for way in WAYS if way.method.name == "vnni"]
WORDS_OF_INTEGERS = [way for way in OF_INTEGERS if not way.method.is_tiled]


@every_way
class TestEveryMethod:
    @pytest.mark.deep(but=5)
    def test_keeps_the_contract(self, way):
        assert_contract(way)

    @pytest.mark.deep(but=7)
    def test_sizes_around_tiles_blocks_and_words(self, way):
        rows = (1, way.mr - 1, way.mr + 1, 2 * way.mr, 4 * way.mr + 1)
        columns = (1, way.lanes - 1, way.lanes + 1, way.nr, 2 * way.nr + 1, 4 * way.nr + way.lanes)
        steps = itertools.cycle((1, 2, 3, 4, 5, 35, 36, 37, 38, 39, 73, 143))
        for number, (m, n, k) in enumerate(itertools.product(rows, columns, range(3))):
            problem = way.problem(m, n, next(steps) if k else 36 * number % 145 + 1, accumulate=number % 2 == 1)
            operands = Operands.generate(problem, number)
            assert_right(problem, operands, compute(way, operands, problem))

    def test_blocks_of_k_that_fill_no_word(self, way):
        for kc, k in itertools.product((1, 2, 3, 5, 7), (1, 6, 7, 22)):
            problem = way.problem(way.mr + 1, way.nr + 1, k, accumulate=kc % 2 == 0)
            operands = Operands.generate(problem, k)
            assert_right(problem, operands, compute(way, operands, problem, kc=kc))

    @pytest.mark.deep(but=7)
    def test_any_strides_and_nothing_beside_the_output(self, way):
        check_strides(way, (2 * way.mr + 1, way.nr + way.lanes + 1, 41), every=3)

    @pytest.mark.deep(but=12)
    @pytest.mark.parametrize("sizes", ((5, 300, 200), (300, 30, 200), (70, 90, 65)))
    def test_operands_by_columns_are_packed_where_they_lie_and_have_the_same_sums(self, way, sizes):
        for is_added, threads in itertools.product((False, True), (1, 2)):
            check_columns(way, way.problem(*sizes, accumulate=is_added), threads=threads)

    def test_threads_have_parts_of_their_own(self, way):
        check_threads(way, way.problem(9 * way.mr + 1, 3 * way.nr + 5, 77, accumulate=True))

    def test_long_k(self, way):
        problem = way.problem(way.mr + 2, way.nr + 3, 3001)
        operands = Operands.generate(problem, 5)
        assert_right(problem, operands, compute(way, operands, problem, kc=4000))
        assert_right(problem, operands, compute(way, operands, problem, kc=1001))

    def test_packed_operands_fit_into_what_was_asked_for(self, way, monkeypatch):
        marked = MarkedScratch()
        for module in (argument_table, amx_product):
            monkeypatch.setattr(module, "scratch", marked)
        columns = 1, way.lanes + 1, 4 * way.nr - 1
        for m, n, k in itertools.product((1, 5 * way.mr), columns, (1, 36, 45, 99)):
            problem = way.problem(m, n, k)
            drawn = Operands.generate(problem, 1)
            for order in "CF":
                a, b = (np.array(x, order=order) for x in (drawn.a, drawn.b))
                compute(way, dataclasses.replace(drawn, a=a, b=b), problem, threads=1 + k % 3)
            assert marked.is_whole(), (m, n, k)

    def test_a_run_allocates_nothing(self, way):
        problem = way.problem(64, 64, 64, alpha=3, beta=2, accumulate=True, layout="AFA")
        operands = Operands.generate(problem, 1)
        execution = Forced(way).prepare(Forced(way).plan(problem, HERE), operands)
        execution.run()
        tracemalloc.start()
        execution.run()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 64 * 64  # a byte for each element


@hypothesis.settings(max_examples=150)
@hypothesis.given(
    way=st.sampled_from(WAYS),
    sizes=st.tuples(*[st.integers(1, 70)] * 3),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3),
    blocks=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 40)),
    accumulate=st.booleans(),
    threads=st.integers(1, 3),
)
def test_any_product(way, sizes, layouts, blocks, accumulate, threads):
    problem = way.problem(*sizes, accumulate=accumulate)
    drawn = Operands.generate(problem, sum(sizes))
    a, b, out = (lay_out(x, layout) for x, layout in zip((drawn.a, drawn.b, drawn.out), layouts, strict=True))
    mc, nc, kc = blocks[0] * way.mr, blocks[1] * way.nr, blocks[2]
    result = compute(way, Operands(a, b, drawn.c, out), problem, threads=threads, mc=mc, nc=nc, kc=kc)
    assert_right(problem, drawn, result)


class TestSpecialFloats:
    @pytest.mark.parametrize("way", OF_FLOATS, ids=str)
    def test_every_value_of_sixteen_bits(self, way):
        """Of a row of all values times one: each comes back as itself, NaN as NaN."""
        values = np.arange(1 << 16, dtype=np.uint16).view(way.narrow)
        one = np.ones((1, 1), way.narrow)
        for a, b in ((values[:, None], one), (one, values[None, :])):
            problem = way.problem(a.shape[0], b.shape[1], 1)
            out = np.full((problem.m, problem.n), np.nan, np.float32)
            result = compute(way, Operands(a, b, None, out), problem, mc=99 * way.mr, nc=99 * way.nr)
            expected = values.astype(np.float32).reshape(result.shape)
            np.testing.assert_array_equal(result[np.isfinite(expected)], expected[np.isfinite(expected)])
            np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("way", OF_FLOATS, ids=str)
    def test_subnormal_operands_count(self, way):
        least = np.array([1], np.uint16).view(way.narrow)[0]
        for sizes, places in itertools.product(((3, 5, 7), (20, 60, 40)), ("a", "b", "ab")):
            problem = way.problem(*sizes)
            operands = Operands.generate(problem, 2)
            operands.a[...], operands.b[...] = 1024, 1024
            for name in places:
                x = getattr(operands, name)
                x[...] = 0
                x[-1, -1] = least
                x[0, 0] = -least
            result = compute(way, operands, problem)
            exact = operands.a.astype(np.float64) @ operands.b.astype(np.float64)
            if places != "ab":
                assert np.count_nonzero(exact)
                np.testing.assert_array_equal(result, exact)

    @pytest.mark.parametrize("way", OF_FLOATS, ids=str)
    def test_nan_and_infinities_stand_where_they_should(self, way):
        values = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -2, 60000], way.narrow)
        least = np.array([1], np.uint16).view(way.narrow)
        for seed, pool in enumerate((values, values[1:], np.concatenate([values[1:], least]))):
            problem = way.problem(19, 53, 11, accumulate=seed == 1)
            operands, rng = Operands.generate(problem, seed), np.random.default_rng(seed)
            for x in (operands.a, operands.b):
                chosen = rng.random(x.shape) < 0.2
                x[chosen] = rng.choice(pool, x.shape)[chosen]
            verify(problem, operands, compute(way, operands, problem), seed=1)

    @pytest.mark.skipif(not BF16, reason="this processor has no avx512_bf16")
    def test_without_the_look_at_operands_subnormal_numbers_would_be_lost(self, monkeypatch):
        problem = BF16[0].problem(3, 5, 7)
        operands = Operands.generate(problem, 2)
        operands.a[1, 2], operands.b[2, 3] = np.array([1], np.uint16).view(BFLOAT16)[0], 3e38
        operands.a[1, :2] = operands.a[1, 3:] = 0
        verify(problem, operands, compute(BF16[0], operands, problem), seed=1)
        monkeypatch.setattr(subnormals, "build_has_subnormal", lambda _: lambda *_: False)
        with pytest.raises(VerificationError):
            verify(problem, operands, compute(BF16[0], operands, problem), seed=1)

    def test_one_subnormal_anywhere_is_found(self):
        look = subnormals.build_has_subnormal("bfloat16")
        for rows, columns in ((1, 1), (3, 5), (4, 67)):
            for i, j in itertools.product(range(rows), range(columns)):
                for bits, is_one in ((1, True), (0x807F, True), (0x80, False), (0x8000, False), (0x7F80, False)):
                    x = np.ones((rows, columns + 1), BFLOAT16)
                    x.view(np.uint16)[i, j] = bits
                    x.view(np.uint16)[:, columns] = 1  # beside the matrix
                    assert look(x.ctypes.data, rows, columns, x.strides[0]) is is_one

    def test_alpha_that_enlarges_what_underflows_is_within_the_bound(self):
        for way in OF_FLOATS:
            problem = way.problem(5, 6, 4, alpha=1e30)
            operands = Operands.generate(problem, 1)
            if way.narrow.name == "bfloat16":
                operands.a[...], operands.b[...] = operands.a.astype(float) * 1e-22, operands.b.astype(float) * 1e-18
            backend = Forced(way)
            plan = backend.plan(problem, HERE)
            execution = backend.prepare(plan, operands)
            execution.run()
            extra = backend.extra_error(plan, operands)
            assert 0 < extra < 1e-5
            verify(problem, operands, execution.result(), seed=1, extra_error=extra)


class TestIntegers:
    @pytest.mark.deep(but=3)
    @pytest.mark.parametrize("way", OF_INTEGERS, ids=str)
    def test_extremes_and_sums_that_wrap(self, way):
        extremes = (0, 1, 127, 128, 255) if way.narrow.kind == "u" else (-128, -127, -1, 0, 127)
        for x, y in itertools.product(extremes, repeat=2):
            for k in (3, 4, 131072 + 5):  # 128 x 128 x 131072 = 2^31
                problem = way.problem(3, way.lanes + 1, k)
                operands = Operands.generate(problem, 1)
                operands.a[...], operands.b[...] = x, y
                result = compute(way, operands, problem, kc=1 << 20 if k % 2 else 50000)
                expected = (x * y * k + (1 << 31)) % (1 << 32) - (1 << 31)
                assert (result == expected).all()

    @pytest.mark.parametrize("way", OF_INTEGERS, ids=str)
    def test_all_values_in_all_parts_of_a_word(self, way):
        values = np.arange(256, dtype=np.uint8).view(way.narrow)
        for part in range(4):
            problem = way.problem(256, 256, 4)
            operands = Operands.generate(problem, 1)
            operands.a[...], operands.b[...] = 0, 0
            operands.a[:, part], operands.b[part] = values, values
            np.testing.assert_array_equal(compute(way, operands, problem), np.outer(*[values.astype(np.int32)] * 2))


# Processors that have less than this one: none of its vector instructions, those of 2013, those of 2017.
AVX2 = "sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma".split()
LESSER = {"portable": [], "avx2": AVX2, "avx512": [*AVX2, "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"]}


class TestProcesses:
    def run(self, *which, **environment):
        return python("-m", "tests._support.mixed_products", *which, **environment).stdout.split()

    def test_nothing_outside_the_operands_is_read(self):
        count, *ways = self.run()
        assert int(count) == 48 * len(WAYS)
        assert ways == [str(way) for way in WAYS]

    @pytest.mark.deep
    @pytest.mark.parametrize("widest", [name for name, needed in LESSER.items() if features().issuperset(needed)])
    def test_a_processor_without_the_instructions_converts(self, widest):
        """By its widest unit; what it computes by the others is compiled for the lesser processors."""
        listed = ",".join(f"+{name}" for name in LESSER[widest])
        count, *ways = self.run("best", NUMBA_CPU_FEATURES=listed, NUMBA_CPU_NAME="generic")
        assert ways == [f"{narrow.name}-convert-{widest}" for narrow in NARROW.values()]
        assert int(count) == 48 * len(ways)


class TestPlannedMethods:
    def test_the_best_one_is_taken_and_others_can_be_forced(self):
        for way in WAYS:
            best = next(other for other in WAYS if other.narrow == way.narrow)
            options = BACKEND.plan(way.problem(9, 9, 9), HERE).options
            assert options == {"method": best.method.name, "unit": best.unit.name}

    def test_every_method_of_the_table_has_a_dtype_that_can_be_mixed_and_one_that_is_everywhere(self):
        for narrow in NARROW.values():
            assert [m for m in METHODS if m.operands == narrow.name][-1][:4] == ("convert", narrow.name, "", ())

    @pytest.mark.parametrize(
        "wrong",
        ({"method": "amx"}, {"unit": "mmx"}, {"mr": 17, "mc": 17}, {"nr": 7, "nc": 7}, {"nr": 7000, "nc": 7000}),
    )
    def test_what_is_not_there_is_refused(self, wrong):
        problem = WAYS[0].problem(4, 4, 4)
        plan = BACKEND.plan(problem, HERE).override(wrong)
        with pytest.raises(PlanError, match=r"no such (method|register tile)"):
            BACKEND.prepare(plan, Operands.generate(problem, 1))

    def test_ordinary_products_and_an_infinite_alpha_are_declined(self):
        assert "mixed products only" in BACKEND.refuses(Problem(3, 3, 3))
        assert "alpha" in BACKEND.refuses(OF_FLOATS[0].problem(3, 3, 3, alpha=np.inf))

    def test_backends_that_do_not_say_that_they_take_mixed_operands_get_none(self):
        problem = WAYS[0].problem(3, 3, 3)
        for entry in registry.discover():
            if entry.backend and "mixed" not in entry.backend.takes:
                assert "one dtype for all" in entry.backend.refuses(problem)
        able = [backend.name for backend in registry.able(problem) if not backend.is_optional]
        able = [name for name in able if not name.startswith("dist-")]
        assert able == ["cpu-mixed"]  # which ranks have compute their parts
        wide = Problem(3, 3, 3, operand_dtype=np.dtype(np.float32))
        able = [x.name for x in registry.able(wide) if x.name.startswith("cpu-") and not x.is_optional]
        assert able == ["cpu-mixed", "cpu-packed", "cpu-naive"]
        with pytest.raises(BackendUnavailable, match="one dtype for all"):
            gemm(np.ones((2, 2), np.int8), np.ones((2, 2), np.int8), dtype="int32", backend="cpu-simd")


class TestPlantedBugs:
    """What the tests above compare with must not accept these. Tiles of their own, so that none is cached."""

    @pytest.fixture(autouse=True)
    def _fresh(self, monkeypatch):
        compile_anew(monkeypatch)

    @staticmethod
    def wrong(way, k=7, order="C", beyond=0):
        """Prove that a product is found wrong; B has rows of `beyond` that do not belong to it."""
        problem = way.problem(3, way.lanes + 1, k)
        drawn = Operands.generate(problem, 1)
        b = np.full((k + 99, problem.n), beyond, way.narrow, order=order)[:k]
        b[...] = drawn.b
        operands = dataclasses.replace(drawn, a=np.array(drawn.a, order=order), b=b)
        one = {"mr": 1, "mc": 2, "nr": way.lanes, "nc": way.lanes}
        with pytest.raises(AssertionError):
            assert_right(problem, operands, compute(way, operands, problem, **one))

    @pytest.mark.skipif(not VNNI, reason="this processor has no vnni")
    def test_a_shift_that_is_not_taken_off(self, monkeypatch):
        monkeypatch.setattr(packing, "SHIFT_BITS", 8)
        self.wrong(VNNI[0])

    def test_rows_beyond_k_in_the_last_word(self, monkeypatch):
        way = WORDS_OF_INTEGERS[-1]
        monkeypatch.setitem(methods._WIDEN, way.method.widen, lambda b, x: b.not_(b.sext(x, methods._integers(16, x))))
        self.wrong(way)

    def test_parts_of_a_word_that_change_places(self, monkeypatch):
        right = packing.join
        monkeypatch.setattr(packing, "join", lambda b, parts: right(b, parts[::-1]))
        self.wrong(WORDS_OF_INTEGERS[0])

    def test_parts_of_a_word_that_change_places_in_an_a_by_columns(self, monkeypatch):
        right = packing_columns.join
        monkeypatch.setattr(packing_columns, "join", lambda b, parts: right(b, parts[::-1]))
        self.wrong(WORDS_OF_INTEGERS[0], order="F")

    @pytest.mark.skipif(not BF16, reason="this processor has no avx512_bf16")
    def test_a_square_that_takes_what_lies_beyond_k(self, monkeypatch):
        right = packing_columns._Squares._gather
        monkeypatch.setattr(
            packing_columns._Squares,
            "_gather",
            lambda self, count, left, *where: right(self, count, v.size(self._length), *where),
        )
        self.wrong(BF16[0], order="F", beyond=np.nan)

    @pytest.mark.skipif(not VNNI, reason="this processor has no vnni")
    def test_a_shift_that_is_not_taken_off_a_b_by_columns(self, monkeypatch):
        monkeypatch.setattr(packing_columns, "SHIFT_BITS", 8)
        self.wrong(VNNI[0], order="F")
