"""The laws that kernels rely on when they reorder, split and pad; identities against tables that are written out."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from harness import BINARY_OPS, MONOIDS, SEMIRINGS, Semiring
from harness.semiring import DTYPES

LEAST = {
    "int8": -128,
    "int16": -32768,
    "int32": -2147483648,
    "int64": -9223372036854775808,
    "uint8": 0,
    "uint16": 0,
    "uint32": 0,
    "uint64": 0,
    "float16": -math.inf,
    "float32": -math.inf,
    "float64": -math.inf,
}
GREATEST = {
    "int8": 127,
    "int16": 32767,
    "int32": 2147483647,
    "int64": 9223372036854775807,
    "uint8": 255,
    "uint16": 65535,
    "uint32": 4294967295,
    "uint64": 18446744073709551615,
    "float16": math.inf,
    "float32": math.inf,
    "float64": math.inf,
}
ZEROS: dict[str, Any] = {
    "plus_times": 0,
    "min_plus": GREATEST,
    "max_plus": LEAST,
    "max_min": LEAST,
    "min_max": GREATEST,
    "max_times": LEAST,
    "min_times": GREATEST,
    "lor_land": False,
    "lxor_land": False,
    "plus_min": 0,
    "plus_pair": 0,
    "logaddexp_plus": LEAST,
}
ONES: dict[str, Any] = {
    "plus_times": 1,
    "min_plus": 0,
    "max_plus": 0,
    "max_min": GREATEST,
    "min_max": LEAST,
    "max_times": 1,
    "min_times": 1,
    "lor_land": True,
    "lxor_land": True,
    "plus_min": GREATEST,
    "plus_pair": None,
    "logaddexp_plus": 0,
}
# Where (x) distributes over (+): everywhere, or among numbers that are not negative.
DISTRIBUTIVE = {"plus_times", "min_plus", "max_plus", "max_min", "min_max", "lor_land", "lxor_land"}
DISTRIBUTIVE_IF_NOT_NEGATIVE = {"max_times", "min_times"}
ANNIHILATING = DISTRIBUTIVE | {"logaddexp_plus"}

KERNELS = [
    pytest.param(semiring, dtype, id=f"{semiring.name}-{dtype.name}")
    for semiring in SEMIRINGS.values()
    for dtype in DTYPES
    if semiring.unsupported(dtype) is None
]
each_kernel = pytest.mark.parametrize(("semiring", "dtype"), KERNELS)


def _values(dtype: np.dtype) -> list[Any]:
    """Return numbers of `dtype` whose sums and products are exact, and its extremes."""
    if dtype.kind == "c":  # Gaussian integers, and two of them for the extremes that complex numbers have not
        return [dtype.type(complex(*parts)) for parts in itertools.product((-2, 0, 1), (-1, 0, 3))]
    if dtype.kind == "b":
        return [np.False_, np.True_]
    small = [0, 1, 2, 3, 7] if dtype.kind == "u" else [-7, -2, -1, 0, 1, 3]
    values = [*small, LEAST[dtype.name], GREATEST[dtype.name]]
    return [dtype.type(value) for value in values]


def _finite(dtype: np.dtype) -> list[Any]:
    return _values(dtype)[:-2] if dtype.kind != "b" else _values(dtype)


def _add(semiring: Semiring, dtype: np.dtype, x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return dtype.type(semiring.add.function(x, y))


def _multiply(semiring: Semiring, dtype: np.dtype, x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(semiring.multiply_function(dtype)(x, y)).astype(dtype)[()]


def _equal(semiring: Semiring, x: Any, y: Any) -> bool:
    if semiring.add.name == "logaddexp":
        return bool(x == y) or math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-5)
    return bool(x == y)


@pytest.mark.parametrize("name", SEMIRINGS)
def test_zero_and_one_are_those_of_the_dtype(name: str) -> None:
    semiring = SEMIRINGS[name]
    for dtype in DTYPES:
        if semiring.unsupported(dtype) is not None:
            continue
        for identity, expected in ((semiring.zero(dtype), ZEROS[name]), (semiring.one(dtype), ONES[name])):
            value = expected[dtype.name] if isinstance(expected, dict) else expected
            assert identity == value
            assert value is None or identity.dtype == dtype


def test_every_named_semiring_is_in_the_tables_here() -> None:
    assert set(SEMIRINGS) == set(ZEROS) == set(ONES)


@each_kernel
def test_addition_is_commutative_and_associative(semiring: Semiring, dtype: np.dtype) -> None:
    values = _finite(dtype) if semiring.add.name in ("plus", "logaddexp") else _values(dtype)
    for x, y, z in itertools.product(values, repeat=3):
        assert _equal(semiring, _add(semiring, dtype, x, y), _add(semiring, dtype, y, x))
        left = _add(semiring, dtype, _add(semiring, dtype, x, y), z)
        assert _equal(semiring, left, _add(semiring, dtype, x, _add(semiring, dtype, y, z)))


@each_kernel
def test_zero_is_neutral_in_addition(semiring: Semiring, dtype: np.dtype) -> None:
    zero = semiring.zero(dtype)
    for x in _values(dtype):
        assert _add(semiring, dtype, zero, x) == x
        assert _add(semiring, dtype, x, zero) == x


@each_kernel
def test_one_is_neutral_in_multiplication(semiring: Semiring, dtype: np.dtype) -> None:
    one = semiring.one(dtype)
    if one is None:
        assert ONES[semiring.name] is None
        return
    for x in _values(dtype):
        assert _multiply(semiring, dtype, one, x) == x
        assert _multiply(semiring, dtype, x, one) == x


@each_kernel
def test_multiplication_is_associative_where_nothing_saturates(semiring: Semiring, dtype: np.dtype) -> None:
    values = [*_finite(dtype), semiring.zero(dtype)] if semiring.name in ANNIHILATING else _finite(dtype)
    is_sum = semiring.multiply.name == "plus"
    if dtype.kind in "iu" and is_sum:
        values = [x for x in values if x == semiring.zero(dtype) or abs(int(x)) <= 2]
    for x, y, z in itertools.product(values, repeat=3):
        left = _multiply(semiring, dtype, _multiply(semiring, dtype, x, y), z)
        right = _multiply(semiring, dtype, x, _multiply(semiring, dtype, y, z))
        if dtype.kind == "u" and is_sum and semiring.add.name == "max":
            continue
        assert left == right, (x, y, z)


@each_kernel
def test_zero_annihilates(semiring: Semiring, dtype: np.dtype) -> None:
    if semiring.name not in ANNIHILATING:
        return
    zero = semiring.zero(dtype)
    values = _finite(dtype) if dtype.kind == "f" else _values(dtype)
    for x in values:
        assert _multiply(semiring, dtype, zero, x) == zero
        assert _multiply(semiring, dtype, x, zero) == zero


@each_kernel
def test_multiplication_distributes_where_it_should(semiring: Semiring, dtype: np.dtype) -> None:
    if semiring.name not in DISTRIBUTIVE | DISTRIBUTIVE_IF_NOT_NEGATIVE:
        return
    values = _finite(dtype) if dtype.kind == "f" or semiring.name == "max_times" else _values(dtype)
    if semiring.name in DISTRIBUTIVE_IF_NOT_NEGATIVE:
        values = [x for x in values if 0 <= x <= 7]
    for x, y, z in itertools.product(values, repeat=3):
        left = _multiply(semiring, dtype, x, _add(semiring, dtype, y, z))
        right = _add(semiring, dtype, _multiply(semiring, dtype, x, y), _multiply(semiring, dtype, x, z))
        assert left == right, (x, y, z)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize(("semiring", "zero"), [("min_plus", GREATEST), ("max_plus", LEAST)])
def test_integer_infinity_absorbs_and_sums_saturate(semiring: str, zero: dict[str, int], name: str) -> None:
    dtype, least, greatest = np.dtype(name), LEAST[name], GREATEST[name]
    near = [least, least + 1, least + 2, -2, -1, 0, 1, 2, greatest - 2, greatest - 1, greatest]
    for x, y in itertools.product(near, repeat=2):
        got = _multiply(SEMIRINGS[semiring], dtype, dtype.type(x), dtype.type(y))
        absorbed = zero[name] in (x, y)
        assert int(got) == (zero[name] if absorbed else min(max(x + y, least), greatest)), (x, y)


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_min_plus_saturates_upwards(name: str) -> None:
    dtype, greatest = np.dtype(name), GREATEST[name]
    near = [0, 1, 2, greatest // 2, greatest - 1, greatest]
    for x, y in itertools.product(near, repeat=2):
        got = _multiply(SEMIRINGS["min_plus"], dtype, dtype.type(x), dtype.type(y))
        assert int(got) == min(x + y, greatest), (x, y)


def test_unsigned_max_plus_is_refused_because_its_zero_is_its_one() -> None:
    for name in ("uint8", "uint16", "uint32", "uint64"):
        assert "absorbs" in str(SEMIRINGS["max_plus"].unsupported(np.dtype(name)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_comes_through_multiplication_and_is_dropped_by_selection(dtype: type) -> None:
    nan, number = dtype("nan"), dtype(2)
    for name in ("plus", "times", "min", "max", "absdiff", "sqdiff"):
        function = BINARY_OPS[name].function
        assert np.isnan(function(nan, number)), name
        assert np.isnan(function(number, nan)), name
    for name in ("min", "max"):
        assert MONOIDS[name].function(number, nan) == number
    for name in ("plus", "times", "logaddexp"):
        assert np.isnan(MONOIDS[name].function(number, nan)), name
        assert np.isnan(MONOIDS[name].function(nan, number)), name


def test_logaddexp_of_nothing_is_nothing() -> None:
    nothing, function = -math.inf, MONOIDS["logaddexp"].function
    assert function(nothing, nothing) == nothing
    assert function(nothing, 3.0) == 3.0
    assert function(math.inf, 3.0) == math.inf
    assert function(0.0, 0.0) == pytest.approx(math.log(2))
    assert function(1000.0, 1000.0) == pytest.approx(1000 + math.log(2))
    assert function(1.0, -2000.0) == 1.0


@pytest.mark.parametrize("table", [MONOIDS, BINARY_OPS], ids=["monoids", "binary operations"])
def test_array_forms_agree_with_scalar_functions(table: dict[str, Any]) -> None:
    for op in table.values():
        for dtype in DTYPES:
            if dtype.kind not in op.kinds or op.ufunc is None:
                continue
            values = _values(dtype)[:-2] if dtype.kind == "f" else _values(dtype)
            tolerance = 2 * float(np.finfo(dtype).eps) if op.name == "logaddexp" else 0.0
            with np.errstate(all="ignore"):
                for x, y in itertools.product(values, repeat=2):
                    scalar = np.asarray(op.function(x, y)).astype(dtype)
                    array = op.ufunc(np.array([x]), np.array([y]))[0]
                    assert np.isclose(scalar, array, rtol=tolerance, atol=tolerance), (op.name, x, y)
