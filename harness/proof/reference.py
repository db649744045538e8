"""The definition of the product, obviously right: the only oracle. Slow, and independent of every kernel.

    D[i, j] = (+)_p  (alpha (x) A[i, p]) (x) B[p, j]   (+)   beta (x) C[i, j]

NumPy array operations, one step of p at a time; sums of products by NumPy's einsum, whose loops are its own and no
BLAS. Operations and identities are looked up by *name* in tables of this
file: an oracle that shared them with the kernels would agree with their mistakes. Only a user's own operation is taken
from the semiring, since its function is the definition; it is applied element by element.

* Sums and products of floats are kept in a wider type and rounded once.
* NaN: a term with a NaN factor is NaN, unless (x) does not look at that factor (pair, first, second). min and max drop
  a NaN term; plus, times and logaddexp keep it.
* Integers: under min and max, plus saturates at the dtype's extremes and the zero absorbs; all else wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from harness.dtypes import is_complex, is_exact, is_integer, row_of
from harness.problem import Problem
from harness.semiring import BINARY_OPS, MONOIDS, Semiring

ArrayFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Sums keep more digits than the product's dtype has. Not under logaddexp, whose wide form is too slow: the allowed
# error accounts for that.
_WIDEST, _WIDEST_COMPLEX = np.dtype(np.longdouble), np.dtype(np.clongdouble)

STEPS_AT_A_TIME = 64  # of k: bounds the memory that conversions take

_ADDITIONS: dict[str, ArrayFunction] = {
    "plus": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "times": np.multiply,
    "lor": np.bitwise_or,
    "land": np.bitwise_and,
    "lxor": np.bitwise_xor,
    "logaddexp": np.logaddexp,
}

_MULTIPLICATIONS: dict[str, ArrayFunction] = {
    "plus": np.add,
    "times": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "pair": lambda x, y: np.ones_like(x + y),
    "first": lambda x, y: np.broadcast_arrays(x, y)[0],
    "second": lambda x, y: np.broadcast_arrays(x, y)[1],
    "absdiff": lambda x, y: np.where(x < y, y - x, x - y),
    "sqdiff": lambda x, y: (y - x) ** 2,
    "land": np.bitwise_and,
    "lor": np.bitwise_or,
}

_ZEROS = {
    "plus": 0,
    "min": "greatest",
    "max": "least",
    "times": 1,
    "lor": 0,
    "land": 1,
    "lxor": 0,
    "logaddexp": "least",
}


class _Algebra(NamedTuple):
    """Array forms of a semiring's operations.

    Attributes
    ----------
    add, multiply : function
    zero : scalar
        Identity of `add`.
    work : dtype
        In which the product is accumulated.
    """

    add: ArrayFunction
    multiply: ArrayFunction
    zero: Any
    work: np.dtype[Any]


def product(
    problem: Problem,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None = None,
    *,
    rows: np.ndarray | None = None,
    columns: np.ndarray | None = None,
) -> np.ndarray:
    """Compute ``D[rows][:, columns]`` as it is defined.

    Parameters
    ----------
    problem : Problem
    a : (m, k) array of problem.input_dtype
    b : (k, n) array of problem.input_dtype
    c : (m, n) array of problem.dtype, optional
        Read only if the problem accumulates.
    rows, columns : integer arrays, optional
        Which part of D is wanted; None: all.

    Returns
    -------
    (len(rows), len(columns)) array of problem.dtype
        Above the diagonal too where the problem leaves that out.
    """
    a, b, c = part_of(*as_read(problem, a, b), c, rows, columns)
    add, multiply, zero, work = algebra(problem.semiring, problem.dtype)
    with np.errstate(all="ignore"):
        total = np.full((a.shape[0], b.shape[1]), zero, work)
        for x, y in steps_of(a, b, lambda part: part.astype(work, order="C")):
            scaled = x if problem.alpha is None else multiply(np.full_like(x, problem.alpha), x)
            if (add, multiply) == (np.add, np.multiply):  # two to five times as fast as the steps below
                if total.size:  # einsum of NumPy 2.4 writes to an empty result of complex long doubles
                    total += np.einsum("pi,pj->ij", scaled, y)
                continue
            for column, row in zip(scaled, y, strict=True):
                total = add(total, multiply(column[:, None], row[None, :]))
        if problem.accumulate and c is not None:
            c = c.astype(work)
            total = add(total, c if problem.beta is None else multiply(np.full_like(c, problem.beta), c))
        return total.astype(problem.dtype)


def argk(problem: Problem, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the smallest k whose term equals each element of D, and -1 where D is the zero; for a (+) that selects.

    Returns
    -------
    (m, n) array of int32
    """
    value, (add, multiply, zero, work) = product(problem, a, b), algebra(problem.semiring, problem.dtype)
    with np.errstate(all="ignore"):  # all terms at once: such products are small
        terms = multiply(a.T.astype(work)[:, :, None], b.astype(work)[:, None, :])
        is_value = add(np.full_like(terms, zero), terms).astype(problem.dtype) == value
    has_k = is_value.any(0) & (value != zero)
    return np.where(has_k, is_value.argmax(0) if problem.k else -1, -1).astype(np.int32)


