"""Generated vector code, piece by piece, for every unit of this processor: edges, transposition, loops, the switch."""

import itertools

import numpy as np
import pytest
from llvmlite import ir

from backends.cpu._vector import code as v
from backends.cpu._vector.unit import UNITS, VectorUnit, features, find_unit, usable_units
from backends.cpu._vector.vectors import VectorCode
from harness import PlanError
from harness.semiring import DTYPES, HALF
from tests._support.vector_functions import Functions, pointer

NUMBERS = [dtype for dtype in DTYPES if dtype.kind not in "bc" and dtype != HALF]  # complex: vectors of parts
FILLER = 0xA5


def _compile(unit):
    """Return ``call``, with the pieces of `unit` for every dtype under names such as ``"store int8"``."""
    functions = Functions()
    for dtype in NUMBERS:
        code = VectorCode(unit, dtype)

        def copy_edge(b, count, source, target, code=code):
            code.store(b, code.load(b, pointer(b, source), code.edge(b, count)), pointer(b, target))

        def store_edge(b, count, source, target, code=code):
            code.store(b, code.load(b, pointer(b, source)), pointer(b, target), code.edge(b, count))

        def broadcast(b, source, target, code=code):
            code.store(b, code.broadcast(b, pointer(b, source)), pointer(b, target))

        def transpose(b, source, target, code=code):
            rows = [code.load(b, v.advance(b, pointer(b, source), i * code.size_bytes)) for i in range(code.lanes)]
            for i, column in enumerate(code.transpose(b, rows)):
                code.store(b, column, v.advance(b, pointer(b, target), i * code.size_bytes))

        functions.add(f"load {dtype}", 3, copy_edge)
        functions.add(f"store {dtype}", 3, store_edge)
        functions.add(f"broadcast {dtype}", 2, broadcast)
        if dtype.itemsize >= 4 or code.lanes <= 16:
            functions.add(f"transpose {dtype}", 2, transpose)
    return functions.compile()


@pytest.fixture(scope="module", params=usable_units(), ids=lambda unit: unit.name)
def unit_and_call(request):
    return request.param, _compile(request.param)


def random_bits(shape, dtype, rng):
    """Return any bits: moving them must not change one, whatever number they are."""
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
class TestEdges:
    def test_a_load_takes_the_lanes_that_exist_and_zero_bits(self, unit_and_call, dtype, rng):
        unit, call = unit_and_call
        lanes = unit.lanes(dtype)
        for count in range(1, lanes + 1):
            source, target = random_bits((lanes,), dtype, rng), random_bits((lanes,), dtype, rng)
            call(f"load {dtype}", count, source, target)
            assert target[:count].tobytes() == source[:count].tobytes()
            assert not any(target[count:].tobytes())

    def test_a_store_writes_the_lanes_that_exist_and_no_byte_more(self, unit_and_call, dtype, rng):
        unit, call = unit_and_call
        lanes = unit.lanes(dtype)
        for count in range(1, lanes + 1):
            source = random_bits((lanes,), dtype, rng)
            memory = np.full(3 * unit.size_bytes, FILLER, np.uint8)
            call(f"store {dtype}", count, source, memory[unit.size_bytes + dtype.itemsize :])
            expected = np.full_like(memory, FILLER)
            begin = unit.size_bytes + dtype.itemsize
            expected[begin : begin + count * dtype.itemsize] = source[:count].view(np.uint8)
            np.testing.assert_array_equal(memory, expected)

    def test_one_element_goes_to_all_lanes(self, unit_and_call, dtype, rng):
        unit, call = unit_and_call
        source, target = random_bits((1,), dtype, rng), random_bits((unit.lanes(dtype),), dtype, rng)
        call(f"broadcast {dtype}", source, target)
        assert target.tobytes() == source.tobytes() * unit.lanes(dtype)


