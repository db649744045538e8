"""Semirings of functions that compute the same are equal, and their kernels are compiled once."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from backends.cpu._cache import cache
from harness import BINARY_OPS, MONOIDS, SEMIRINGS, Semiring, gemm

SETTING = 1.0


def smaller(c, t):
    return min(c, t)


def added(x, y):
    return x + y


def own(name, multiply, zero=np.inf):
    return Semiring.from_functions(name, smaller, multiply, zero=zero, is_selective=True)


def scaled(factor):
    def multiply(x, y):
        return factor * x + y

    return multiply


def nested(factor):
    inner = scaled(factor)
    return lambda x, y: inner(x, y) + np.sqrt(x)


def with_default(factor):
    return lambda x, y, w=factor: x * w + y


@pytest.mark.parametrize("make", [scaled, nested, with_default])
def test_functions_made_again_mean_the_same_and_other_values_do_not(make):
    first, again, other = own("first", make(2.0)), own("again", make(2.0)), own("first", make(3.0))
    assert first == again
    assert hash(first) == hash(again)
    assert len({first, again, other}) == 2


@pytest.mark.parametrize("values", [(1, 1.0), (True, 1), (0.0, -0.0), (np.float32(2), np.float64(2)), (None, ())])
def test_captured_values_of_other_types_or_signs_are_others(values):
    assert own("x", scaled(values[0])) != own("x", scaled(values[1]))


def test_a_nan_is_itself():
    assert own("x", scaled(float("nan"))) == own("y", scaled(float("nan")))


def test_what_may_change_is_only_its_own_equal(monkeypatch):
    weights = np.array([2.0])
    assert own("x", scaled(weights)) != own("x", scaled(weights))  # it may have changed in between

    def by_setting():
        return lambda x, y: SETTING * x + y

    before, again = own("x", by_setting()), own("y", by_setting())
    assert before == again
    monkeypatch.setitem(globals(), "SETTING", 2.0)
    assert own("x", by_setting()) != before


def test_a_function_that_calls_itself_has_a_meaning():
    def powers():
        def power(x, y):
            return x if y <= 0 else power(x, y - 1)

        return power

    assert own("x", powers()) == own("y", powers())


def test_another_zero_and_names_of_the_table_are_others():
    assert own("x", added) != own("x", added, zero=9.0)
    tabled = Semiring(MONOIDS["min"], BINARY_OPS["plus"], "mine")
    assert tabled != SEMIRINGS["min_plus"]
    assert Semiring.of("min", "plus") == SEMIRINGS["min_plus"]
    assert own("x", BINARY_OPS["plus"].function) != SEMIRINGS["min_plus"]


def test_copies_are_equal():
    mine = own("mine", added)
    hash(mine)
    assert mine == copy.deepcopy(mine) == pickle.loads(pickle.dumps(mine))
    assert pickle.loads(pickle.dumps(mine)).name == "mine"


def test_kernels_are_compiled_once_for_all_that_are_equal():
    a, b = np.array([[1, 5]]), np.array([[2], [0]])
    results, compiled = [], []
    for name, factor in (("first", 2), ("second", 2), ("third", 3)):
        before = cache.counts["compiled"]
        results.append(gemm(a, b, semiring=own(name, scaled(factor), zero=99), backend="cpu-naive").item())
        compiled.append(cache.counts["compiled"] - before)
    assert results == [4, 4, 5]
    assert compiled == [1, 0, 1]
