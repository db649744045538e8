"""Bounds from which errors of narrow arithmetic are stated: of sums of absolute terms, and of what is cut off."""

from __future__ import annotations

import numpy as np

from harness.dtypes import row_of
from harness.operands import Operands
from harness.problem import Problem

_UNIT = 2.0**-24


def largest_dot(problem: Problem, operands: Operands) -> float:
    """Return a bound of every element of ``|alpha||A||B|``: the largest norms of a row and of a column, multiplied.

    By the Cauchy-Schwarz inequality. Values that are not finite are ignored. Of a batch one bound for all products.
    """
    if problem.pairs == 0:
        return 0.0
    alpha = 1.0 if problem.alpha is None else float(abs(problem.alpha))
    of_a, of_b = (_largest_norm(x, axis) for x, axis in ((operands.a, -1), (operands.b, -2)))
    return alpha * of_a * of_b if np.isfinite(alpha) else 0.0


def cut_off(problem: Problem, operands: Operands) -> float:
    """Return how much of an element tensor cores cut off because 16-bit operands are subnormal; of cuBLAS the same.

    Products are aligned by the exponents of their operands, which are not normalised: a subnormal number counts as the
    least normal one. Beside such a product, smaller terms lose what lies below 2^-24 of it. Seen on an H100: beside
    65504 x 2^-24, a term of 4e-8 is lost. Each term and each sum may lose as much.
    """
    narrow = row_of(problem.input_dtype)
    least = 2.0**narrow.exponent if narrow.digits and narrow.itemsize == 2 else 0.0
    alpha = 1.0 if problem.alpha is None else float(abs(problem.alpha))
    if not least or problem.pairs == 0 or not np.isfinite(alpha):
        return 0.0
    sizes = [np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64)) for x in (operands.a, operands.b)]
    has_subnormals = [bool(((x > 0) & (x < least)).any()) for x in sizes]
    aligned = (float(y.max()) * least for has, y in zip(has_subnormals, reversed(sizes), strict=True) if has)
    return alpha * 2 * problem.k * _UNIT * max(aligned, default=0.0)


def _largest_norm(x: np.ndarray, axis: int) -> float:
    """Return the largest Euclidean norm of the rows (axis -1) or columns (-2) of `x`, of all matrices of a batch."""
    finite = np.abs(np.where(np.isfinite(x), x, 0)).astype(np.float64)
    largest = float(finite.max())  # squares of scaled values do not overflow
    return largest * float(np.sqrt(((finite / (largest or 1)) ** 2).sum(axis=axis).max()))
