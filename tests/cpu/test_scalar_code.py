"""Scalar code around vectors: blocks, conditions and tables of words, and calls of what Numba compiled."""

import numpy as np
import pytest

from backends.cpu._compile.pieces import build_run_piece, build_run_pieces
from backends.cpu._ir.integers import translated
from backends.cpu._threads.atomics import add
from backends.cpu._vector import code as v
from backends.cpu._vector.scalar import WORD, ScalarCode, call_compiled
from tests._support.vector_functions import Functions, compile_anew

GIVEN = "size step kind value".split()


def _blocks(b, table, blocks):
    """Write begin and size of each block of the size that the table says."""
    code = ScalarCode(b)
    w, place = code.words(table, GIVEN), code.pointer(blocks)

    def one(first, count):
        row = v.advance(b, place, b.mul(b.sdiv(first, w.step), v.size(2 * WORD)))
        b.store(first, row)
        b.store(count, v.advance(b, row, WORD))

    code.for_blocks(w.size, w.step, one)


def _value(b, table, found):
    """Write the value of the table, of which twice is taken where its kind is 7."""
    code = ScalarCode(b)
    w = code.words(table, GIVEN)
    value = code.where(b.not_(code.is_not(w.kind, 7)), lambda: b.mul(w.value, v.size(2)), w.value)
    b.store(value, code.pointer(found))


@pytest.fixture(scope="module")
def call():
    functions = Functions()
    functions.add("blocks", 2, _blocks)
    functions.add("value", 2, _value)
    return functions.compile()


@pytest.mark.parametrize(("size", "step"), [(1, 1), (1, 8), (7, 8), (8, 8), (9, 8), (30, 7), (0, 4)])
def test_blocks_are_those_of_a_range(call, size, step):
    found = np.full((40, 2), -1)
    call("blocks", np.array((size, step, 0, 0)), found)
    expected = [(first, min(step, size - first)) for first in range(0, size, step)]
    assert found[: len(expected)].tolist() == [list(pair) for pair in expected]
    assert (found[len(expected) :] == -1).all()


@pytest.mark.parametrize(("kind", "expected"), [(7, 10), (0, 5), (-7, 5)])
def test_what_depends_on_a_condition_is_computed_where_it_holds(call, kind, expected):
    found = np.zeros(1, np.int64)
    call("value", np.array((0, 0, kind, 5)), found)
    assert found[0] == expected


def test_a_function_of_numbas_convention_is_called_by_its_address():
    functions = Functions()

    def add_up(b, address, total):
        for number in (3, 4):
            call_compiled(b, address, [total, v.size(number)])

    functions.add("add_up", 2, add_up)
    total = np.zeros(1, np.int64)
    functions.compile()("add_up", translated(_add_to).address, total)
    assert total[0] == 7


def _add_to(place: int, number: int) -> None:
    add(place, number)


@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 7, 100])
def test_each_piece_is_computed_once(pieces):
    def count(b, table, piece):
        code = ScalarCode(b)
        place = b.inttoptr(code.at(table, (piece, WORD)), v.SIZE.as_pointer())
        b.atomic_rmw("add", place, b.add(piece, v.size(1)), "monotonic")

    (address,) = compile_anew("count", None, lambda module: [v.own_function(module, "count", [v.SIZE] * 2, count)])
    counts = np.zeros(pieces + 1, np.int64)
    build_run_pieces()(address, counts.ctypes.data, pieces)
    assert counts.tolist() == [*range(1, pieces + 1), 0]
    build_run_piece()(address, counts.ctypes.data, pieces)
    assert counts.tolist() == [*range(1, pieces + 2)]
