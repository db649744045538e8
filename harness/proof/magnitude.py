"""The scale of the rounding errors of each element: sums of absolute terms, which bound what a right result may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.problem import Problem
from harness.proof.reference import ArrayFunction, algebra, as_read, part_of, steps_of


def magnitude_of(
    problem: Problem,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None = None,
    *,
    rows: np.ndarray | None = None,
    columns: np.ndarray | None = None,
) -> np.ndarray:
    """Compute the scale of rounding errors of ``D[rows][:, columns]``, for floats under a (+) that rounds.

    Under plus it is the sum of absolute terms, ``|alpha||A||B| + |beta||C|`` for plus_times; under an operation of the
    user's own too. Under logaddexp it is that of ``alpha (x) A`` alone, 0 without an alpha: all other errors are small
    beside the result, see `allowed_error`. NaN and infinite operands count as absent.

    Returns
    -------
    (len(rows), len(columns)) array of float64
    """
    a, b, c = part_of(*as_read(problem, a, b), c, rows, columns)
    times, add = problem.semiring.multiply.name, problem.semiring.add.name
    if add == "times" or not problem.semiring.is_tabled:
        return _sum_of_terms(problem, a, b, c)
    if add == "logaddexp":
        return _largest_of_scaled(problem, a, b.shape[1])
    total = np.zeros((a.shape[0], b.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for x, y in steps_of(a, b, _absolute):
            scaled = x if problem.alpha is None else _BOUNDS.get(times, np.add)(_absolute(problem.alpha), x)
            total += _bound(times, scaled, y)
        if problem.accumulate and c is not None:
            z = _absolute(c)
            total = total + (z if problem.beta is None else _BOUNDS.get(times, np.add)(_absolute(problem.beta), z))
    return np.nan_to_num(total, nan=np.inf, posinf=np.inf)


def _bound(times: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what some steps of k, (steps, m) and (steps, n) absolute values, contribute to `magnitude_of`."""
    if times == "times":
        return np.asarray(x.T @ y)
    if times == "sqdiff":
        return np.asarray((x * x).sum(axis=0)[:, None] + 2 * (x.T @ y) + (y * y).sum(axis=0)[None, :])
    ones = x.shape[0] if times == "pair" else 0
    return np.asarray(x.sum(axis=0)[:, None] + y.sum(axis=0)[None, :] + ones)


# |x (x) y| is at most this function of |x| and |y|, and at most |x| + |y| for every operation that is not listed.
_BOUNDS: dict[str, ArrayFunction] = {"times": np.multiply, "sqdiff": lambda x, y: (x + y) ** 2}


def _largest_of_scaled(problem: Problem, a: np.ndarray, n: int) -> np.ndarray:
    """Return how far a relative error of ``alpha (x) A`` moves a term at most. Under times it stays a relative one."""
    largest = np.zeros(a.shape[0])
    if problem.alpha is not None:
        _, multiply, _, work = algebra(problem.semiring, problem.dtype)
        with np.errstate(all="ignore"):
            scaled = _absolute(multiply(np.full(a.shape, problem.alpha, work), a.astype(work)))
            bound = _BOUNDS.get(problem.semiring.multiply.name, np.add)
            largest = bound(scaled, np.zeros_like(scaled)).max(axis=1, initial=0.0)
    return np.repeat(largest[:, None], n, axis=1)


def _sum_of_terms(problem: Problem, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    """Return the sum of the absolute values of all terms of each element."""
    _, multiply, _, work = algebra(problem.semiring, problem.dtype)
    a, b = a.astype(work), b.astype(work)
    with np.errstate(all="ignore"):
        if problem.alpha is not None:
            a = multiply(np.full_like(a, problem.alpha), a)
        total = np.zeros((a.shape[0], b.shape[1]))
        for p in range(problem.k):
            total += _absolute(multiply(a[:, p, None], b[None, p, :]))
        if problem.accumulate and c is not None:
            c = c.astype(work)
            total += _absolute(c if problem.beta is None else multiply(np.full_like(c, problem.beta), c))
    return total


def measured(x: Any) -> np.ndarray:
    """Return a copy of `x` in the dtype in which errors are measured."""
    return np.array(x, np.complex128 if np.iscomplexobj(x) else np.float64)


def _absolute(x: Any) -> np.ndarray:
    with np.errstate(over="ignore"):  # of a complex number whose parts are finite
        absolute: np.ndarray = np.minimum(np.abs(measured(x)), np.finfo(np.float64).max)
    return np.where(np.isfinite(measured(x)), absolute, 0.0)
