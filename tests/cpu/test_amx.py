"""Products over tiles (AMX): every address by emulated tiles, on any machine; the instructions where they are.

Emulation proves all but what an instruction does; that it is what the emulation does, a processor with AMX must show.
"""

import collections
import dataclasses
import itertools
import re
import struct
from types import SimpleNamespace

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from backends.cpu._compile.pieces import build_run_piece, build_run_pieces
from backends.cpu._mixed import amx_claims, amx_code, amx_kernel, amx_loops, amx_pieces, amx_product, methods
from backends.cpu._mixed import product as mixed_product
from backends.cpu._mixed.amx_code import TileCode
from backends.cpu._mixed.amx_loops import compile_amx_product
from backends.cpu._mixed.amx_product import ARGUMENTS, TileLoops, TileProduct, prepare_tiles
from backends.cpu._mixed.methods import usable_methods
from backends.cpu._mixed.product import PackedProduct
from backends.cpu._vector import code as v
from backends.cpu._vector.scalar import WORD, ScalarCode
from harness import Operands, PlanError, VerificationError, machine, registry
from harness.operands import poison
from harness.plan import Blocking
from harness.proof import fences
from harness.proof.verify import verify
from harness.run import machine_info
from harness.tuning import amx as tuning_amx
from harness.tuning import simd_parts as tuning_parts
from tests._support import emulated_tiles
from tests._support.emulated_tiles import FEATURES, WAYS, emulated, permit
from tests._support.mixed_products import (
    HERE,
    MarkedScratch,
    assert_contract,
    assert_right,
    check_columns,
    check_strides,
    check_threads,
    compute,
)
from tests._support.vector_functions import Functions, compile_anew, pointer

BACKEND = registry.find("cpu-mixed")
INT8 = next(way for way in WAYS if way.narrow.name == "int8")
KEY = methods.MixedKey(INT8.method, "int32", "avx512", 32, 2)
BFLOAT16 = next(way for way in WAYS if way.narrow.name == "bfloat16")  # float16 differs in one instruction
REAL = {name: [m.dot for m, _ in usable_methods(name) if m.is_tiled] for name in ("bfloat16", "float16", "int8")}


@pytest.fixture(scope="module")
def tiles():
    with emulated() as patch:
        yield patch


@pytest.fixture(params=(INT8, BFLOAT16), ids=str)
def way(request, tiles):
    return request.param


def in_place(monkeypatch, is_in_place):
    monkeypatch.setattr(tuning_amx, "amx_reads_in_place", lambda *_: is_in_place)


def share(monkeypatch, is_shared):
    """Let parts share pieces, of any size, and cut them as fine as can be; or let each have its own."""
    monkeypatch.setattr(tuning_amx, "AMX_LEAST_SHARED", 0 if is_shared else 1 << 40)
    monkeypatch.setattr(tuning_amx, "AMX_LEAST_COLUMNS", 32 if is_shared else 1 << 40)


