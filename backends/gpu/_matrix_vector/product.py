"""A matrix-vector product as data: which operand is the matrix, how it lies, and the macros of a kernel for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.operators import semiring_defines
from backends.gpu._program.program import Matrix, Place
from harness.problem import Problem


class MatrixVector(NamedTuple):
    """``y[i] = alpha (x) (+)_p M[i, p] (x) x[p] (+) beta (x) c[i]``: M is A, or M is B transposed and x is A.

    Attributes
    ----------
    matrix, x, c, y : Place
        C is the place of y where there is none.
    count, k : int
        Elements of y, and of x.
    step_i, step_p : int
        Distances of neighbours in M along i and along p, in elements.
    step_x, step_c, step_y : int
        Distances of neighbours in the vectors, in elements.
    is_left : bool
        Whether the matrix is A, the left argument of (x).
    matrix_alignment, x_alignment : int
        Bytes that the addresses are known to be multiples of.
    """

    matrix: Place
    x: Place
    c: Place
    y: Place
    count: int
    k: int
    step_i: int
    step_p: int
    step_x: int
    step_c: int
    step_y: int
    is_left: bool
    matrix_alignment: int
    x_alignment: int

    @property
    def is_by_rows(self) -> bool:
        """Whether the elements of M that belong to one element of y are neighbours."""
        return self.step_p == 1 and (self.k > 1 or self.step_i != 1)

    def arguments(self, problem: Problem) -> tuple[Any, ...]:
        """Return the arguments of a kernel: MATRIX_VECTOR_PARAMETERS of matrix_vector.cuh."""
        factors = (_as_argument(problem.dtype.type(0) if x is None else x) for x in (problem.alpha, problem.beta))
        steps = self.step_i, self.step_p, self.step_x, self.step_c, self.step_y
        return self.matrix, self.x, self.c, self.y, *factors, self.count, self.k, *map(np.int64, steps)


def matrix_vector(problem: Problem, a: Matrix, b: Matrix, *c_and_out: Matrix) -> MatrixVector:
    """Return the product of operands that lie so; c precedes out if there is one, and m or n is 1."""
    c, out = c_and_out[0], c_and_out[-1]
    is_left = problem.n == 1
    matrix, x = (a, b) if is_left else (b, a)
    step_i, step_p = matrix.steps if is_left else matrix.steps[::-1]
    step_x, step_c, step_y = (v.steps[0 if is_left else 1] for v in (x, c, out))
    count = problem.m if is_left else problem.n
    return MatrixVector(
        matrix.place, x.place, c.place, out.place, count, problem.k, step_i, step_p, step_x, step_c, step_y, is_left,
        matrix.alignment, x.alignment,
    )  # fmt: skip


def matrix_vector_defines(problem: Problem, product: MatrixVector, **numbers: int | str) -> Defines:
    """Return the macros that matrix_vector.cuh expects, and those of one kernel, `numbers`.

    (x) has the form that is right for all values: it takes less time than its matrix, and to look at the values first
    would read that a second time.
    """
    semiring = semiring_defines(problem.semiring, problem.dtype, accumulate=problem.accumulate)
    mine = {
        "MATRIX_LEFT": product.is_left,
        "HAS_ALPHA": problem.alpha is not None,
        "HAS_BETA": problem.beta is not None,
        "IS_LOG_SUM": problem.semiring.add.name == "logaddexp",
    }
    return semiring + as_defines({**mine, **numbers})


def _as_argument(scalar: Any) -> Any:
    """Return a scalar as a kernel takes it: bools are bytes there."""
    return np.uint8(scalar) if isinstance(scalar, np.bool_) else scalar
