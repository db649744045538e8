"""Functions of integers against the same functions as Python runs them."""

from __future__ import annotations

import ctypes
import importlib
import linecache
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from numba import types

from backends.cpu._ir import integers
from backends.cpu._threads.pool import stack
from harness.errors import BackendUnavailable

VALUES = (0, 1, 2, 3, 7, 64, -1, -2, -7, 1 << 40, -(1 << 40), (1 << 62) - 1)
TEN = 10


class Pair(NamedTuple):
    first: int
    second: int = 5


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch):
    """Kept code is found by the sources of the backends, and these functions are none of them."""
    monkeypatch.setenv("GEMM_HARNESS_CACHE", "")


def compiled(function: Callable[..., int], count: int) -> Callable[..., int]:
    (address,) = integers.compiled_for_c(function)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(address)


def wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def arithmetic(x: int, y: int) -> int:
    return x * 3 - (y + x) + (x & y | 5) ^ (~x) - -y


def divisions(x: int, y: int) -> int:
    return x // y * 100 + x % y + x // 4 + y % 4 + (x >> 2) + ((y & 15) << 3)


def comparisons(x: int, y: int) -> int:
    chain, order = -7 <= x < y, x == y or (x > TEN and not y >= 3)
    return (1 if chain else 0) + order * 2 + (x != y) * 4


def choices(x: int, y: int) -> int:
    if x > y:
        low, high = y, x
    elif x == y:
        return 17
    else:
        low, high = x, y
    pair = Pair(low) if high > 3 else Pair(high, second=low)
    return min(pair.first, pair.second, 9) * 1000 + max(pair[0], TEN) + (pair.second if x else high)


def loops(x: int, y: int) -> int:
    total, number = 0, abs_(x) % 50
    for i in range(number):
        if i % 3 == 2:
            continue
        for j in range(i, 40, number):
            if j > 30:
                break
            total += i * j
        else_ = total
        total = else_ + 1
    while number > 0:
        number -= 2
        if number == 12:
            return -total
    for _ in range(3, 3):
        total = 0
    return total + number * y


def abs_(x: int) -> int:
    return -x if x < 0 else x


def first_of(x: int, y: int) -> tuple[int, int]:
    if x > 5:
        return x, 1
    return y, 2


def calls(x: int, y: int) -> int:
    value, which = first_of(x, y)
    pair = Pair(*first_of(y, value))
    first, (second, third) = x, pair
    return value * 7 + which * second + third - first


FUNCTIONS = (arithmetic, divisions, comparisons, choices, loops, calls)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_it_computes_as_python_does(function):
    translated = compiled(function, 2)
    for x in VALUES:
        for y in VALUES:
            if function is not divisions or y:
                assert translated(x, y) == wrapped(function(x, y)), (x, y)


def expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["x", "y", "z", str(rng.choice(VALUES))])
    one, two, three = (expression(rng, depth - 1) for _ in range(3))
    return rng.choice(
        [f"({one} {rng.choice('+-*&|^')} {two})", f"({one} {rng.choice(['//', '%'])} ({two} & 1023 | 1))"] * 2
        + [f"({one} if {two} {rng.choice(['<', '<=', '==', '!='])} {three} else {three})", f"min({one}, {two})"]
        + [f"max({one}, {two}, {three})", f"(({one}) >> 3)", f"(1 if {one} and {two} or not {three} else 2)"]
    )


def test_random_expressions_have_the_values_of_python(tmp_path, monkeypatch):
    rng = random.Random(20261129)
    texts = [expression(rng, 3) for _ in range(60)]
    lines = [f"def drawn_{i}(x: int, y: int, z: int) -> int:\n    return {text}\n" for i, text in enumerate(texts)]
    (tmp_path / "drawn_for_integers.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    import drawn_for_integers

    functions = [getattr(drawn_for_integers, f"drawn_{i}") for i in range(len(texts))]
    addresses = integers.compiled_for_c(*functions)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)
    for function, address, text in zip(functions, addresses, texts, strict=True):
        for _ in range(20):
            given = [rng.randrange(-(1 << 15), 1 << 15) for _ in range(3)]
            expected = function(*given)
            if abs(expected) < 1 << 62:
                assert kind(address)(*given) == expected, (text, given)


_of_c = types.ExternalFunction("abs", types.int32(types.int32))


def in_c(x: int) -> int:
    return _of_c(x) + 1


def test_it_calls_functions_of_c_of_shorter_integers():
    assert compiled(in_c, 1)(-5) == 6
    assert compiled(in_c, 1)((1 << 32) + 3) == 4, "the lower half"


_writes_to = types.ExternalFunction("sigemptyset", types.int32(types.intp))  # so that it is really taken


def takes_stack(words: int) -> int:
    return _writes_to(stack(words)) + words


def many_stacks(count: int) -> int:
    total = 0
    for _ in range(count):
        total += takes_stack(1 << 16)
    return total


def test_what_a_function_takes_of_the_stack_is_given_back_at_its_end():
    assert compiled(many_stacks, 1)(10_000) == 10_000 << 16, "five gigabytes in all"


def gives_text(x: int) -> int:
    return len("text")


def divides(x: int) -> int:
    return int(x / 2)


def mixes(x: int) -> int:
    y = 1
    if x:
        y = 1, 2
    return y


def tries(x: int) -> int:
    try:
        return x
    finally:
        pass


def keeps(x: int) -> int:
    for i in [1, 2]:
        x += i
    return x


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (gives_text, "gives_text: not in a function of integers: "),
        (divides, "divides: not in a function of integers: "),
        (mixes, "tuple"),
        (tries, "tries: not in a function of integers: try:"),
        (keeps, "keeps: not in a function of integers: for i in"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_function_of_integers_is_named(function, why):
    with pytest.raises(TypeError, match=why):
        compiled(function, 1)


@pytest.mark.parametrize("change", ["edited", "gone"])
def test_a_function_whose_source_is_no_longer_that_of_the_process_is_not_compiled(change, tmp_path, monkeypatch):
    """An edit, or an update of the package, while the process runs: the file's lines are those of another function."""
    name = f"{change}_for_integers"
    file = tmp_path / f"{name}.py"
    file.write_text("def adds(x: int) -> int:\n    return x + 1000\n")
    monkeypatch.syspath_prepend(tmp_path)
    adds = importlib.import_module(name).adds
    if change == "edited":
        file.write_text("def adds(x: int) -> int:\n    return x + 2000 # a longer line\n")
    else:
        file.unlink()
        linecache.clearcache()
    with pytest.raises(BackendUnavailable, match="adds cannot be compiled"):
        compiled(adds, 1)
