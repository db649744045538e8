"""One product to compute: sizes, dtype, semiring, alpha and beta. Validates itself; knows its work and its traffic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.errors import ProblemError
from harness.semiring import DTYPES, SEMIRINGS, Scalar, Semiring, as_semiring


@dataclass(frozen=True)
class Problem:
    """``D = (alpha (x) A (x) B) (+) (beta (x) C)`` with A (m, k), B (k, n), C and D (m, n).

    Parameters
    ----------
    m, n, k : int
        Sizes, in elements; zero is legal.
    semiring : Semiring or str
    dtype : numpy dtype
        Of every operand and of the result.
    alpha : scalar, optional
        None: the semiring's one, that is, no factor.
    beta : scalar, optional
        None: the semiring's one. Only with `accumulate`.
    accumulate : bool
        Whether there is a C. Without one, what the output held before is never read.
    layout : str
        Memory order of A, B and the output, a letter each: ``C`` rows contiguous, ``F`` columns contiguous, ``A`` any
        strides.

    Raises
    ------
    ProblemError
        If a size is negative, the semiring is unknown, the dtype makes no sense in it, or a scalar is NaN or no value
        of the dtype.
    """

    m: int
    n: int
    k: int
    semiring: Semiring = field(default=SEMIRINGS["plus_times"])
    dtype: np.dtype[Any] = field(default=np.dtype(np.float64))
    alpha: Scalar = None
    beta: Scalar = None
    accumulate: bool = False
    layout: str = "CCC"

    def __post_init__(self) -> None:
        for name in "mnk":
            object.__setattr__(self, name, _as_size(name, getattr(self, name)))
        object.__setattr__(self, "semiring", as_semiring(self.semiring))
        object.__setattr__(self, "dtype", _as_dtype(self.dtype, self.semiring))
        if self.beta is not None and not self.accumulate:
            raise ProblemError("beta is given without a C", fix="give c, or leave beta out")
        for name in ("alpha", "beta"):
            object.__setattr__(self, name, self._as_scalar(name, getattr(self, name)))
        if self.accumulate and self.beta is not None and self.beta == self.semiring.zero(self.dtype):
            object.__setattr__(self, "accumulate", False)  # zero (x) C is absent: C is not read
            object.__setattr__(self, "beta", None)
        if len(self.layout) != 3 or set(self.layout) - set("CFA"):
            raise ProblemError(
                "layout is not understood",
                expected="three letters of C, F and A, for A, B and the output",
                got=repr(self.layout),
            )

    def _as_scalar(self, name: str, value: Scalar) -> Scalar:
        if value is None:
            return None
        scalar = np.asarray(value)
        fits = scalar.ndim == 0 and scalar.dtype.kind in "biuf"
        if fits and scalar.dtype.kind == "f" and np.isnan(scalar):
            raise ProblemError(f"{name} is NaN", expected=f"a value of {self.dtype.name}", got=repr(value))
        if fits:
            with np.errstate(all="ignore"):
                converted = scalar.astype(self.dtype)[()]
            is_rounded_float = self.dtype.kind == "f" and np.isfinite(converted) == np.isfinite(scalar)
            same_kind = (scalar.dtype.kind == "b") == (self.dtype.kind == "b")
            fits = same_kind and (is_rounded_float or bool(converted == scalar))
        if not fits:
            raise ProblemError(
                f"{name} is no value of the product's dtype",
                expected=f"a scalar that {self.dtype.name} can hold",
                got=repr(value),
                fix="change it, or convert a and b to a wider dtype",
            )
        one = self.semiring.one(self.dtype)
        return None if one is not None and converted == one else converted

    @property
    def pairs(self) -> int:
        """One (x) followed by one (+): a k step of one element of the result."""
        return self.m * self.n * self.k

    @property
    def operations(self) -> int:
        """Two per pair. They are floating-point operations (FLOP) only for plus_times over floats."""
        return 2 * self.pairs

    @property
    def bytes_moved(self) -> int:
        """Least traffic, in bytes: every operand read once and the result written once."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n * (2 if self.accumulate else 1)
        return elements * self.dtype.itemsize

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object from which `from_json` makes an equal Problem; the semiring must be a named one."""
        if not self.semiring.is_named:
            raise ProblemError(
                f"semiring {self.semiring.name!r} has no name in the table",
                expected="one of " + ", ".join(SEMIRINGS) + " where a problem is stored",
            )
        return {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "semiring": self.semiring.name,
            "dtype": self.dtype.name,
            "alpha": None if self.alpha is None else self.alpha.item(),
            "beta": None if self.beta is None else self.beta.item(),
            "accumulate": self.accumulate,
            "layout": self.layout,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Problem:
        """Return the Problem that `to_json` described."""
        return cls(**{**record, "dtype": np.dtype(record["dtype"])})

    def __str__(self) -> str:
        return f"{self.semiring.name} {self.dtype.name} {self.m}x{self.n}x{self.k}"


def _as_size(name: str, value: Any) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise ProblemError(f"size {name} is not a size", expected="an integer, 0 or more", got=repr(value))


def _as_dtype(dtype: Any, semiring: Semiring) -> np.dtype[Any]:
    try:
        native: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        raise ProblemError("dtype is not a NumPy dtype", expected=_dtype_names(), got=repr(dtype)) from None
    if native not in DTYPES:
        raise ProblemError(
            f"dtype {native.name} is not supported", expected=_dtype_names(), got=native.name, fix="convert with astype"
        )
    reason = semiring.unsupported(native)
    if reason:
        legal = [d.name for d in DTYPES if semiring.unsupported(d) is None]
        raise ProblemError(
            f"semiring {semiring.name} does not take {native.name}: {reason}",
            expected=", ".join(legal),
            got=native.name,
            fix=f"convert with astype({legal[0]!r})" if legal else "",
        )
    return native


def _dtype_names() -> str:
    return ", ".join(d.name for d in DTYPES)