class TestEmulatedProducts:
    def test_keep_the_contract(self, way):
        assert_contract(way)

    def test_nothing_beside_the_operands_is_touched(self, way):
        assert_contract(way, is_short=True, is_fenced=True)
        for layout, side in itertools.product(("CCC", "FCC", "CFF", "AAA"), fences.SIDES):
            problem = way.problem(33, 65, 73, layout=layout)
            operands = fences.fenced_operands(Operands.generate(problem, 1), side)
            with fences.watched():
                result = compute(way, operands, problem, kc=64)
            assert_right(problem, operands, result)

    def test_sizes_around_tiles_blocks_and_words(self, way):
        rows, columns = (1, 15, 16, 32, 33, 97), (1, 16, 17, 50, 64, 130)
        steps = itertools.cycle((1, 7, 31, 32, 33, 64, 65, 73, 145))
        for number, (m, n) in enumerate(itertools.product(rows, columns)):
            problem = way.problem(m, n, next(steps), accumulate=number % 2 == 1)
            operands = Operands.generate(problem, number)
            assert_right(problem, operands, compute(way, operands, problem, kc=(32, 36, 64)[number % 3]))

    @pytest.mark.parametrize("is_in_place", (True, False))
    def test_strips_of_a_where_they_lie_or_packed(self, way, is_in_place, monkeypatch):
        in_place(monkeypatch, is_in_place)
        for number, (m, k) in enumerate(itertools.product((16, 30, 64, 80, 101), (64, 128, 160, 192))):
            problem = way.problem(m, 70, k, accumulate=number % 2 == 0)
            operands = Operands.generate(problem, number)
            assert_right(problem, operands, compute(way, operands, problem, kc=64))

    def test_few_columns_of_c_with_rows_of_a_that_begin_anywhere(self, way):
        for number, (m, n, k) in enumerate(((100, 16, 97), (33, 40, 200), (64, 64, 129), (70, 5, 64), (32, 1, 65))):
            problem = way.problem(m, n, k, accumulate=number % 2 == 1)
            drawn = Operands.generate(problem, number)
            a = np.empty(m * k + 3, way.narrow)[3:].reshape(m, k)
            a[...] = drawn.a
            operands = dataclasses.replace(drawn, a=a)
            assert_right(problem, operands, compute(way, operands, problem, kc=k // 32 * 32, threads=1 + number % 3))

    def test_any_strides_and_nothing_beside_the_output(self, way):
        check_strides(way, (65, 50, 41), every=7)

    @pytest.mark.parametrize("is_shared", (True, False))
    def test_threads_have_parts_that_share_what_is_packed_or_do_not(self, way, is_shared, monkeypatch):
        share(monkeypatch, is_shared)
        check_threads(way, way.problem(150, 170, 77, accumulate=True))

    @pytest.mark.parametrize("is_shared", (True, False))
    def test_operands_by_columns_have_the_sums_of_operands_by_rows(self, way, is_shared, monkeypatch):
        share(monkeypatch, is_shared)
        for number, sizes in enumerate(((1, 1, 1), (64, 64, 128), (33, 47, 77), (80, 130, 33), (97, 15, 161))):
            for threads, kc in ((1, 64), (3, 36)):
                check_columns(way, way.problem(*sizes, accumulate=number % 2 == 1), threads=threads, kc=kc)

    def test_few_rows_leave_a_large_b_by_columns_where_it_lies(self, tiles, monkeypatch):
        monkeypatch.setattr(tuning_amx, "AMX_LARGE_B", 70 * 65)
        widths, real = [], mixed_product.PackedProduct
        monkeypatch.setattr(
            mixed_product, "PackedProduct", lambda *how: widths.append((how[4].m, how[4].n)) or real(*how)
        )
        for m, k, order, computed in ((32, 65, "F", (70, 32)), (33, 65, "F", (33, 70)), (32, 64, "F", (32, 70)),
                                      (32, 65, "C", (32, 70))):  # fmt: skip
            for is_added in (False, True):
                problem = INT8.problem(m, 70, k, accumulate=is_added)
                drawn = Operands.generate(problem, m)
                operands = dataclasses.replace(drawn, b=np.array(drawn.b, order=order))
                assert_right(problem, operands, compute(INT8, operands, problem))
                assert widths.pop() == computed
        problem = BFLOAT16.problem(32, 70, 65)
        drawn = Operands.generate(problem, 1)
        compute(BFLOAT16, dataclasses.replace(drawn, b=np.asfortranarray(drawn.b)), problem)
        assert widths == [(32, 70)]

    @pytest.mark.parametrize(("is_in_place", "is_shared"), ((False, True), (True, True), (False, False)))
    def test_packed_operands_fit_into_what_was_asked_for(self, way, is_in_place, is_shared, monkeypatch):
        marked = MarkedScratch()
        monkeypatch.setattr(amx_product, "scratch", marked)
        in_place(monkeypatch, is_in_place)
        share(monkeypatch, is_shared)
        for number, (m, n, k) in enumerate(itertools.product((1, 64, 65, 130), (1, 33, 127), (1, 64, 99))):
            problem = way.problem(m, n, k)
            operands = Operands.generate(problem, 1)
            kc, order = (36, 64)[number % 2], "CF"[number // 3 % 2]
            operands.a, operands.b = (np.array(x, order=order) for x in (operands.a, operands.b))
            assert_right(problem, operands, compute(way, operands, problem, threads=1 + number % 5, kc=kc))
            assert marked.is_whole(), (m, n, k)

    def test_a_register_tile_of_another_shape(self, tiles):
        problem = INT8.problem(70, 101, 133)
        operands = Operands.generate(problem, 1)
        assert_right(problem, operands, compute(INT8, operands, problem, mr=16, nr=48, mc=32, nc=48, kc=64))

    def test_extremes_of_int8_and_sums_that_wrap(self, tiles):
        for x, y, k in ((-128, -128, 131072 + 5), (-128, 127, 70), (127, 127, 3)):
            a, b = np.full((3, k), x, np.int8), np.full((k, 17), y, np.int8)
            problem = INT8.problem(3, 17, k)
            result = compute(INT8, Operands(a, b, None, np.empty((3, 17), np.int32)), problem, kc=1 << 20)
            assert (result == (x * y * k + (1 << 31)) % (1 << 32) - (1 << 31)).all()


def prepared(problem, threads, accumulate=False, kc=64):
    """Return operands, and what computes their product over tiles in blocks of two tiles."""
    operands = Operands.generate(problem, threads)
    blocking = Blocking(64, 64, kc, 32, 32)
    grid = tuning_parts.thread_grid(problem.m, problem.n, threads, 32, 32)
    loops = TileLoops(KEY, blocking, packs_a=True, grid=grid, lost=0)
    return operands, prepare_tiles(loops, operands.a, operands.b, operands.out, accumulate)


def product_of(run):
    """Return the product that ``run()`` computes."""
    return next(x for x in run.refers_to if isinstance(x, TileProduct))


def run_on(run, threads):
    """Compute what ``run()`` does on another number of threads."""
    product = product_of(run)
    product.claims[:], product.shared[-1] = 0, threads
    _, run_parts = compile_amx_product(KEY)
    build_run_pieces()(run_parts, product.shared.ctypes.data, threads)


def counting(real, place):
    """Return what makes emitters like those of `real`; their functions count calls in the integer at an address."""

    def make(*of):
        def emit(b, *values):
            b.atomic_rmw("add", b.inttoptr(v.size(place), v.SIZE.as_pointer()), v.size(1), "monotonic")
            real(*of)(b, *values)

        return emit

    return make


class TestPiecesThatPartsShare:
    @pytest.fixture
    def packed(self, tiles, monkeypatch):
        """How many strips of A, and panels of B, have been packed."""
        counts = np.zeros(2, np.int64)
        for place, name in enumerate(("emit_pack_a", "emit_pack_b")):
            real = getattr(amx_pieces, name)
            monkeypatch.setattr(amx_pieces, name, counting(real, counts.ctypes.data + 8 * place))
        compile_amx_product.cache_clear()
        yield counts
        compile_amx_product.cache_clear()

    # One test of several numbers of threads, here and below: the kernel that counts is compiled for each test.
    def test_each_is_packed_once(self, packed, monkeypatch, subtests):
        for threads, sharers in ((1, (1, 1)), (2, (2, 1)), (4, (2, 2)), (6, (2, 3))):
            problem = INT8.problem(64 * sharers[1], 64 * sharers[0], 150)
            once = [-(-problem.m // 32) * 3, -(-problem.n // 32) * 3]
            for is_shared, times in ((True, (1, 1)), (False, sharers)):
                with subtests.test(threads=threads, is_shared=is_shared):
                    share(monkeypatch, is_shared)
                    packed[:] = 0
                    operands, run = prepared(problem, threads)
                    run()
                    assert_right(problem, operands, operands.out)
                    assert packed.tolist() == [count * each for count, each in zip(once, times, strict=True)]

    def test_parts_that_share_nothing_have_memory_of_their_own(self, tiles, monkeypatch):
        share(monkeypatch, is_shared=False)
        _, run = prepared(INT8.problem(128, 160, 200), threads=4)
        product = product_of(run)
        places = product.table[:, [ARGUMENTS.index(name) for name in ("packed_a", "packed_b", "tile_of_c")]]
        assert product.claims.size == len(product.table) == 4
        assert np.diff(np.sort(places.ravel())).min() >= 2 * 32 * 64  # two pieces of 32 rows of a tile, or a tile of C

    def test_parts_may_come_one_after_the_other_in_any_order(self, tiles, monkeypatch, rng):
        share(monkeypatch, is_shared=True)
        problem = INT8.problem(128, 160, 200)
        operands, run = prepared(problem, threads=4)
        product, (run_part, _) = product_of(run), compile_amx_product(KEY)
        assert len(product.table) > 4
        for _ in range(20):
            poison(operands.out)
            product.claims[:] = 0
            for part in rng.permutation(len(product.table)):
                build_run_piece()(run_part, product.table.ctypes.data, part)
            assert_right(problem, operands, operands.out)

    def test_every_part_is_computed_once_by_however_many_threads(self, packed, monkeypatch, subtests):
        share(monkeypatch, is_shared=False)
        problem = INT8.problem(128, 160, 200)
        for threads in (1, 2, 3, 7):
            with subtests.test(threads=threads):
                packed[:] = 0
                operands, run = prepared(problem, threads=6)
                poison(operands.out)
                run_on(run, threads)
                assert_right(problem, operands, operands.out)
                once = packed.tolist()
                run_on(run, 6)
                assert packed.tolist() == [2 * count for count in once]

    def test_the_next_product_packs_anew(self, tiles, monkeypatch):
        share(monkeypatch, is_shared=True)
        problem = INT8.problem(128, 160, 200)
        operands, run = prepared(problem, threads=4)
        run()
        operands.a[...] = operands.a[::-1].copy()
        operands.b[...] = operands.b[:, ::-1].copy()
        run()
        assert_right(problem, operands, operands.out)

    def test_of_many_that_ask_one_is_to_do_it(self):
        words, won = np.zeros(50, np.int64), np.zeros((16, 50), np.int64)

        def ask(b, table, asker):
            code = ScalarCode(b)
            w = code.words(table, ("words", "won", "count"))

            def one(i):
                word, answer = code.at(w.words, (i, WORD)), code.at(w.won, (b.add(b.mul(asker, w.count), i), WORD))
                is_mine = amx_claims.claim(b, word)
                with b.if_then(is_mine):
                    amx_claims.publish(b, word)
                amx_claims.await_done(b, word)
                done = b.select(amx_claims.is_done(b, word), v.size(2), v.size(0))
                b.store(b.add(done, b.zext(is_mine, v.SIZE)), code.pointer(answer))

            code.for_each(w.count, (), one)

        (address,) = compile_anew("ask", None, lambda module: [v.own_function(module, "ask", [v.SIZE] * 2, ask)])
        table = np.array((words.ctypes.data, won.ctypes.data, words.size))
        build_run_pieces()(address, table.ctypes.data, len(won))
        assert (won >= 2).all()
        assert ((won - 2).sum(axis=0) == 1).all()


@pytest.mark.usefixtures("tiles")
class TestSubnormals:
    def product(self, place, shape=(40, 50, 70), order="C", **options):
        """Return a product in which one subnormal number of A or B meets the largest number there is."""
        problem = BFLOAT16.problem(*shape, **options)
        operands = Operands.generate(problem, 2)
        operands.a, operands.b = (np.array(x, order=order) for x in (operands.a, operands.b))
        operands.a[...], operands.b[...] = 0, 0
        least, largest = np.array([0x0001, 0x7F7F], np.uint16).view(BFLOAT16.narrow)
        i, j, p = place
        for first, second in ((least, largest), (largest, least)):
            operands.a[i, p], operands.b[p, j] = first, second
            yield problem, operands

    @pytest.mark.parametrize("is_shared", (True, False))
    def test_one_of_them_anywhere_makes_the_product_a_careful_one(self, is_shared, monkeypatch):
        share(monkeypatch, is_shared)
        for is_in_place, shape in itertools.product((True, False), ((40, 50, 70), (64, 50, 128), (33, 130, 64))):
            in_place(monkeypatch, is_in_place)
            m, n, k = shape
            places = (0, 0, 0), (m - 1, n - 1, k - 1), (m // 2, n // 2, k // 2)
            for place, order in itertools.product(places, "CF"):
                for problem, operands in self.product(place, shape, order):
                    exact = operands.a.astype(np.float64) @ operands.b.astype(np.float64)
                    assert np.count_nonzero(exact) == 1
                    for threads in (1, 2, 4):
                        np.testing.assert_array_equal(compute(BFLOAT16, operands, problem, threads), exact)

    def test_a_product_that_is_added_looks_before_it_begins(self):
        for problem, operands in itertools.chain(*(self.product((3, 49, 5), order=x, accumulate=True) for x in "CF")):
            operands.c[...] = 0
            operands.out[...] = 0
            exact = operands.a.astype(np.float64) @ operands.b.astype(np.float64)
            np.testing.assert_array_equal(compute(BFLOAT16, operands, problem), exact)

    def test_rows_that_are_not_there_are_not_looked_at(self, monkeypatch):
        """A last strip is packed where another product left its rows; the look must not see those."""
        seen = []

        def record(self, *addresses, run=PackedProduct.run):
            run(self, *addresses)
            seen.append(int(self.lost[0]))

        monkeypatch.setattr(PackedProduct, "run", record)
        in_place(monkeypatch, is_in_place=False)
        compute(BFLOAT16, next(self.product((30, 4, 5)))[1], BFLOAT16.problem(40, 50, 70))
        few = BFLOAT16.problem(3, 50, 70)
        compute(BFLOAT16, Operands.generate(few, 1), few)
        assert seen == [1, 0]


class TestPlantedBugs:
    """What the tests above compare with must not accept these: one kernel with all of them, each met alone."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _planted(cls, tiles):
        compile_amx_product.cache_clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(amx_pieces, "emit_clear", nothing)
            patch.setattr(amx_pieces, "emit_look", lambda _: nothing)
            patch.setattr(amx_loops, "emit_merge", lambda key, vectors: nothing)
            yield
        compile_amx_product.cache_clear()

    @staticmethod
    def product(m, n, k):
        problem = BFLOAT16.problem(m, n, k)
        operands = Operands.generate(problem, 1)
        poison(operands.out)
        return problem, operands, compute(BFLOAT16, operands, problem, kc=64)

    def test_without_tiles_at_edges_the_kernel_is_right(self):
        assert_right(*self.product(32, 32, 64))

    def test_a_look_at_an_operand_by_columns_that_sees_nothing(self):
        problem, operands = next(TestSubnormals().product((3, 4, 5), (32, 32, 64), "F"))
        with pytest.raises(VerificationError):
            verify(problem, operands, compute(BFLOAT16, operands, problem), seed=1)

    def test_rows_beyond_k_that_are_not_cleared(self, monkeypatch):
        monkeypatch.setattr(amx_product, "scratch", _full_of_nan)
        with pytest.raises(AssertionError):
            assert_right(*self.product(32, 32, 40))

    def test_a_look_that_sees_nothing(self):
        problem, operands = next(TestSubnormals().product((3, 4, 5), (32, 32, 64)))
        with pytest.raises(VerificationError):
            verify(problem, operands, compute(BFLOAT16, operands, problem), seed=1)

    def test_a_tile_at_an_edge_that_is_not_merged(self):
        with pytest.raises(AssertionError):
            assert_right(*self.product(40, 50, 64))


def nothing(*_):
    """Emit nothing."""


def _full_of_nan(size_bytes):
    memory = np.full(size_bytes + 64, 0xFF, np.uint8)
    return SimpleNamespace(address=memory.ctypes.data + -memory.ctypes.data % 64, memory=memory)


# ---------------------------------------------------------------------------------------------------- one tile


def dot_by_definition(name, total, x, y):
    """Return the tile `total` extended by tiles `x` and `y`, in NumPy, without rounding where they are integers."""
    narrow = {"tdpbssd": np.dtype(np.int8), "tdpbf16ps": BFLOAT16.narrow, "tdpfp16ps": np.dtype(np.float16)}[name]
    wide = np.int64 if name == "tdpbssd" else np.float64
    parts = 4 // narrow.itemsize
    of_x = x.view(narrow).astype(wide).reshape(16, 16, parts)
    of_y = y.view(narrow).astype(wide).reshape(16, 16, parts)
    return total + np.einsum("iwt,wjt->ij", of_x, of_y)


def compile_dot(code, name):
    """Return ``call("dot", total, x, y)`` over three tiles in memory, each 16 rows 64 bytes apart."""
    functions = Functions()

    def dot(b, total, x, y):
        tiles = code(b)
        tiles.configure()
        for number, place in enumerate((total, x, y)):
            tiles.load(number, pointer(b, place), v.size(64))
        tiles.dot(name, 0, 1, 2)
        tiles.store(0, pointer(b, total), v.size(64))
        tiles.zero(3)
        tiles.release()

    functions.add("dot", 3, dot)
    return functions.compile()


def check_dot(code, name, rng):
    call = compile_dot(code, name)
    dtype = np.int32 if name == "tdpbssd" else np.float32
    for seed in range(5):
        if name == "tdpbssd":
            x, y = (rng.integers(-128, 128, (16, 64), dtype=np.int8) for _ in range(2))
        else:
            narrow = BFLOAT16.narrow if name == "tdpbf16ps" else np.float16
            x, y = (rng.standard_normal((16, 32)).astype(narrow) for _ in range(2))
        total = rng.integers(-1000, 1000, (16, 16)).astype(dtype)
        expected = dot_by_definition(name, total.astype(np.float64 if dtype == np.float32 else np.int64), x, y)
        call("dot", total, x, y)
        if dtype == np.int32:
            np.testing.assert_array_equal(total, expected, err_msg=str(seed))
        else:
            np.testing.assert_allclose(total, expected, rtol=1e-6, atol=1e-3)


class TestOneTile:
    @pytest.mark.parametrize("name", ("tdpbssd", "tdpbf16ps", "tdpfp16ps"))
    def test_emulated_tiles_do_what_the_instructions_are_defined_to(self, name, rng):
        check_dot(emulated_tiles.EmulatedTiles, name, rng)

    @pytest.mark.parametrize("name", ("tdpbssd", "tdpbf16ps", "tdpfp16ps"))
    def test_the_instructions_do_what_they_are_defined_to(self, name, rng):
        if name not in itertools.chain(*REAL.values()):
            pytest.skip(f"this processor has no {name}, or the system refuses tiles: {machine.tiles_refused()}")
        check_dot(TileCode, name, rng)

    def test_the_configuration_is_eight_tiles_of_sixteen_rows_of_64_bytes(self):
        palette, start, _, *rest = struct.unpack("<BB14s16H16B", amx_code.CONFIGURATION)
        assert (palette, start) == (1, 0)
        assert rest == [64] * 8 + [0] * 8 + [16] * 8 + [0] * 8

    def test_the_code_is_the_instructions_in_that_order(self):
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(v.VOID, [v.POINTER, v.SIZE]), "tiles")
        builder = ir.IRBuilder(function.append_basic_block())
        code = TileCode(builder)
        code.configure()
        code.zero(0)
        code.load(4, *function.args)
        code.load(6, *function.args)
        code.load_passing(7, *function.args)
        for name in ("tdpbf16ps", "tdpbssd", "tdpfp16ps"):
            code.dot(name, 0, 4, 6)
        code.store(0, *function.args)
        code.release()
        builder.ret_void()
        assert instructions(str(module)) == [
            ("ldtilecfg", ""),
            ("tilezero", "%tmm0"),
            ("tileloadd", "(%rdi,%rsi), %tmm4"),
            ("tileloadd", "(%rdi,%rsi), %tmm6"),
            ("tileloaddt1", "(%rdi,%rsi), %tmm7"),
            *[(name, "%tmm6, %tmm4, %tmm0") for name in ("tdpbf16ps", "tdpbssd", "tdpfp16ps")],
            ("tilestored", "%tmm0, (%rdi,%rsi)"),
            ("tilerelease", ""),
        ]

    def test_a_kernel_of_four_tiles_loads_four_and_multiplies_four_in_a_step(self, monkeypatch):
        monkeypatch.setattr(amx_code, "TileCode", TileCode)
        module = ir.Module()
        amx_kernel._kernel(module, KEY, 2, 2).linkage = "external"
        counts = collections.Counter(name for name, _ in instructions(str(module)))
        steps = counts["tdpbssd"] // 4  # LLVM may unroll the loop
        assert steps >= 2
        loads = {"tileloadd": 4 * steps + 4, "tileloaddt1": 2 * steps}  # A: in one of two ways
        assert counts == {"tilezero": 4, "tdpbssd": 4 * steps, **loads, "tilestored": 4}


def instructions(text):
    """Return the tile instructions that LLVM makes of a module for a processor that has them all."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    wanted = ",".join(f"+{name}" for name in FEATURES if name.startswith("amx"))
    made = target.create_target_machine(cpu="sapphirerapids", features=wanted).emit_assembly(llvm.parse_assembly(text))
    found = re.findall(r"^\s+((?:tile|ldtile|tdp)\w+)[ \t]*(.*)$", made, re.MULTILINE)
    return [(name, "" if name == "ldtilecfg" else operands) for name, operands in found]


# ------------------------------------------------------------------------------------------------- who may use them


class TestSelection:
    @pytest.fixture(autouse=True)
    def _forget(self):
        yield
        usable_methods.cache_clear()

    def names(self, operands):
        return list(dict.fromkeys(method.name for method, _ in usable_methods(operands)))

    @pytest.mark.parametrize(
        ("lacking", "operands", "first"),
        (
            ((), "bfloat16", "amx_bf16"),
            ((), "float16", "amx_fp16"),
            ((), "int8", "amx_int8"),
            (("amx-fp16",), "float16", "convert"),
            (("amx-bf16", "avx512bf16"), "bfloat16", "convert"),
            (("amx-int8",), "int8", "vnni"),
            (("amx-tile",), "int8", "vnni"),
            (("avx512bw",), "int8", "vnni_int8"),
            (("avx512bw", "avxvnniint8"), "int8", "vnni"),
        ),
    )
    def test_the_feature_list_decides(self, lacking, operands, first, monkeypatch):
        everything = FEATURES | {"avx2", "fma", "avx512bf16", "avx512vnni", "avxvnni", "avxvnniint8"}
        permit(monkeypatch, features=everything - set(lacking))
        assert self.names(operands)[0] == first

    @pytest.mark.parametrize("operands", ("bfloat16", "float16", "int8"))
    def test_a_system_that_refuses_leaves_the_next_method(self, operands, monkeypatch):
        permit(monkeypatch, "arch_prctl: Operation not permitted", FEATURES | {"avx512vnni"})
        assert not [name for name in self.names(operands) if name.startswith("amx")]
        assert self.names(operands)[-1] == "convert"

    def test_a_processor_without_tiles_is_never_asked(self, monkeypatch):
        permit(monkeypatch, features=FEATURES - {"amx-tile"})
        monkeypatch.setattr(methods, "tiles_refused", lambda: pytest.fail("asked for what is not there"))
        assert self.names("int8")

    @pytest.mark.parametrize(
        ("refusal", "features", "says"),
        [
            (
                *("arch_prctl: Operation not permitted", FEATURES | {"avx512vnni"}),
                r"(?s)does not let this process.*Operation not permitted.*\n.*vnni",
            ),
            ("", FEATURES - {"amx-tile"}, "this processor has no such method"),
        ],
    )
    def test_who_insists_is_told_that_the_system_refuses_or_what_there_is(self, monkeypatch, refusal, features, says):
        permit(monkeypatch, refusal, features)
        problem = INT8.problem(4, 4, 4)
        plan = BACKEND.plan(problem, HERE).override({"method": "amx_int8"})
        with pytest.raises(PlanError, match=says):
            BACKEND.prepare(plan, Operands.generate(problem, 1))

    def test_a_plan_has_tiles_for_its_register_block_and_whole_ones_in_a_block_of_k(self, tiles):
        permit(tiles)
        for way, n in itertools.product(WAYS, (1, 100, 1000, 2048, 9999)):
            plan = BACKEND.plan(way.problem(n, n, n), HERE)
            assert plan.options["method"] == way.method.name
            assert (plan.blocking.mr, plan.blocking.nr) == (32, 32)
            assert plan.blocking.kc * way.narrow.itemsize % 64 == 0

    def test_a_block_of_k_is_shorter_with_threads(self):
        whole = dataclasses.replace(HERE, l2=2 << 20)
        for way, n in ((BFLOAT16, 1800), (BFLOAT16, 4096), (INT8, 4096)):
            problem, size = way.problem(n, n, n), way.narrow.itemsize
            one, several = (tuning_amx.amx_blocking(problem, dataclasses.replace(whole, threads=t)).kc for t in (1, 16))
            assert several * size <= 2048 < one * size <= 4096

    def test_a_of_few_columns_of_c_is_read_in_place_but_for_what_is_left_of_k(self):
        whole = dataclasses.replace(HERE, l2=2 << 20)
        for way in (BFLOAT16, INT8):
            step = 64 // way.narrow.itemsize
            kc = {k: tuning_amx.amx_blocking(way.problem(5000, 40, k), whole).kc for k in (1, step, 40 * step + 1)}
            assert kc == {1: step, step: step, 40 * step + 1: 40 * step}
        assert tuning_amx.amx_reads_in_place(16, 1000, 5000, 64)
        assert not tuning_amx.amx_reads_in_place(16, 1000, 5000, 65)
        assert not tuning_amx.amx_reads_in_place(0, 4096, 5000, 65)
        assert tuning_amx.amx_reads_in_place(0, 4224, 5000, 65)

    def test_operands_are_shared_if_they_are_large_and_columns_cut_if_they_are_many(self):
        assert [tuning_amx.amx_shares(size, 4) for size in (1, 1 << 21, 1 << 22, 1 << 28, 1 << 29)] == [0, 0, 1, 1, 0]
        assert [tuning_amx.amx_finer(n, 4) for n in (1, 256, 511, 512, 1024, 100000)] == [1, 1, 1, 2, 4, 4]

    @pytest.mark.parametrize("wrong", ((33, 32), (32, 40), (64, 32), (32, 48), (128, 16)))
    def test_a_register_block_that_no_tiles_make_is_refused(self, wrong, tiles):
        permit(tiles)
        mr, nr = wrong
        problem = INT8.problem(4, 4, 4)
        plan = BACKEND.plan(problem, HERE).override({"method": "amx_int8", "mr": mr, "mc": mr, "nr": nr, "nc": nr})
        with pytest.raises(PlanError, match="no such register tile"):
            BACKEND.prepare(plan, Operands.generate(problem, 1))


class TestPermission:
    def test_a_processor_without_tiles_gets_a_reason(self):
        if "amx_tile" in machine.detect().simd:
            pytest.skip("this processor has tiles: products over them are what tells")
        assert machine.tiles_refused()

    def test_another_system_is_not_asked(self, monkeypatch):
        monkeypatch.setattr(machine.platform, "system", lambda: "Darwin")
        monkeypatch.setattr(machine.ctypes, "CDLL", lambda *_, **__: pytest.fail("asked"))
        assert "Darwin" in machine.tiles_refused.__wrapped__()

    def test_a_yes_that_grants_nothing_is_a_no(self, monkeypatch):
        monkeypatch.setattr(machine.platform, "system", lambda: "Linux")
        monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
        for granted, says in ((0, "does not do it"), (1 << 17, "does not do it"), (1 << 18 | 7, None)):

            def syscall(number, request, argument, granted=granted):
                assert number.value == 158
                if request.value == 0x1022:
                    argument._obj.value = granted
                return 0

            monkeypatch.setattr(machine.ctypes, "CDLL", lambda *_, call=syscall, **__: SimpleNamespace(syscall=call))
            answer = machine.tiles_refused.__wrapped__()
            assert answer is None if says is None else says in answer

    def test_info_says_so_where_there_are_tiles(self):
        facts = machine_info.collect()
        for said in ("", "permitted", "arch_prctl: Operation not permitted"):
            assert dict(machine_info.rows({**facts, "tiles": said})).get("AMX tiles", "") == said
