"""Functions of integers that Python calls."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._simd.numpy_object import data_of, fields_of
from backends.cpu._threads.atomics import add, load, store, yield_thread


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch):
    """Kept code is found by the sources of the backends, and these functions are none of them."""
    monkeypatch.setenv("GEMM_HARNESS_CACHE", "")


def weigh(x: int, matrix: Any, y: int) -> int:
    _, rows, columns, _, _ = fields_of(matrix)
    return x * rows * 1000 + columns * y


def write(matrix: Any, value: int) -> None:
    store(data_of(matrix), value)


def meet(words: Any, number: int) -> int:
    """Wait until two threads are here, some seconds at most."""
    add(data_of(words), 1)
    for _ in range(1 << 22):
        if load(data_of(words)) == 2:
            return number
        yield_thread()
    return -1


def test_it_takes_integers_and_objects_and_returns_an_integer_or_none():
    function, matrix = compiled_for_python(weigh), np.zeros((3, 4))
    for y in (7, -7, 0, -1, True, np.int64(9)):
        assert function(-2, matrix, y) == -6000 + 4 * y
    words = np.zeros((2, 2), np.int64)
    before = sys.getrefcount(None)
    assert all(compiled_for_python(write)(words, 1 << 62) is None for _ in range(100))
    assert sys.getrefcount(None) >= before, "each result is a reference of its own"
    assert words[0, 0] == 1 << 62


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((1, np.zeros((1, 1))), SystemError),
        ((1, np.zeros((1, 1)), 2, 3), SystemError),
        (("1", np.zeros((1, 1)), 2), TypeError),
        ((1, np.zeros((1, 1)), 1.5), TypeError),
        ((1 << 64, np.zeros((1, 1)), 2), OverflowError),
    ],
    ids=str,
)
def test_other_arguments_are_an_exception_of_python(arguments, error):
    with pytest.raises(error):
        compiled_for_python(weigh)(*arguments)


def test_other_threads_run_while_it_has_released_the_gil():
    function, words, found = compiled_for_python(meet, releases_gil=True), np.zeros(1, np.int64), []
    threads = [
        threading.Thread(target=lambda number=number: found.append(function(words, number))) for number in (5, 6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == [5, 6]


def test_what_holds_more_than_integers_says_what_it_is_made_from():
    other = compiled_for_python

    def holds(x: int) -> int:
        return other(x)  # type: ignore[arg-type,return-value]

    with pytest.raises(TypeError, match="holds: nothing that is given tells what `other` is"):
        compiled_for_python(holds)
