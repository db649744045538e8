"""Semirings: a Monoid (+) and a BinaryOp (x) of `harness.semiring.operations`, and the named table.

A product over a semiring is ``D[i, j] = (+)_p  A[i, p] (x) B[p, j]``. The rules (also the product's, see
docs/semirings.md):

* NaN: a term with a NaN factor is NaN, unless (x) does not look at that factor (pair, first, second). Under min and max
  a NaN term is absent; every other (+) follows IEEE.
* Integers: where (x) is plus and (+) is min or max, the dtype's extreme is the zero and absorbs. Any other sum then
  saturates at the extremes. Every other integer operation wraps, as NumPy's does.
* float16: only where nothing is rounded twice, that is, (+) selects and (x) is exact or one operation.
* k = 0 gives the zero.

Names are spelled ``add_mul`` as python-graphblas does. Source: GraphBLAS C API 2.1, sections 3.5 to 3.9.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import scalars
from harness.dtypes import DTYPES, HALF, KINDS, highest, is_integer, lowest
from harness.errors import ProblemError
from harness.scalars import Scalar, ScalarFunction
from harness.semiring.meaning import HasMeaning
from harness.semiring.operations import (
    BINARY_OPS,
    MONOIDS,
    BinaryOp,
    Constant,
    Identity,
    Monoid,
    check_operation,
    check_takes_two,
    find_binary_op,
    find_monoid,
    look_up,
    reduced,
)

__all__ = [
    "BINARY_OPS",
    "DTYPES",
    "HALF",
    "MONOIDS",
    "SEMIRINGS",
    "BinaryOp",
    "Monoid",
    "Scalar",
    "ScalarFunction",
    "Semiring",
    "as_semiring",
    "highest",
    "lowest",
]

# The (x) whose results over `HALF` are exact or rounded once. Such a term may be computed in float32 and then rounded,
# since 24 bits are more than twice 11; so may a minimum of terms.
_ROUNDED_ONCE = frozenset("plus times min max pair first second absdiff".split())


@dataclass(frozen=True, eq=False)
class Semiring(HasMeaning):
    """A Monoid (+) and a BinaryOp (x).

    Parameters
    ----------
    add : Monoid
    multiply : BinaryOp
    name : str, optional
        Derived as ``"{add}_{multiply}"`` when not given.
    is_commutative : bool
        It is a commutative semiring: (x) commutes, associates and distributes over (+), and the zero absorbs. Then
        several operands may be contracted in any order (`harness.einsum`). Known of pairs of the tables.

    Notes
    -----
    Pickled or copied, a semiring of the table stays the same object. Two of functions of your own are equal if they
    compute the same: their functions have equal code and capture equal values, whatever they are called. Kernels are
    compiled once for all that are equal.

    Examples
    --------
    >>> Semiring.of("max", "absdiff").name
    'max_absdiff'
    """

    add: Monoid
    multiply: BinaryOp
    name: str = ""
    is_commutative: bool = False

    def __post_init__(self) -> None:
        check_operation("add", self.add, Monoid)
        check_operation("multiply", self.multiply, BinaryOp)
        if not self.name:
            object.__setattr__(self, "name", f"{self.add.name}_{self.multiply.name}")
        if f"{self.add.name}_{self.multiply.name}" in _COMMUTATIVE and self.is_tabled:
            object.__setattr__(self, "is_commutative", True)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self, SEMIRINGS, as_semiring)

    @classmethod
    def of(cls, add: str, multiply: str) -> Semiring:
        """Build a semiring from named operations, for instance ``Semiring.of("plus", "absdiff")``.

        Raises
        ------
        ProblemError
            If an operation is not in `MONOIDS` or `BINARY_OPS`.
        """
        return cls(find_monoid(add), find_binary_op(multiply))

    @classmethod
    def from_functions(
        cls,
        name: str,
        add: ScalarFunction,
        multiply: ScalarFunction,
        *,
        zero: Scalar,
        one: Scalar = None,
        kinds: str = "iuf",
        is_selective: bool = False,
        is_commutative: bool = False,
    ) -> Semiring:
        """Build a semiring from two Python functions that Numba can compile, or has compiled.

        Parameters
        ----------
        name : str
            Must not be the name of a semiring of the table.
        add : callable
            ``add(c, t)``: associative and commutative, with `zero` as identity. A function that may raise is refused.
            Integers divided by 0 give 0. Results are cast to the dtype, so ``x / y`` over int32 is cut.
        multiply : callable
            ``multiply(x, y)``.
        zero, one : scalar or callable
            The identities of `add` and `multiply`, or functions of the dtype that return them. No `one`: there is none.
        kinds : str
            NumPy dtype kinds it is defined for, from `harness.dtypes.KINDS`.
        is_selective : bool
            `add` returns one of its operands, so that results are exact in any order.
        is_commutative : bool
            The laws of a commutative semiring hold, as at `Semiring`.

        Raises
        ------
        ProblemError
            If the name is empty or taken, a function is not callable with two scalars, an identity is no number, or
            `kinds` has other letters.
        """
        if not isinstance(name, str) or not name.strip():
            raise ProblemError("the name of a semiring is no word", expected="a name of your own", got=repr(name))
        if name in SEMIRINGS:
            raise ProblemError(f"semiring {name!r} is in the table already", fix="choose another name")
        add, multiply = (getattr(function, "py_func", function) for function in (add, multiply))  # of numba.njit
        for role, function in (("add", add), ("multiply", multiply)):
            if not callable(function):
                raise ProblemError(
                    f"semiring {name!r}: {role} is not a function",
                    expected="a function of two scalars",
                    got=repr(function),
                )
            check_takes_two(function, f"semiring {name!r}: {role}")
        for role, identity in (("zero", zero), ("one", 0 if one is None else one)):
            if not callable(identity) and all(scalars.as_value(identity, dtype) is None for dtype in DTYPES):
                raise ProblemError(
                    f"semiring {name!r}: {role} is no number",
                    expected="a number, or a function of the dtype that returns one",
                    got=repr(identity),
                )
        if not isinstance(kinds, str) or not kinds or set(kinds) - set(KINDS):
            raise ProblemError(
                f"semiring {name!r}: kinds is not understood",
                expected=f"letters of {KINDS!r}: bool, signed and unsigned integers, floats, complex numbers",
                got=repr(kinds),
            )
        return cls(
            Monoid(f"{name}.add", add, _as_identity(zero), kinds, is_selective),
            BinaryOp(f"{name}.multiply", multiply, None if one is None else _as_identity(one), kinds),
            name,
            is_commutative,
        )

    @property
    def is_named(self) -> bool:
        """True if this is a semiring of the table, so that its name alone describes it."""
        return SEMIRINGS.get(self.name) is self

    @property
    def is_tabled(self) -> bool:
        """True if both operations are those of the tables, and none is a function of the user's own."""
        return MONOIDS.get(self.add.name) is self.add and BINARY_OPS.get(self.multiply.name) is self.multiply

    @property
    def counts_name(self) -> bool:
        """True if the name is part of what it is: that of one of the table, or of tabled operations."""
        return self.is_tabled or self.name in SEMIRINGS

    @property
    def is_ordinary(self) -> bool:
        """True if this is plus_times, which BLAS computes."""
        return self.add.name == "plus" and self.multiply.name == "times"

    @property
    def is_log_sum(self) -> bool:
        """True if (+) is logaddexp, which kernels compute by a maximum and a sum of exponentials."""
        return self.add.name == "logaddexp"

    def zero(self, dtype: np.dtype[Any]) -> Scalar:
        """Return the identity of (+) as a scalar of `dtype`."""
        return dtype.type(self.add.identity(dtype))

    def one(self, dtype: np.dtype[Any]) -> Scalar:
        """Return the identity of (x) as a scalar of `dtype`, or None if it has none."""
        return None if self.multiply.identity is None else dtype.type(self.multiply.identity(dtype))

    def absorbs(self, dtype: np.dtype[Any]) -> bool:
        """Return whether (x) over `dtype` is an integer sum in which the zero stands for infinity and absorbs."""
        return is_integer(dtype) and self.add.is_selective and self.multiply.absorbing is not None

    def multiply_function(self, dtype: np.dtype[Any]) -> ScalarFunction:
        """Return the scalar function of (x) for `dtype`."""
        if self.absorbs(dtype) and self.multiply.absorbing is not None:
            return self.multiply.absorbing(self.zero(dtype), lowest(dtype), highest(dtype))
        return self.multiply.function

    def unsupported(self, dtype: np.dtype[Any]) -> str | None:
        """Return why `dtype` makes no sense in this semiring, or None if it does."""
        for op in (self.add, self.multiply):
            if dtype.kind not in op.kinds:
                return f"{op.name} is not defined for {dtype.name}"
        if dtype == HALF and not self._is_rounded_once():
            return "elements would be rounded more than once"
        if not self.is_tabled and (fault := self._fault(dtype)):
            return fault
        if self.absorbs(dtype) and self.one(dtype) == self.zero(dtype):
            return f"{self.name} has no one in {dtype.name}: its zero, {self.zero(dtype)}, absorbs"
        return None

    def _fault(self, dtype: np.dtype[Any]) -> str | None:
        """Return which identity or result of a function of the user's own is no scalar of `dtype`, or None."""
        for role, identity in (("zero", self.add.identity), ("one", self.multiply.identity)):
            try:
                value = None if identity is None else identity(dtype)
            except Exception as error:  # noqa: BLE001 the user's function may raise anything
                return f"its {role} cannot be computed: {type(error).__name__}: {error}"
            if identity is not None and scalars.as_value(value, dtype) is None:
                return f"its {role}, {value!r}, is no value of {dtype.name}"
        for role, op in (("add", self.add), ("multiply", self.multiply)):
            with contextlib.suppress(Exception), np.errstate(all="ignore"):  # what is meant for Numba need not run here
                result = op.function(dtype.type(1), dtype.type(1))
                if np.ndim(result):
                    return f"{role} returns a {type(result).__name__}, and no scalar"
        return self._false_identity(dtype)

    def _false_identity(self, dtype: np.dtype[Any]) -> str | None:
        """Return which identity changes a 1, or None: the likeliest mistake is a zero of minima that is not inf."""
        x = dtype.type(1)
        for role, of, identity, function in (
            ("zero", "add", self.zero(dtype), self.add.function),
            ("one", "multiply", self.one(dtype), self.multiply.function),
        ):
            with contextlib.suppress(Exception), np.errstate(all="ignore"):  # as above
                result = x if identity is None else function(identity, x)
                if result != x and scalars.as_value(result, dtype) is not None:
                    return f"its {role}, {identity}, is no identity of {of}: {of}({identity}, {x}) is {result}"
        return None

    def _is_rounded_once(self) -> bool:
        return self.is_tabled and self.add.is_selective and self.multiply.name in _ROUNDED_ONCE


