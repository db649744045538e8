"""The two operations of a semiring as functions that Numba inlines into a kernel, typed to the kernel's dtype.

Floating-point min and max are LLVM's ``minimumnum`` and ``maximumnum``: if one of two operands is NaN, they return the
other. That is the product's rule "a NaN term is absent". LLVM's loop vectoriser takes them for a reduction, unlike a
compare and select. That is one instruction of x86, and does where nothing is reduced and the accumulator is no NaN.

Integers wrap. Numba tells LLVM that sums and products of int64 never overflow (``nsw``), so that ``y - x`` where x is
less becomes an absolute value, with another sign where it overflows. So these are instructions of our own, without it.
Narrower integers are computed as int64, where nothing of the table overflows.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, NamedTuple

import numba
import numpy as np

from backends.cpu._vector.code import Builder, Value, call_on_floats
from backends.cpu._vector.inlined import inlined
from backends.cpu._vector.intrinsics import emits
from harness import scalars
from harness.dtypes import is_complex, is_float
from harness.errors import ProblemError, check_imports
from harness.semiring import BINARY_OPS, MONOIDS, ScalarFunction, Semiring

# For functions of NumPy, built-in ones and other objects that can be called.
_PYTHON_FORM = "write it in Python: lambda x, y: max(x, y) for numpy.maximum or max, lambda x, y: x + y for numpy.add"

_PLAIN = "leave texts, imports and **keywords out, and return a number on every path"

# What Numba calls an exception in LLVM's code: a constant, which is left out where no path raises it.
_EXCEPTION = "@.const.picklebuf"


class Operators(NamedTuple):
    """Operations and zero that a kernel closes over.

    Attributes
    ----------
    add : function
        ``add(c, t)``, accumulator first.
    multiply : function
        ``multiply(x, y)``.
    zero : scalar
        The identity of `add`, of the kernel's dtype.
    """

    add: Any
    multiply: Any
    zero: Any


def operators(semiring: Semiring, dtype: np.dtype[Any], *, widens: bool = False, reduces: bool = True) -> Operators:
    """Compile the operations of `semiring` for scalars of `dtype`; with `widens`, (x) takes narrower ones.

    Without `reduces`, (+) of floats is as the semiring has it, for accumulators that are never NaN.

    Raises
    ------
    ProblemError
        If Numba cannot compile a function of the user's.
    """
    check_imports("kernels")
    add, multiply = semiring.add.function, semiring.multiply_function(dtype)
    for role, function in (("add", add), ("multiply", multiply)):
        if getattr(function, "__module__", "") != scalars.__name__ and not numba.config.DISABLE_JIT:
            _require_compiles(function, dtype, f"semiring {semiring.name!r}: {role}")
    if is_float(dtype) and reduces and not numba.config.DISABLE_JIT:
        add = _NUMBER_FORMS.get(id(add), add)
    if dtype == np.int64 and not numba.config.DISABLE_JIT:
        add, multiply = (_WRAPPING_FORMS.get(id(function), function) for function in (add, multiply))
    if is_complex(dtype) and multiply is scalars.times:
        multiply = _by_four_products
    multiply = _typed(multiply, dtype)
    return Operators(_typed(add, dtype), _widening(multiply, dtype) if widens else multiply, semiring.zero(dtype))


def _by_four_products(x: Any, y: Any) -> Any:
    """Return the product as it is defined: Python's own has infinities since 3.14 where four products have NaN."""
    return complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _typed(function: ScalarFunction, dtype: np.dtype[Any]) -> Any:
    """Return `function` with its result cast back to `dtype`: Numba widens small integers, and integer sums wrap."""
    is_own = function in _NUMBER_FORMS.values() or function in _WRAPPING_FORMS.values()
    inner, cast = function if is_own else inlined(function), dtype.type

    def operation(x: Any, y: Any) -> Any:
        return cast(inner(x, y))

    return inlined(operation)


@functools.lru_cache(maxsize=64)
def _require_compiles(function: ScalarFunction, dtype: np.dtype[Any], who: str) -> None:
    """Raise ProblemError if Numba cannot compile `function` for two scalars of `dtype`: alone its message is short.

    Neither may it raise: an exception inside a parallel loop is lost, and elements would be left uncomputed.
    """
    scalar = numba.from_dtype(dtype)
    try:
        of_kernels = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
        alone = numba.njit(_typed(function, dtype).py_func, **of_kernels)
        alone.compile((scalar, scalar))
    except Exception as error:  # noqa: BLE001 Numba passes on what its own code raises at what it does not know
        told = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("Failed in")]
        raise ProblemError(
            f"{who} cannot be compiled by Numba for {dtype.name}",
            expected="a Python function of two scalars, of arithmetic, comparisons, min, max and the math module",
            got=told[0] if told else type(error).__name__,
            fix=_PLAIN if inspect.isfunction(function) else _PYTHON_FORM,
        ) from None
    if _EXCEPTION in alone.inspect_llvm(alone.signatures[0]):
        raise ProblemError(
            f"{who} may raise an exception for {dtype.name}, which parallel loops cannot pass on",
            expected="a function without raise and assert, and without an index that may be out of range",
            fix="return a value in its place: the zero, or NaN",
        )


def _widening(function: Any, dtype: np.dtype[Any]) -> Any:
    """Return `function` of two scalars that are cast to `dtype` first."""
    cast = dtype.type

    def operation(x: Any, y: Any) -> Any:
        return function(cast(x), cast(y))

    return inlined(operation)


def _number_form(name: str) -> Any:
    return emits()(lambda builder, c, t: call_on_floats(builder, name, c, t))


# LLVM Language Reference: llvm.minimumnum, llvm.maximumnum
_NUMBER_FORMS: dict[int, Any] = {
    id(MONOIDS["min"].function): _number_form("minimumnum"),
    id(MONOIDS["max"].function): _number_form("maximumnum"),
}


def _distance(builder: Builder, x: Value, y: Value) -> Value:
    return builder.select(builder.icmp_signed(">", x, y), builder.sub(x, y), builder.sub(y, x))


def _squared_distance(builder: Builder, x: Value, y: Value) -> Value:
    difference = builder.sub(x, y)
    return builder.mul(difference, difference)


_WRAPPING_FORMS: dict[int, Any] = {
    id(BINARY_OPS["plus"].function): emits()(lambda builder, x, y: builder.add(x, y)),
    id(BINARY_OPS["times"].function): emits()(lambda builder, x, y: builder.mul(x, y)),
    id(BINARY_OPS["absdiff"].function): emits()(_distance),
    id(BINARY_OPS["sqdiff"].function): emits()(_squared_distance),
}