def test_a_square_block_is_transposed(unit_and_call, rng):
    unit, call = unit_and_call
    for dtype in NUMBERS:
        lanes = unit.lanes(dtype)
        if dtype.itemsize >= 4 or lanes <= 16:
            source, target = random_bits((lanes, lanes), dtype, rng), random_bits((lanes, lanes), dtype, rng)
            call(f"transpose {dtype}", source, target)
            assert target.tobytes() == np.ascontiguousarray(source.T).tobytes(), dtype


def test_an_edge_that_is_one_lane_too_long_is_seen(rng):
    unit, dtype = usable_units()[0], np.dtype(np.float64)

    class TooLong(VectorCode):
        def edge(self, builder, count):
            return super().edge(builder, builder.add(count, v.size(1)))

    def store_edge(b, count, source, target):
        code = TooLong(unit, dtype)
        code.store(b, code.load(b, pointer(b, source)), pointer(b, target), code.edge(b, count))

    functions = Functions()
    functions.add("store float64", 3, store_edge)
    with pytest.raises(AssertionError):
        TestEdges().test_a_store_writes_the_lanes_that_exist_and_no_byte_more((unit, functions.compile()), dtype, rng)


def test_a_loop_runs_as_often_as_it_is_told_even_not_at_all():
    functions = Functions()

    def count(b, turns, target):
        total, product = v.loop(
            b, turns, [v.size(0), v.size(1)], lambda state: [b.add(state[0], v.size(1)), b.mul(state[1], v.size(3))]
        )
        b.store(total, pointer(b, target))
        b.store(product, v.advance(b, pointer(b, target), 8))

    functions.add("count", 2, count)
    call, found = functions.compile(), np.empty(2, np.int64)
    for turns, expected in ((-1, 0), (0, 0), (1, 1), (2, 2), (7, 7)):
        call("count", turns, found)
        assert found.tolist() == [expected, 3**expected]


def test_the_switch_calls_the_function_of_that_number():
    functions = Functions()

    def choose(b, which, target):
        def writes(number):
            return lambda b, place: b.store(v.size(number), pointer(b, place)) and None

        numbered = {n: v.own_function(b.module, f"writes_{n}", [v.SIZE], writes(n)) for n in (1, 2, 5)}
        v.switch(b, which, numbered, [target])

    functions.add("choose", 2, choose)
    call, found = functions.compile(), np.zeros(1, np.int64)
    for number in (5, 1, 2):
        call("choose", number, found)
        assert found[0] == number


def test_a_function_of_one_name_is_made_once():
    module, made = ir.Module(), []
    pair = [v.own_function(module, "same", [], made.append) for _ in range(2)]
    assert pair[0] is pair[1]
    assert len(made) == 1


class TestUnits:
    def test_every_unit_fits_its_registers_and_some_unit_fits_every_processor(self):
        registers = {"avx512": 32, "avx2": 16, "neon": 32, "portable": 16}
        for unit in UNITS:
            assert unit.mr * unit.nv + unit.nv + 1 <= registers[unit.name]
            for dtype, other in itertools.product(NUMBERS, UNITS):
                assert unit.lanes(dtype) * dtype.itemsize == unit.size_bytes
                assert other.name != unit.name or other is unit
        assert UNITS[-1].features == ()

    def test_units_are_those_whose_features_the_processor_has(self, monkeypatch):
        def names(*known):
            monkeypatch.setattr("backends.cpu._vector.unit.features", lambda: frozenset(known))
            return [unit.name for unit in usable_units()]

        assert names() == ["portable"]
        assert names("avx2") == ["portable"]
        assert names("avx2", "fma", "avx512f") == ["avx2", "portable"]
        assert names("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq") == ["avx512", "avx2", "portable"]
        assert names("neon") == ["neon", "portable"]

    def test_features_are_names_without_a_sign(self):
        assert features()
        assert not [name for name in features() if name[0] in "+-" or "," in name]

    def test_a_unit_that_is_not_here_is_refused_with_those_that_are(self):
        with pytest.raises(PlanError, match="portable"):
            find_unit("sve9000")
        assert isinstance(find_unit("portable"), VectorUnit)