def as_read(problem: Problem, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return A and B as they are multiplied: with what a symmetric or Hermitian A leaves out, and conjugated."""
    if problem.triangle in ("a", "h"):
        upper = a.T if problem.triangle == "a" else a.conj().T
        a = np.where(np.tri(a.shape[0], dtype=np.bool_), a, upper)
        if problem.triangle == "h":
            np.fill_diagonal(a.imag, 0)
    return a.conj() if "a" in problem.conjugate else a, b.conj() if "b" in problem.conjugate else b


def part_of(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None, rows: np.ndarray | None, columns: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the rows of A, the columns of B, and the part of C that the wanted part of D depends on."""
    a, b = _take(a, rows, 0), _take(b, columns, 1)
    return a, b, None if c is None else _take(_take(c, rows, 0), columns, 1)


def _take(x: np.ndarray, indices: np.ndarray | None, axis: int) -> np.ndarray:
    """Return the wanted rows (axis 0) or columns (axis 1) of x, or x itself, not copied, where those are all."""
    if indices is None or np.array_equal(indices, np.arange(x.shape[axis])):
        return x
    return np.take(x, indices, axis)


def steps_of(
    a: np.ndarray, b: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield some columns of A, as rows, and the rows of B that they meet, converted, until all of k is done."""
    for begin in range(0, b.shape[0], STEPS_AT_A_TIME):
        steps = slice(begin, begin + STEPS_AT_A_TIME)
        yield convert(a[:, steps].T), convert(b[steps])


# ------------------------------------------------------------------------------------------------- the operations


def algebra(semiring: Semiring, dtype: np.dtype[Any]) -> _Algebra:
    """Return the array forms of the operations of `semiring` over `dtype`."""
    add, multiply = semiring.add, semiring.multiply
    known_add, known_multiply = MONOIDS.get(add.name) is add, BINARY_OPS.get(multiply.name) is multiply
    zero = _zero(add.name, dtype) if known_add else semiring.zero(dtype)
    work: Any = dtype
    if known_add and known_multiply and not is_exact(dtype) and not add.is_selective:
        widest = _WIDEST_COMPLEX if is_complex(dtype) else _WIDEST
        work = np.dtype(np.float64) if semiring.is_log_sum else np.dtype(row_of(dtype).wide or widest)
    if not known_multiply:
        times = _elementwise(multiply.function, dtype)
    elif multiply.name == "plus" and add.is_selective and is_integer(dtype):
        times = _saturating_plus(zero, dtype)
    else:
        times = _MULTIPLICATIONS[multiply.name]
    return _Algebra(_ADDITIONS[add.name] if known_add else _elementwise(add.function, dtype), times, zero, work)


def _zero(name: str, dtype: np.dtype[Any]) -> Any:
    """Return the identity of the addition called `name`."""
    value = _ZEROS[name]
    if not isinstance(value, str):
        return np.array(value).astype(dtype)[()]
    if not is_exact(dtype):
        return dtype.type("inf" if value == "greatest" else "-inf")
    bits = 8 * dtype.itemsize
    span = (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return dtype.type(span[value == "greatest"])


def _saturating_plus(zero: Any, dtype: np.dtype[Any]) -> ArrayFunction:
    """Return integer plus where `zero` absorbs and a sum that does not fit becomes the extreme it ran past."""
    least, greatest = _zero("max", dtype), _zero("min", dtype)

    def plus(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if dtype.itemsize < 8:
            total = np.clip(x.astype(np.int64) + y.astype(np.int64), least, greatest).astype(dtype)
        elif dtype.kind == "u":
            total = x + y
            total = np.where(total < x, greatest, total)  # it wrapped
        else:
            total = x + y
            wrapped = ((x ^ total) & (y ^ total)) < 0  # both operands have the sign that the sum lost
            total = np.where(wrapped, np.where(x < 0, least, greatest), total)
        return np.where((x == zero) | (y == zero), zero, total)

    return plus


def _elementwise(function: Callable[[Any, Any], Any], dtype: np.dtype[Any]) -> ArrayFunction:
    """Return a user's scalar `function` over arrays: called once for each element, its result cast to `dtype`."""

    def apply(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = np.broadcast_arrays(x, y)
        values = np.empty(x.size, dtype)
        for index, (left, right) in enumerate(zip(x.ravel(), y.ravel(), strict=True)):
            values[index] = np.asarray(function(left, right)).astype(dtype)
        return values.reshape(x.shape)

    return apply
