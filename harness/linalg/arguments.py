"""Check the matrices and options of the algorithms, once, at the edge, with a message that names the argument."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from harness.api.arrays import Arrays, kind_of
from harness.dtypes import dtype_name
from harness.errors import ProblemError
from harness.scalars import as_count

FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")


class Matrices(NamedTuple):
    """Operands of one kind and dtype, by name; those with one dimension stay so."""

    arrays: Arrays
    dtype: np.dtype[Any]
    inputs: dict[str, Any]


def read_matrices(
    caller: str, operands: dict[str, Any], *, vectors: Collection[str] = (), takes_complex: bool = False
) -> Matrices:
    """Return the operands of `caller` as float matrices; those named in `vectors` may have one dimension.

    With `takes_complex` those on the host may be complex.

    Raises
    ------
    ProblemError
        If one has another dtype, too few dimensions, or lies where the others do not.
    """
    arrays = kind_of(caller, operands)
    inputs = {name: arrays.take(caller, name, x) for name, x in operands.items()}
    known = (*FLOATS, *COMPLEX) if takes_complex and not arrays.on_device else FLOATS
    for name, x in inputs.items():
        if dtype_name(x.dtype) not in known:
            raise ProblemError(
                f"{caller}: {name} has a dtype that it is not computed in",
                expected=" or ".join(known),
                got=str(x.dtype),
                fix=_conversion(name, operands[name], x),
            )
        if x.ndim < (1 if name in vectors else 2):
            raise ProblemError(
                f"{caller}: {name} is not a matrix",
                expected="a vector or a matrix" if name in vectors else "two dimensions",
                got=f"shape {x.shape}",
            )
    dtype = np.result_type(*(x.dtype.newbyteorder("=") for x in inputs.values()))
    return Matrices(arrays, dtype, converted(arrays, inputs, dtype))


def _conversion(name: str, x: Any, array: Any) -> str:
    """Return how an operand `x`, read as `array`, becomes one of floats; empty: of complex numbers nothing does."""
    if hasattr(x, "toarray"):
        return f"{name}.toarray()"
    if array.dtype.kind == "c":
        return ""
    if x is None:
        return f"give {name}"
    return f"{name}.astype('float64')" if hasattr(x, "astype") else f"numpy.array({name}, 'float64')"


def converted(arrays: Arrays, inputs: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """Return the arrays by name with that dtype, on the device where they are."""
    with arrays.in_force():
        return {name: arrays.converted(x, np.dtype(dtype)) for name, x in inputs.items()}


def check_square(caller: str, a: Any, *, stacked: bool = False) -> None:
    """Raise unless `a` is a square matrix, or with `stacked` a stack of them."""
    if a.shape[-1] != a.shape[-2] or (a.ndim > 2 and not stacked):
        expected = "shape (..., n, n)" if stacked else "shape (n, n)"
        raise ProblemError(f"{caller}: a is not square", expected=expected, got=f"shape {a.shape}")


def check_finite(caller: str, inputs: dict[str, Any], arrays: Arrays, fix: str = "") -> None:
    """Raise, with `fix`, unless all elements of all matrices are finite; on a GPU the host waits for the answer."""
    for name, x in inputs.items():
        with arrays.in_force():
            is_finite = arrays.module.isfinite(x)
            if is_finite.all():
                continue
            first = tuple(int(i) for i in np.argwhere(~to_host(arrays, is_finite))[0])
            what, got = f"{caller}: {name} holds NaN or infinity", f"{x[first]} at {first}"
            raise ProblemError(what, expected="finite numbers", got=got, fix=fix)


def check_rows(caller: str, b: Any, rows: int) -> None:
    """Raise unless `b`, a vector or a matrix, has so many rows."""
    got = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if got != rows:
        raise ProblemError(
            f"{caller}: b does not have as many rows as a",
            expected=f"({rows},) or (..., {rows}, r)",
            got=f"shape {b.shape}",
            fix="b.T" if b.ndim == 2 and b.shape[1] == rows else "",
        )


def check_option(caller: str, option: str, value: object, known: Collection[str]) -> None:
    """Raise unless `value` is one of the `known` values of an option."""
    if not isinstance(value, str) or value not in known:
        raise ProblemError(f"{caller}: unknown {option}", expected=" or ".join(known), got=repr(value))


def check_flag(caller: str, option: str, value: object) -> None:
    """Raise unless `value` is True or False: letters, as of BLAS, would all count as True."""
    if not isinstance(value, bool | np.bool_):
        raise ProblemError(f"{caller}: {option} is no flag", expected="True or False", got=repr(value))


def check_count(caller: str, option: str, value: object, *, least: int = 1) -> int:
    """Return the option `value` as a number, or raise unless it is an integer of at least `least`."""
    count = as_count(value, least=least)
    if count is None:
        raise ProblemError(f"{caller}: {option} is no count", expected=f"an integer >= {least}", got=repr(value))
    return count


def to_host(arrays: Arrays, x: Any) -> Any:
    """Return `x` on the host; an array that lies there is returned itself."""
    return x.get() if arrays.on_device else x
