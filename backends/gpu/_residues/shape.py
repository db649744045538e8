"""The product that passes of residues and the native kernel compute, as data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._passes.padding import LINE_BYTES
from backends.gpu._program.program import Matrix, ceil_div
from harness.dtypes import count_parts
from harness.problem import Problem


class ResidueProduct(NamedTuple):
    """``out := alpha a b [+ beta c]`` by residues or natively, for m, n, k >= 1; out is by rows.

    Attributes
    ----------
    problem : Problem
        Its scalars.
    a, b, c, out : Matrix
        Of complex numbers a and b are planes (`_complex.planes`), both lines of a vector as one.
    m, n, k : int
    """

    problem: Problem
    a: Matrix
    b: Matrix
    c: Matrix
    out: Matrix
    m: int
    n: int
    k: int

    @property
    def parts(self) -> int:
        """Of a number: 2 of complex ones."""
        return count_parts(self.problem.dtype)

    @property
    def line(self) -> int:
        """Elements of a line of a vector, of which it has one for each part: of planes with the zeros beyond k."""
        return self.a.ld // 2 if self.problem.is_complex else self.k

    def columns(self, first: int, count: int) -> ResidueProduct:
        """Return the product of some columns."""
        b, c, out = (_shifted(x, first) for x in (self.b, self.c, self.out))
        return self._replace(b=b, c=c, out=out, n=count)

    def transposed(self) -> ResidueProduct:
        """Return the same product by its transpose, whose output is by rows if this one's is by columns."""
        a, b, c, out = (x._replace(by_columns=not x.by_columns) for x in (self.b, self.a, self.c, self.out))
        return self._replace(a=a, b=b, c=c, out=out, m=self.n, n=self.m)


def _shifted(x: Matrix, columns: int) -> Matrix:
    offset = x.place.offset + columns * x.steps[1]
    return x._replace(place=x.place._replace(offset=offset))


def padded(columns: int, dtype: np.dtype[np.generic]) -> int:
    """Return the elements of a row of whole lines."""
    line = LINE_BYTES // dtype.itemsize
    return ceil_div(columns, line) * line
