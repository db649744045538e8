"""The two operations of a semiring as functions that Numba inlines into a kernel, typed to the kernel's dtype.

Floating-point min and max are LLVM's ``minimumnum`` and ``maximumnum``: of two operands, one NaN, they return the
other. That is the product's rule "a NaN term is absent", and unlike a compare and select LLVM's loop vectoriser takes
it for a reduction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

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


def operators(semiring: Semiring, dtype: np.dtype[Any]) -> Operators:
    """Compile the operations of `semiring` for scalars of `dtype`."""
    add = semiring.add.function
    if dtype.kind == "f" and not numba.config.DISABLE_JIT:
        add = _NUMBER_FORMS.get(id(add), add)
    return Operators(_typed(add, dtype), _typed(semiring.multiply_function(dtype), dtype), semiring.zero(dtype))


def _typed(function: ScalarFunction, dtype: np.dtype[Any]) -> Any:
    """Return `function` with its result cast back to `dtype`: Numba widens small integers, and integer sums wrap."""
    inner, cast = (function if _is_intrinsic(function) else numba.njit(function)), dtype.type

    def operation(x: Any, y: Any) -> Any:
        return cast(inner(x, y))

    return numba.njit(operation)


def _is_intrinsic(function: Any) -> bool:
    return function in _NUMBER_FORMS.values()


def _number_form(name: str) -> Any:
    # llvm.minimumnum and llvm.maximumnum, LLVM Language Reference; without regard to the sign of zero
    @intrinsic
    def select_number(typing_context: Any, c: Any, t: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            scalar = args[0].type
            width = 64 if scalar == ir.DoubleType() else 32
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(scalar, [scalar, scalar]), f"llvm.{name}.f{width}"
            )
            return builder.call(function, args, fastmath=("nsz",))

        return c(c, c), emit

    return select_number


_NUMBER_FORMS: dict[int, Any] = {
    id(MONOIDS["min"].function): _number_form("minimumnum"),
    id(MONOIDS["max"].function): _number_form("maximumnum"),
}
