"""Scalar functions of semirings: plain Python that Numba can compile, so that any backend inlines it.

As (x) a function gets ``(x, y)``; as (+) it gets the accumulator first, ``(c, t)``. Over NumPy scalars of one dtype.
Beside them, in Python alone, `as_count` and `as_value` read the numbers that callers give.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.dtypes import is_complex, is_exact, is_known

Scalar = Any
ScalarFunction = Callable[[Scalar, Scalar], Scalar]


def plus(x: Scalar, y: Scalar) -> Scalar:
    """Return the sum."""
    return x + y


def times(x: Scalar, y: Scalar) -> Scalar:
    """Return the product."""
    return x * y


def minimum(x: Scalar, y: Scalar) -> Scalar:
    """Return the smaller; a NaN in either operand comes through."""
    return x if (x < y) | (x != x) else y


def maximum(x: Scalar, y: Scalar) -> Scalar:
    """Return the greater; a NaN in either operand comes through."""
    return x if (x > y) | (x != x) else y


def keep_smaller(c: Scalar, t: Scalar) -> Scalar:
    """Return the smaller; a NaN t is absent."""
    return t if t < c else c


def keep_greater(c: Scalar, t: Scalar) -> Scalar:
    """Return the greater; a NaN t is absent."""
    return t if t > c else c


def pair(x: Scalar, y: Scalar) -> Scalar:
    """Return one, whatever x and y are."""
    return 1


def first(x: Scalar, y: Scalar) -> Scalar:
    """Return x."""
    return x


def second(x: Scalar, y: Scalar) -> Scalar:
    """Return y."""
    return y


def absdiff(x: Scalar, y: Scalar) -> Scalar:
    """Return the distance of x and y."""
    return x - y if x > y else y - x


def sqdiff(x: Scalar, y: Scalar) -> Scalar:
    """Return the squared distance of x and y."""
    return (x - y) * (x - y)


def land(x: Scalar, y: Scalar) -> Scalar:
    """Return x and y."""
    return x & y


def lor(x: Scalar, y: Scalar) -> Scalar:
    """Return x or y."""
    return x | y


def lxor(x: Scalar, y: Scalar) -> Scalar:
    """Return whether exactly one of x and y is true."""
    return x ^ y


def logaddexp(x: Scalar, y: Scalar) -> Scalar:
    """Return log(exp(x) + exp(y)) without overflow."""
    if x == y:  # also both -inf, where x - y would be NaN
        return x + math.log(2.0)
    if x > y:
        return x + math.log1p(math.exp(y - x))
    return y + math.log1p(math.exp(x - y))


def absorbing_plus(zero: Scalar, low: Scalar, high: Scalar) -> ScalarFunction:
    """Return integer plus where `zero` absorbs and every other sum saturates at `low` and `high`."""
    nothing = zero.dtype.type(0)

    def plus(x: Scalar, y: Scalar) -> Scalar:
        if (x == zero) | (y == zero):
            return zero
        if y > nothing:
            return high if x > high - y else x + y
        return low if x < low - y else x + y

    return plus


def as_count(value: Any, *, least: int = 1, most: int | None = None) -> int | None:
    """Return `value` as an int, or None if it is no integer from `least` to `most`.

    For threads, block sizes, panels, sides of a grid. Every integer counts, NumPy's too: whatever `operator.index`
    takes. True and False do not, as they are mistakes.

    Examples
    --------
    >>> import numpy as np
    >>> as_count(np.int64(3)), as_count(0), as_count(True), as_count(2.0)
    (3, None, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        count = operator.index(value)
    except TypeError:
        return None
    return count if least <= count and (most is None or count <= most) else None


def as_value(value: Any, dtype: np.dtype[Any]) -> Scalar:
    """Return `value` as a scalar of `dtype`, or None if it is no number that `dtype` can hold. Floats are rounded.

    Examples
    --------
    >>> as_value(10**20, np.dtype(float)), as_value(300, np.dtype("int8")), as_value("x", np.dtype(float))
    (np.float64(1e+20), None, None)
    """
    try:
        scalar = np.asarray(value)
        if scalar.dtype == object and isinstance(value, int) and not is_exact(dtype):
            scalar = np.asarray(float(value))  # NumPy takes no larger ones than of 64 bits
    except Exception:  # noqa: BLE001 whatever an object of another library raises
        return None
    if scalar.ndim or not is_known(scalar.dtype) or (is_complex(scalar.dtype) and not is_complex(dtype)):
        return None
    with np.errstate(all="ignore"):
        converted = scalar.astype(dtype)[()]
    is_rounded = not is_exact(dtype) and np.isfinite(converted) == np.isfinite(scalar)
    return converted if is_rounded or converted == scalar else None
