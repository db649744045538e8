"""The bound on sums of absolute terms from which errors of narrow arithmetic are stated."""

from __future__ import annotations

import numpy as np

from harness.operands import Operands
from harness.problem import Problem


def largest_dot(problem: Problem, operands: Operands) -> float:
    """Return a bound of every element of ``|alpha||A||B|``: the largest norms of a row and of a column, multiplied.

    By the Cauchy-Schwarz inequality. Values that are not finite are ignored. Of a batch one bound for all products.
    """
    if problem.pairs == 0:
        return 0.0
    alpha = 1.0 if problem.alpha is None else abs(float(problem.alpha))
    of_a, of_b = (_largest_norm(x, axis) for x, axis in ((operands.a, -1), (operands.b, -2)))
    return alpha * of_a * of_b if np.isfinite(alpha) else 0.0


def _largest_norm(x: np.ndarray, axis: int) -> float:
    """Return the largest Euclidean norm of the rows (axis -1) or columns (-2) of `x`, of all matrices of a batch."""
    finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
    largest = float(np.abs(finite).max())  # squares of scaled values do not overflow
    return largest * float(np.sqrt(((finite / (largest or 1)) ** 2).sum(axis=axis).max()))
