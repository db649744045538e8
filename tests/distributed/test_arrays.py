"""Copies between memory orders: every element arrives, and nothing beside them is touched."""

import numpy as np
import pytest

from harness.distributed import arrays

ORDERS = ("C", "F")
SHAPES = [(1, 1), (1, 300), (300, 1), (2, 3), (64, 64), (65, 63), (129, 1024), (1024, 130), (3, 70000), (70000, 3)]


def placed(shape, order, dtype="float64"):
    """Return an array that is part of a larger one, which is full of -1, and the larger one."""
    rows, columns = shape
    around = np.full((rows + 2, columns + 3), -1, dtype, order=order)
    return around[1:-1, 2:-1], around


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target_order", ORDERS)
@pytest.mark.parametrize("source_order", ORDERS)
def test_every_element_arrives_and_no_other_changes(shape, target_order, source_order):
    source, _ = placed(shape, source_order)
    source[...] = np.arange(source.size).reshape(shape)
    target, around = placed(shape, target_order)
    arrays.copy(target, source)
    assert np.array_equal(target, np.arange(source.size).reshape(shape))
    target[...] = -1
    assert (around == -1).all()


@pytest.mark.parametrize("turn", [lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: x[::2, ::3]])
def test_arrays_that_run_backwards_or_have_gaps_are_copied(turn):
    source = np.arange(300 * 200.0).reshape(300, 200)
    target = np.zeros((200, 300)).T
    arrays.copy(turn(target), turn(source))
    assert np.array_equal(turn(target), turn(source))


def test_no_elements_and_other_dtypes_are_copied():
    for shape in ((0, 5), (5, 0), (0, 0)):
        arrays.copy(np.empty(shape, order="F"), np.empty(shape))
    target = np.zeros((200, 100), "float64", order="F")
    arrays.copy(target, np.full((200, 100), 3, "int8"))
    assert (target == 3).all()


def test_only_turned_arrays_are_copied_in_steps():
    a, b = np.zeros((100, 90)), np.zeros((100, 90), order="F")
    assert arrays._are_turned(a, b)
    assert arrays._are_turned(b, a)
    assert not arrays._are_turned(a, a.copy())
    assert not arrays._are_turned(b, b.copy(order="F"))
    assert not arrays._are_turned(a[:1], b[:1]), "one row has no order"


class Counting(np.ndarray):
    """An array that keeps how many elements each assignment wrote."""

    written: tuple[int, ...] = ()

    def __setitem__(self, index, value):
        type(self).written += (self[index].size,)
        super().__setitem__(index, value)


def test_turned_rows_are_copied_a_few_at_a_time_unless_they_are_short():
    for shape, steps in (((1000, 2048), 16), ((100_000, 4), 7), ((64, 5000), 1)):
        Counting.written = ()
        target = np.empty(shape, order="F").view(Counting)
        arrays.copy(target, np.ones(shape))
        assert len(Counting.written) == steps
        assert sum(Counting.written) == target.size
