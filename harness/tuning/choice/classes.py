"""Classes of products: what two of them share if the same backend is fastest at both, as far as sizes do not decide.

    plus_times float64 whole rows              a product whose rows all begin at multiples of 16 bytes, on a GPU
    min_plus int32 ragged rows, one thread     on the host, by one thread
    batch plus_times float32 whole rows, several threads

Neither values nor layouts are part of a class. On a GPU most backends that auto takes read columns as they lie, so an
entry by rows mostly holds: at worst 500 x 500 x 20000 over float32, B by columns, took 1.10 times the best (H200,
2026-11-24). Every semiring whose (+) selects is the class of min_plus: their kernels
differ in an instruction or two.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, NamedTuple

import numpy as np

from harness.interface import ALIGNMENT
from harness.problem import Problem
from harness.semiring import Semiring

# Forms of products by `Problem.triangle`; that of others depends on their sizes.
_TRIANGLES = {"a": "symmetric ", "h": "symmetric ", "d": "triangle "}
# What measurements of one dtype say of another: the same instructions at the same rates.
_LIKE = {
    "float16 to float32": "bfloat16 to float32",
    "float8_e5m2 to float32": "float8_e4m3fn to float32",
    "uint8": "int8",
}
_SIZES = re.compile(r"(\d+)x(\d+)x(\d+)(?:x(\d+))?\Z")


class Sizes(NamedTuple):
    """m, n and k of each product, in elements, and how many products there are."""

    m: int
    n: int
    k: int
    products: int = 1

    @classmethod
    def of(cls, problem: Problem) -> Sizes:
        """Return those of `problem`."""
        return cls(problem.m, problem.n, problem.k, problem.products)

    @classmethod
    def read(cls, text: str) -> Sizes:
        """Return the sizes that `str` wrote; raise ValueError if these are none."""
        match = _SIZES.match(text)
        if match is None:
            raise ValueError(f"{text!r} are no sizes")
        return cls(*(int(size or 1) for size in match.groups()))

    def __str__(self) -> str:
        sizes = self if self.products > 1 else self[:3]
        return "x".join(map(str, sizes))

    def steps(self) -> tuple[int, int, int, int]:
        """Return the logarithms of all sizes in whole quarters of an octave, by which sizes are compared."""
        m, n, k, products = self
        return _steps(m), _steps(n), _steps(k), 0 if products == 1 else _steps(products)


def _steps(size: int) -> int:
    return round(4 * math.log2(size)) if size > 1 else 0


def class_of(problem: Problem, threads: int | None) -> str:
    """Return the class of `problem`, computed by `threads` threads; None: on a GPU."""
    form = "batch " if problem.batch else _TRIANGLES.get(problem.triangle, "")
    if not form and (problem.m == 1 or problem.n == 1):
        form = "vector "
    rows = "whole rows" if is_aligned(problem) else "ragged rows"
    by = "" if threads is None else ", one thread" if threads == 1 else ", several threads"
    return f"{form}{_numbers(problem.semiring, problem.dtype, problem.operand_dtype)} {rows}{by}"


def is_aligned(problem: Problem) -> bool:
    """Return whether every line of A, B and D as they lie begins at a multiple of 16 bytes, if the first one does."""
    narrow, wide = problem.input_dtype.itemsize, problem.dtype.itemsize
    of_a, of_b, of_d = problem.lines
    return not (of_a * narrow % ALIGNMENT or of_b * narrow % ALIGNMENT or of_d * wide % ALIGNMENT)


@functools.lru_cache(256)
def _numbers(semiring: Semiring, dtype: np.dtype[Any], operands: np.dtype[Any] | None) -> str:
    """Return the semiring and the dtypes whose products say which backend computes those of these best."""
    name = dtype.name if operands is None else f"{operands.name} to {dtype.name}"
    is_selecting = semiring.add.name in ("min", "max") and dtype.kind != "b"
    of_semiring = "min_plus" if is_selecting else semiring.name
    return f"{of_semiring if semiring.is_named else 'own'} {_LIKE.get(name, name)}"
