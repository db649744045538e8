"""The two operations of a semiring as functions that Numba inlines into a kernel, typed to the kernel's dtype.

Floating-point min and max are LLVM's ``minimumnum`` and ``maximumnum``: if one of two operands is NaN, they return the
other. That is the product's rule "a NaN term is absent". LLVM's loop vectoriser takes them for a reduction, unlike a
compare and select.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from backends.cpu._compile.inlined import inlined
from backends.cpu._vector.code import call_on_floats
from backends.cpu._vector.intrinsics import emits
from harness.semiring import MONOIDS, ScalarFunction, Semiring


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


def operators(semiring: Semiring, dtype: np.dtype[Any], *, widens: bool = False) -> Operators:
    """Compile the operations of `semiring` for scalars of `dtype`; with `widens`, (x) takes narrower ones."""
    add = semiring.add.function
    if dtype.kind == "f" and not numba.config.DISABLE_JIT:
        add = _NUMBER_FORMS.get(id(add), add)
    multiply = _typed(semiring.multiply_function(dtype), dtype)
    return Operators(_typed(add, dtype), _widening(multiply, dtype) if widens else multiply, semiring.zero(dtype))


def _typed(function: ScalarFunction, dtype: np.dtype[Any]) -> Any:
    """Return `function` with its result cast back to `dtype`: Numba widens small integers, and integer sums wrap."""
    inner, cast = (function if function in _NUMBER_FORMS.values() else inlined(function)), dtype.type

    def operation(x: Any, y: Any) -> Any:
        return cast(inner(x, y))

    return inlined(operation)


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
