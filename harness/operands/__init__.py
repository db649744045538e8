"""Seeded operands of a stated distribution for a Problem, and a poisoned output.

Values are never zeros, ones or small integers throughout: those change the speed of hardware and hide unwritten output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.dtypes import is_bool, is_complex, is_exact
from harness.operands.layout import (
    CACHE_LINE,
    aligned_empty,
    broadcast,
    collapsed,
    data_address,
    distinct,
    shares_with_itself,
    span,
    stacks,
)
from harness.problem import Problem

__all__ = [
    "CACHE_LINE",
    "Operands",
    "aligned_empty",
    "broadcast",
    "collapsed",
    "conjugated",
    "data_address",
    "distinct",
    "lower_triangle",
    "poison",
    "shares_with_itself",
    "span",
    "stacks",
    "write_result",
]

ROWS_AT_A_TIME = 1024  # are drawn: bounds the memory that it takes

_COMPLEX64, _SIGN_OF_IMAGINARY = np.dtype(np.complex64), np.uint64(1 << 63)


@dataclass
class Operands:
    """The arrays of one product, or of a batch.

    Parameters
    ----------
    a : (m, k) array
    b : (k, n) array
    c : (m, n) array or None
        The operand C; never written.
    out : (m, n) array
        Where the result goes. May hold anything, NaN too, and is not read before it is written.

    Notes
    -----
    In a batch each has the dimensions of `Problem.batch` before these two. An operand that is broadcast has them with a
    stride of 0; `out` has memory for every product.
    """

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray | None
    out: np.ndarray

    def inputs(self) -> list[np.ndarray]:
        """Return A, B, and C if there is one."""
        return [x for x in (self.a, self.b, self.c) if x is not None]

    def at(self, index: tuple[int, ...]) -> Operands:
        """Return the operands of one product of the batch."""
        return Operands(self.a[index], self.b[index], None if self.c is None else self.c[index], self.out[index])

    @classmethod
    def generate(cls, problem: Problem, seed: int) -> Operands:
        """Draw A, B and C for `problem` from `seed`, laid out as it says, with a poisoned output.

        Each begins on a cache line: placement by malloc made a difference of 20 % from process to process.
        """
        rng = np.random.default_rng(seed)
        sizes = ((problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n))
        shapes = [(*problem.batch, *size) for size in sizes]
        dtypes = problem.input_dtype, problem.input_dtype, problem.dtype
        a, b, c = forms = tuple(zip(shapes, dtypes, problem.layout, strict=True))
        drawn = [_draw(rng, problem, _room(*form)) for form in (forms if problem.accumulate else (a, b))]
        for unread in {"a": drawn[:1], "h": drawn[:1], "d": drawn[2:]}.get(problem.triangle, ()):
            _poison_above_diagonal(unread)
            if problem.triangle == "h":
                unread.imag[..., range(problem.m), range(problem.m)] = np.nan
        out = _room(*c)
        poison(out)
        return cls(drawn[0], drawn[1], drawn[2] if problem.accumulate else None, out)


def poison(out: np.ndarray) -> None:
    """Fill `out` with values that a correct product would not leave: NaN, or an alternating pattern."""
    if not is_exact(out.dtype):
        out[...] = complex(np.nan, np.nan) if is_complex(out.dtype) else np.nan
        return
    pattern = np.arange(out.size, dtype=np.uint64).reshape(out.shape)
    out[...] = pattern % 2 == 0 if is_bool(out.dtype) else (pattern % 97 + 17).astype(out.dtype)


def write_result(problem: Problem, produced: np.ndarray, out: np.ndarray) -> None:
    """Copy the elements of the result that `problem` computes from `produced` to `out`, both on the host."""
    if problem.triangle == "d":
        np.copyto(out, produced, where=lower_triangle(problem.m))
    else:
        out[...] = produced


def conjugated(x: Any, arrays: Any) -> Any:
    """Return a conjugated copy of an array of the module `arrays`, NumPy or CuPy.

    complex64 by turning the sign bits of imaginary parts: CuPy's arithmetic takes subnormal float32 for zero.
    """
    if isinstance(x, np.ndarray) or x.dtype != _COMPLEX64:
        return arrays.conjugate(x)
    copy = x.copy(order="K")
    bits = copy.view(np.uint64)
    bits ^= _SIGN_OF_IMAGINARY
    return copy


def lower_triangle(size: int) -> np.ndarray:
    """Return a (size, size) array of bool, True on and below the diagonal."""
    return np.tri(size, dtype=np.bool_)


def _poison_above_diagonal(x: np.ndarray) -> None:
    poisoned = np.empty_like(x)
    poison(poisoned)
    np.copyto(x, poisoned, where=~lower_triangle(x.shape[-1]))


def _room(shape: tuple[int, ...], dtype: np.dtype[Any], order: str) -> np.ndarray:
    """Return an uninitialised array of matrices in the memory order `order`, a letter of `Problem.layout`."""
    *batch, rows, columns = shape
    if order == "A":
        return aligned_empty((*batch, 2 * rows, 2 * columns), dtype)[..., ::2, ::-2]
    if order == "F":
        return aligned_empty((*batch, columns, rows), dtype).swapaxes(-1, -2)
    return aligned_empty(shape, dtype)


def _draw(rng: np.random.Generator, problem: Problem, x: np.ndarray) -> np.ndarray:
    """Fill x, an operand of `problem`, and return it."""
    for begin in range(0, x.shape[0], ROWS_AT_A_TIME):
        part = x[begin : begin + ROWS_AT_A_TIME]
        part[...] = _values(rng, part.shape, problem, x.dtype)
    return x


def _values(rng: np.random.Generator, shape: tuple[int, ...], problem: Problem, dtype: np.dtype[Any]) -> np.ndarray:
    """Draw floats from the standard normal, integers over a quarter of the range, bools so that half of D is true."""
    if is_complex(dtype):
        return rng.standard_normal((*shape, 2)).view(np.complex128)[..., 0]
    if not is_exact(problem.dtype):
        return rng.standard_normal(shape)
    if is_bool(dtype):
        density = 0.5
        if problem.semiring.add.name == "lor":  # 1 - (1 - density^2)^k = 1/2
            density = (1 - 0.5 ** (1 / max(problem.k, 1))) ** 0.5
        return np.asarray(rng.random(shape) < density)
    info = np.iinfo(dtype)
    return rng.integers(info.min // 4, info.max // 4, shape, dtype=dtype, endpoint=True)