def _as_identity(value: Scalar) -> Identity:
    return value if callable(value) else Constant(value)


# max_times and min_times are commutative semirings over numbers >= 0 alone: a negative factor reverses the order.
_COMMUTATIVE = frozenset(
    "plus_times min_plus max_plus max_min min_max lor_land land_lor lxor_land logaddexp_plus".split()
)

_NAMED = """plus_times min_plus max_plus max_min min_max max_times min_times
lor_land lxor_land plus_min plus_pair logaddexp_plus"""

SEMIRINGS: dict[str, Semiring] = {}
for _name in _NAMED.split():
    SEMIRINGS[_name] = Semiring.of(*_name.split("_"))


def as_semiring(semiring: str | Semiring) -> Semiring:
    """Return the semiring of that name, or `semiring` itself if it is one.

    Raises
    ------
    ProblemError
        If the name is not in the table, with the closest that is.
    """
    if isinstance(semiring, Semiring):
        return semiring
    if not isinstance(semiring, str):
        raise ProblemError(
            "semiring is neither a name nor a Semiring",
            expected="one of " + ", ".join(SEMIRINGS) + ", or a Semiring object",
            got=f"{type(semiring).__name__}: {semiring!r}",
        )
    known: Semiring = look_up(SEMIRINGS, semiring, "semiring")
    return known
