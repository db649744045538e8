"""Freivalds' check of a large plus_times product: every element at once, by products with random vectors.

For x of plus and minus ones, ``D x - (alpha A (B x) + beta C x)`` is the sum of the errors of a row with random signs.
An element that is wrong by more than rounding makes its row stand out, wherever it is. The check costs O(n^2). It needs
no threshold, since it only names rows, which the oracle judges.

Source: Freivalds, "Probabilistic machines can use less running time" (1977).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.operands import Operands
from harness.problem import Problem

VECTORS = 4
MOST_ROWS = 2
ROWS_AT_A_TIME = 128  # bounds the memory that conversions take


def most_suspect_rows(problem: Problem, operands: Operands, result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of `result`, over plus_times, whose projections differ most from those of the operands.

    At most two rows of floats, the most suspect first; of integers rows that are wrong for certain, or none.
    """
    if problem.dtype.kind == "f":
        suspicion = _float_suspicion(problem, operands, result, rng.choice([-1.0, 1.0], (problem.n, VECTORS)))
        return np.argsort(-suspicion, kind="stable")[:MOST_ROWS]
    # An odd factor has an inverse modulo 2^bits: no single wrong element can hide behind it.
    unsigned = np.dtype(f"u{problem.dtype.itemsize}")
    vectors = rng.integers(0, np.iinfo(unsigned).max, (problem.n, VECTORS), unsigned, endpoint=True) | unsigned.type(1)
    return np.flatnonzero(_integer_residual(problem, operands, result, vectors))[:MOST_ROWS]


def _float_suspicion(problem: Problem, operands: Operands, result: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Return by row the largest residual, relative to the sum of absolute terms. Not a number counts as infinite."""
    alpha = 1.0 if problem.alpha is None else float(problem.alpha)
    beta = 1.0 if problem.beta is None else float(problem.beta)
    ones = np.ones((problem.n, 1))
    projected_b, size_of_b = _by_rows(operands.b, signs), _by_rows(operands.b, ones, absolute=True)
    with np.errstate(all="ignore"):
        expected = alpha * _by_rows(operands.a, projected_b)
        size = abs(alpha) * _by_rows(operands.a, size_of_b, absolute=True)
        if problem.accumulate and operands.c is not None:
            expected += beta * _by_rows(operands.c, signs)
            size += abs(beta) * _by_rows(operands.c, ones, absolute=True)
        residual = np.abs(_by_rows(result, signs) - expected).max(axis=1)
        suspicion = residual / np.maximum(size[:, 0], np.finfo(np.float64).tiny)
    return np.where(np.isnan(suspicion), np.inf, suspicion)


def _by_rows(x: np.ndarray, vectors: np.ndarray, *, absolute: bool = False) -> np.ndarray:
    """Return ``x @ vectors``, or ``|x| @ vectors``, in float64."""
    parts = []
    with np.errstate(all="ignore"):
        for begin in range(0, x.shape[0], ROWS_AT_A_TIME):
            part = x[begin : begin + ROWS_AT_A_TIME].astype(np.float64)
            parts.append((np.abs(part) if absolute else part) @ vectors)
    return np.concatenate(parts)


def _integer_residual(problem: Problem, operands: Operands, result: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return by row whether the projections differ, in arithmetic modulo 2^bits as the product's own."""

    def times(x: Any, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.matmul(x.astype(vectors.dtype), y))

    def scale(factor: Any, x: np.ndarray) -> np.ndarray:
        return x if factor is None else x * np.asarray(factor).astype(vectors.dtype)

    with np.errstate(over="ignore"):
        expected = scale(problem.alpha, times(operands.a, times(operands.b, vectors)))
        if problem.accumulate and operands.c is not None:
            expected = expected + scale(problem.beta, times(operands.c, vectors))
        return np.asarray((times(result, vectors) != expected).any(axis=1))
