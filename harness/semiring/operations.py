"""Scalar operations: a Monoid can stand as (+) and a BinaryOp as (x), with their identities and their tables.

Every function is plain Python that Numba can compile, so that any backend can inline it. An identity is computed from
the dtype. An operation of the tables stays the same object when it is pickled or copied.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import scalars
from harness.dtypes import highest, lowest
from harness.errors import ProblemError
from harness.scalars import Scalar, ScalarFunction
from harness.semiring.meaning import HasMeaning

Identity = Callable[[np.dtype[Any]], Scalar]


@dataclass(frozen=True, eq=False)
class Constant(HasMeaning):
    """The identity that is the same number in every dtype: a function of the dtype that can be pickled."""

    value: Scalar

    def __call__(self, dtype: np.dtype[Any]) -> Scalar:
        return self.value


@dataclass(frozen=True, eq=False)
class BinaryOp(HasMeaning):
    """A scalar function ``(x, y) -> z`` that can stand as (x).

    Parameters
    ----------
    name : str
        GraphBLAS name in lower case: ``"plus"``, ``"min"``.
    function : callable
        Plain Python that Numba can compile; receives and returns scalars of the problem's dtype.
    identity : callable, optional
        ``identity(dtype)``: the one of a semiring that multiplies with it. None: it has none.
    kinds : str
        NumPy dtype kinds it is defined for, from `harness.dtypes.KINDS`.
    absorbing : callable, optional
        ``absorbing(zero, low, high) -> function``: the form to use on integers where an extreme stands for infinity.
    ufunc : callable, optional
        The same function elementwise over NumPy arrays.
    is_commutative : bool
        ``x (x) y`` is ``y (x) x``, so that a matrix by its own transpose is symmetric.
    """

    name: str
    function: ScalarFunction
    identity: Identity | None = None
    kinds: str = "iuf"
    absorbing: Callable[[Scalar, Scalar, Scalar], ScalarFunction] | None = None
    ufunc: Callable[..., Any] | None = None
    is_commutative: bool = False

    @property
    def counts_name(self) -> bool:
        """True if it has a name of the table, by which kernels know what they compute otherwise."""
        return self.name in BINARY_OPS

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self, BINARY_OPS, find_binary_op)


@dataclass(frozen=True, eq=False)
class Monoid(HasMeaning):
    """An associative and commutative ``(c, t) -> c`` with an identity, that can stand as (+).

    Parameters
    ----------
    name, function, kinds, ufunc
        As in `BinaryOp`; `function` gets the accumulator first. `ufunc` must have ``reduce``.
    identity : callable
        ``identity(dtype)``: the semiring's zero.
    is_selective : bool
        The result is always one of the operands (min, max; or, and): exact in any order, a NaN term is absent.
    """

    name: str
    function: ScalarFunction
    identity: Identity
    kinds: str = "iuf"
    is_selective: bool = False
    ufunc: Any = None

    @property
    def counts_name(self) -> bool:
        """True if it has a name of the table, by which kernels know what they compute otherwise."""
        return self.name in MONOIDS

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self, MONOIDS, find_monoid)


def check_operation(role: str, op: object, kind: type) -> None:
    """Raise ProblemError unless `op`, which a Semiring is given as its `role`, is one of that kind."""
    if not isinstance(op, kind):
        raise ProblemError(
            f"Semiring: {role} is no {kind.__name__}",
            expected=f"an object of {kind.__name__}",
            got=repr(op),
            fix="Semiring.of takes names, Semiring.from_functions takes functions",
        )


def check_takes_two(function: ScalarFunction, who: str) -> None:
    """Raise ProblemError if `function` cannot be called with two scalars; some built-in functions do not say."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(0, 0)
    except TypeError:
        got = f"a function of {signature}"
        raise ProblemError(f"{who} does not take two scalars", expected="a function of (x, y)", got=got) from None


def find_monoid(name: str) -> Monoid:
    """Return the monoid of that name; raise ProblemError, with the closest that there is, if there is none."""
    monoid: Monoid = look_up(MONOIDS, name, "monoid")
    return monoid


def find_binary_op(name: str) -> BinaryOp:
    """Return the binary operation of that name; raise ProblemError, as `find_monoid`, if there is none."""
    op: BinaryOp = look_up(BINARY_OPS, name, "binary operation")
    return op


def look_up(table: Mapping[str, Any], name: str, noun: str) -> Any:
    """Return the entry of that name; raise ProblemError, with the closest that there is, if there is none."""
    if not isinstance(name, str) or name not in table:
        raise ProblemError.unknown(noun, name, table)
    return table[name]


def reduced(x: Any, table: Mapping[str, Any], find: Callable[[str], Any]) -> tuple[Any, ...]:
    """Return the pickled and copied form of `x`: what finds it in the table, so that it stays one; else its parts."""
    if x.name in table and table[x.name] is x:
        return find, (x.name,)
    return type(x), tuple(getattr(x, field.name) for field in dataclasses.fields(x))


MONOIDS = {
    monoid.name: monoid
    for monoid in (
        Monoid("plus", scalars.plus, Constant(0), kinds="iufc", ufunc=np.add),
        Monoid("min", scalars.keep_smaller, highest, is_selective=True, ufunc=np.fmin),
        Monoid("max", scalars.keep_greater, lowest, is_selective=True, ufunc=np.fmax),
        Monoid("times", scalars.times, Constant(1), ufunc=np.multiply),
        Monoid("lor", scalars.lor, lowest, kinds="b", is_selective=True, ufunc=np.logical_or),
        Monoid("land", scalars.land, highest, kinds="b", is_selective=True, ufunc=np.logical_and),
        Monoid("lxor", scalars.lxor, lowest, kinds="b", ufunc=np.logical_xor),
        Monoid("logaddexp", scalars.logaddexp, lowest, kinds="f", ufunc=np.logaddexp),
    )
}

BINARY_OPS = {
    op.name: op
    for op in (
        BinaryOp(
            "plus", scalars.plus, Constant(0), absorbing=scalars.absorbing_plus, ufunc=np.add, is_commutative=True
        ),
        BinaryOp("times", scalars.times, Constant(1), kinds="iufc", ufunc=np.multiply, is_commutative=True),
        BinaryOp("min", scalars.minimum, highest, ufunc=np.minimum, is_commutative=True),
        BinaryOp("max", scalars.maximum, lowest, ufunc=np.maximum, is_commutative=True),
        BinaryOp(
            "pair",
            scalars.pair,
            ufunc=lambda x, y: np.ones(np.broadcast_shapes(x.shape, y.shape), x.dtype),
            is_commutative=True,
        ),
        BinaryOp("first", scalars.first, ufunc=lambda x, y: np.broadcast_arrays(x, y)[0]),
        BinaryOp("second", scalars.second, ufunc=lambda x, y: np.broadcast_arrays(x, y)[1]),
        BinaryOp(
            "absdiff", scalars.absdiff, ufunc=lambda x, y: np.maximum(x, y) - np.minimum(x, y), is_commutative=True
        ),
        BinaryOp("sqdiff", scalars.sqdiff, ufunc=lambda x, y: (x - y) * (x - y), is_commutative=True),
        BinaryOp("land", scalars.land, highest, kinds="b", ufunc=np.logical_and, is_commutative=True),
        BinaryOp("lor", scalars.lor, lowest, kinds="b", ufunc=np.logical_or, is_commutative=True),
    )
}
