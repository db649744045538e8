"""The oracle against loops written out over Python's integers and fractions, and against products done by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from harness import SEMIRINGS, Operands, Problem, Semiring
from harness.proof.magnitude import magnitude_of
from harness.proof.reference import product
from harness.semiring import DTYPES

INTEGERS = [dtype for dtype in DTYPES if dtype.kind in "iu"]

# Plain operations on Python numbers: no overflow, no rounding.
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "plus": lambda x, y: x + y,
    "times": lambda x, y: x * y,
    "min": min,
    "max": max,
    "pair": lambda x, y: 1,
    "first": lambda x, y: x,
    "second": lambda x, y: y,
    "absdiff": lambda x, y: abs(x - y),
    "sqdiff": lambda x, y: (x - y) ** 2,
    "lor": lambda x, y: x or y,
    "land": lambda x, y: x and y,
    "lxor": lambda x, y: x != y,
}


def _fit(value: int, dtype: np.dtype, *, saturates: bool) -> int:
    """Return `value` wrapped or saturated to `dtype`."""
    bits, lowest = 8 * dtype.itemsize, 0 if dtype.kind == "u" else -(2 ** (8 * dtype.itemsize - 1))
    if saturates:
        return min(max(value, lowest), lowest + 2**bits - 1)
    return (value - lowest) % 2**bits + lowest


def _loops(semiring: Semiring, a: list, b: list, start: Any, times: Callable, plus: Callable) -> list:
    """Return the triple loop over nested lists."""
    m, k, n = len(a), len(b), len(b[0])
    result = [[start for _ in range(n)] for _ in range(m)]
    for i in range(m):
        for j in range(n):
            for p in range(k):
                result[i][j] = plus(result[i][j], times(a[i][p], b[p][j]))
    return result


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", [*SEMIRINGS, "max_absdiff", "plus_sqdiff", "min_second", "max_first", "times_plus"])
def test_integer_products_equal_loops_over_python_integers(name: str, dtype: np.dtype) -> None:
    semiring = SEMIRINGS.get(name) or Semiring.of(*name.split("_"))
    if semiring.unsupported(dtype) is not None:
        return
    info = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    extremes = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2]
    a, b = rng.choice(np.array(extremes, dtype), (5, 7)), rng.choice(np.array(extremes, dtype), (7, 6))
    b[:, 0] = rng.integers(info.min, info.max, 7, dtype, endpoint=True)
    add, multiply = OPERATIONS[semiring.add.name], OPERATIONS[semiring.multiply.name]
    zero = {"plus": 0, "times": 1, "min": info.max, "max": info.min}[semiring.add.name]
    absorbs = semiring.multiply.name == "plus" and semiring.add.name in ("min", "max")

    def times(x: int, y: int) -> int:
        if absorbs and zero in (x, y):
            return zero
        return _fit(multiply(x, y), dtype, saturates=absorbs)

    def plus(x: int, y: int) -> int:
        return _fit(add(x, y), dtype, saturates=False)

    got = product(Problem(5, 6, 7, semiring, dtype), a, b)
    assert got.dtype == dtype
    assert got.tolist() == _loops(semiring, a.tolist(), b.tolist(), zero, times, plus)


@pytest.mark.parametrize("name", ["lor_land", "lxor_land", "land_lor"])
def test_boolean_products_equal_loops(name: str, rng: np.random.Generator) -> None:
    semiring = SEMIRINGS.get(name) or Semiring.of(*name.split("_"))
    a, b = rng.random((6, 5)) < 0.5, rng.random((5, 7)) < 0.5
    add, multiply = OPERATIONS[semiring.add.name], OPERATIONS[semiring.multiply.name]
    got = product(Problem(6, 7, 5, semiring, np.dtype(bool)), a, b)
    assert got.tolist() == _loops(semiring, a.tolist(), b.tolist(), semiring.add.name == "land", multiply, add)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["plus_times", "plus_min", "plus_pair", "plus_absdiff", "plus_sqdiff"])
def test_float_sums_are_exact_fractions_rounded_once(name: str, dtype: str, rng: np.random.Generator) -> None:
    semiring = Semiring.of(*name.split("_"))
    a, b = rng.standard_normal((4, 9)).astype(dtype), rng.standard_normal((9, 5)).astype(dtype)
    multiply = OPERATIONS[semiring.multiply.name]
    exact = _loops(semiring, _fractions(a), _fractions(b), Fraction(0), multiply, OPERATIONS["plus"])
    got = product(Problem(4, 5, 9, semiring, np.dtype(dtype)), a, b)
    for i, j in np.ndindex(got.shape):
        spacing = Fraction(float(np.spacing(np.abs(got[i, j]))))
        assert abs(Fraction(float(got[i, j])) - exact[i][j]) <= spacing * Fraction(51, 100)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "min_max", "max_times", "min_times"])
def test_float_selections_round_each_term_once(name: str, dtype: str, rng: np.random.Generator) -> None:
    semiring = SEMIRINGS[name]
    a, b = rng.standard_normal((4, 9)).astype(dtype), rng.standard_normal((9, 5)).astype(dtype)
    multiply, add = OPERATIONS[semiring.multiply.name], OPERATIONS[semiring.add.name]
    start = math.inf if semiring.add.name == "min" else -math.inf

    def times(x: Fraction, y: Fraction) -> float:
        return float(np.float32(float(multiply(x, y))))  # by way of double: 53 digits are enough that it does no harm

    if dtype == "float64":
        expected = _loops(semiring, a.tolist(), b.tolist(), start, multiply, add)
    else:
        expected = _loops(semiring, _fractions(a), _fractions(b), start, times, add)
    assert product(Problem(4, 5, 9, semiring, np.dtype(dtype)), a, b).tolist() == expected


def _fractions(x: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(value)) for value in row] for row in x]


def test_logaddexp_equals_the_logarithm_of_a_sum() -> None:
    a, b = np.array([[0.0, -700.0, 3.0]]), np.array([[1.0], [700.5], [-2.0]])
    expected = math.log(math.exp(1.0) + math.exp(0.5) + math.exp(1.0))
    assert product(Problem(1, 1, 3, "logaddexp_plus"), a, b)[0, 0] == pytest.approx(expected, rel=1e-15)
    assert product(Problem(1, 1, 1, "logaddexp_plus"), np.array([[-np.inf]]), np.array([[5.0]]))[0, 0] == -np.inf


def test_products_done_by_hand() -> None:
    inf = np.inf
    distances = np.array([[0.0, 3.0, inf], [inf, 0.0, 4.0], [1.0, inf, 0.0]])
    two_steps = [[0.0, 3.0, 7.0], [5.0, 0.0, 4.0], [1.0, 4.0, 0.0]]
    assert product(Problem(3, 3, 3, "min_plus"), distances, distances).tolist() == two_steps
    capacity = np.array([[inf, 5.0], [2.0, inf]])
    assert product(Problem(2, 2, 2, "max_min"), capacity, capacity).tolist() == [[inf, 5.0], [2.0, inf]]
    x = np.array([[1, 2], [3, 4]], np.int8)
    assert product(Problem(2, 2, 2, "plus_times", np.dtype(np.int8)), x, x * 10).tolist() == [[70, 100], [-106, -36]]


def test_nan_is_dropped_by_selection_and_kept_by_sums() -> None:
    a, b = np.array([[np.nan, 1.0]]), np.array([[2.0], [5.0]])
    assert product(Problem(1, 1, 2, "min_plus"), a, b)[0, 0] == 6
    assert product(Problem(1, 1, 2, "max_times"), a, b)[0, 0] == 5
    assert product(Problem(1, 1, 1, "max_min"), a[:, :1], b[:1])[0, 0] == -np.inf
    assert np.isnan(product(Problem(1, 1, 2), a, b)[0, 0])
    assert np.isnan(product(Problem(1, 1, 2, "logaddexp_plus"), a, b)[0, 0])
    assert product(Problem(1, 1, 2, "plus_pair"), a, b)[0, 0] == 2  # pair looks at no value
    c = np.array([[np.nan]])
    assert product(Problem(1, 1, 2, "min_plus", accumulate=True), a, b, c)[0, 0] == 6
    opposite = product(Problem(1, 1, 1, "min_plus"), np.array([[np.inf]]), np.array([[-np.inf]]))
    assert opposite[0, 0] == np.inf


def test_alpha_and_beta_multiply_by_the_semiring() -> None:
    a, b, c = np.array([[1.0, 4.0]]), np.array([[2.0], [3.0]]), np.array([[10.0]])
    ordinary = Problem(1, 1, 2, alpha=2.0, beta=3.0, accumulate=True)
    assert product(ordinary, a, b, c)[0, 0] == 2 * (2 + 12) + 30
    tropical = Problem(1, 1, 2, "min_plus", alpha=2.0, beta=-8.0, accumulate=True)
    assert product(tropical, a, b, c)[0, 0] == min(2 + 3, -8 + 10)
    dropped = Problem(1, 1, 2, "min_plus", beta=np.inf, accumulate=True)
    assert product(dropped, a, b, c)[0, 0] == 3


@pytest.mark.parametrize("name", SEMIRINGS)
def test_no_terms_give_the_zero_or_c(name: str) -> None:
    dtype = np.dtype(bool if SEMIRINGS[name].multiply.name == "land" else np.float64)
    a, b, c = np.empty((2, 0), dtype), np.empty((0, 3), dtype), np.ones((2, 3), dtype)
    least = {"plus": 0, "min": np.inf, "max": -np.inf, "logaddexp": -np.inf}.get(SEMIRINGS[name].add.name, False)
    assert (product(Problem(2, 3, 0, name, dtype), a, b) == least).all()
    assert (product(Problem(2, 3, 0, name, dtype, accumulate=True), a, b, c) == 1).all()
    assert product(Problem(0, 3, 0, name, dtype), a[:0], b).shape == (0, 3)


def test_parts_equal_the_whole(rng: np.random.Generator) -> None:
    problem = Problem(11, 13, 7, "max_plus", alpha=0.5, accumulate=True)
    operands = Operands.generate(problem, 5)
    arrays = operands.a, operands.b, operands.c
    whole = product(problem, *arrays)
    rows, columns = np.array([10, 0, 3]), np.array([12, 1])
    assert np.array_equal(product(problem, *arrays, rows=rows), whole[rows])
    assert np.array_equal(product(problem, *arrays, columns=columns), whole[:, columns])
    assert np.array_equal(product(problem, *arrays, rows=rows, columns=columns), whole[np.ix_(rows, columns)])
    ordinary = Problem(11, 13, 7, alpha=0.5, accumulate=True)
    sizes = magnitude_of(ordinary, *arrays)
    assert np.allclose(magnitude_of(ordinary, *arrays, rows=rows, columns=columns), sizes[np.ix_(rows, columns)])


def test_functions_of_the_user_define_their_semiring() -> None:
    own = Semiring.from_functions("own", lambda c, t: c + t, lambda x, y: x * y, zero=0)
    a, b = np.array([[100, 2]], np.int8), np.array([[2], [3]], np.int8)
    assert product(Problem(1, 1, 2, own, np.dtype(np.int8)), a, b)[0, 0] == 206 - 256
    longest = Semiring.from_functions("longest", max, lambda x, y: x - y, zero=-np.inf, is_selective=True, kinds="f")
    assert product(Problem(1, 1, 2, longest), np.array([[1.0, 9.0]]), np.array([[4.0], [2.0]]))[0, 0] == 7


@pytest.mark.parametrize("name", ["plus_times", "plus_min", "plus_absdiff", "plus_sqdiff", "plus_plus", "plus_first"])
@pytest.mark.parametrize("alpha", [None, -1.5])
def test_magnitude_is_at_least_the_sum_of_absolute_terms(name: str, alpha: float | None) -> None:
    semiring = Semiring.of(*name.split("_"))
    problem = Problem(4, 5, 6, semiring, alpha=alpha, beta=2.0, accumulate=True)
    operands = Operands.generate(problem, 1)
    a, b, c = (x for x in (operands.a, operands.b, operands.c) if x is not None)
    multiply = OPERATIONS[semiring.multiply.name]
    got = magnitude_of(problem, a, b, c)
    for i, j in itertools.product(range(4), range(5)):
        left = a[i] if alpha is None else [multiply(alpha, x) for x in a[i]]
        terms = [abs(multiply(x, y)) for x, y in zip(left, b[:, j], strict=True)]
        assert got[i, j] >= (sum(terms) + abs(multiply(2.0, c[i, j]))) * (1 - 1e-12)
        if name == "plus_times":
            assert got[i, j] == pytest.approx(sum(terms) + abs(2 * c[i, j]))


def test_magnitude_passes_over_what_is_not_finite() -> None:
    a, b = np.array([[np.nan, 2.0, np.inf]]), np.array([[1.0], [3.0], [0.0]])
    assert magnitude_of(Problem(1, 1, 3), a, b)[0, 0] == 6
