"""Freivalds' check of a large plus_times product: every element at once, by products with random vectors.

For x of plus and minus ones, ``D x - (alpha A (B x) + beta C x)`` is the sum of the errors of a row with random signs.
An element that is wrong by more than rounding makes its row stand out, wherever it is. The check costs O(n^2). It needs
no threshold, since it only names rows, which the oracle judges. Where D is a triangle, row i of it meets the first
i + 1 elements of x alone.

Source: Freivalds, "Probabilistic machines can use less running time" (1977).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness.dtypes import is_exact
from harness.operands import Operands, lower_triangle
from harness.problem import Problem
from harness.proof.magnitude import measured

VECTORS = 4
MOST_ROWS = 2
ROWS_AT_A_TIME = 128  # bounds the memory that conversions take


def most_suspect_rows(problem: Problem, operands: Operands, result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of `result`, over plus_times, whose projections differ most from those of the operands.

    At most two rows of floats, the most suspect first; of integers rows that are wrong for certain, or none.
    """
    if not is_exact(problem.dtype):
        suspicion = _float_suspicion(problem, operands, result, rng.choice([-1.0, 1.0], (problem.n, VECTORS)))
        return np.argsort(-suspicion, kind="stable")[:MOST_ROWS]
    # An odd factor has an inverse modulo 2^bits: no single wrong element can hide behind it.
    unsigned = np.dtype(f"u{problem.dtype.itemsize}")
    vectors = rng.integers(0, np.iinfo(unsigned).max, (problem.n, VECTORS), unsigned, endpoint=True) | unsigned.type(1)
    return np.flatnonzero(_integer_residual(problem, operands, result, vectors))[:MOST_ROWS]


def _float_suspicion(problem: Problem, operands: Operands, result: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Return by row the largest residual, relative to the sum of absolute terms. Not a number counts as infinite."""
    alpha, beta = (1.0 if x is None else measured(x) for x in (problem.alpha, problem.beta))
    ones = np.ones((problem.n, 1))
    product = _triangle_by_rows if problem.triangle else _product_by_rows
    with np.errstate(all="ignore"):
        expected = alpha * product(operands, signs, measured)
        size = abs(alpha) * product(operands, ones, _as_absolute)
        if problem.accumulate and operands.c is not None:
            c = _computed(problem, operands.c)
            expected += beta * _by_rows(c, signs, measured)
            size += abs(beta) * _by_rows(c, ones, _as_absolute)
        residual = np.abs(_by_rows(_computed(problem, result), signs, measured) - expected).max(axis=1)
        suspicion = residual / np.maximum(size[:, 0], np.finfo(np.float64).tiny)
    return np.where(np.isnan(suspicion), np.inf, suspicion)


Conversion = Callable[[np.ndarray], np.ndarray]


def _as_absolute(x: np.ndarray) -> np.ndarray:
    absolute: np.ndarray = np.abs(measured(x))
    return absolute


def _computed(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Return `x`, C or D, with zeros where the problem neither reads nor writes it."""
    return np.where(lower_triangle(problem.m), x, x.dtype.type(0)) if problem.triangle == "d" else x


def _by_rows(x: np.ndarray, vectors: np.ndarray, convert: Conversion) -> np.ndarray:
    """Return ``x @ vectors`` of converted rows."""
    blocks = (slice(begin, begin + ROWS_AT_A_TIME) for begin in range(0, x.shape[0], ROWS_AT_A_TIME))
    return np.concatenate([np.matmul(convert(x[rows]), vectors) for rows in blocks])


def _product_by_rows(operands: Operands, vectors: np.ndarray, convert: Conversion) -> np.ndarray:
    """Return ``a @ (b @ vectors)``."""
    return _by_rows(operands.a, _by_rows(operands.b, vectors, convert), convert)


def _triangle_by_rows(operands: Operands, vectors: np.ndarray, convert: Conversion) -> np.ndarray:
    """Return ``L @ vectors``, L the triangle of ``a @ b``: row i of `a` meets the sum of the first i + 1 columns."""
    sums, parts = np.zeros((operands.b.shape[0], 1, vectors.shape[1]), convert(operands.b[:0]).dtype), []
    for begin in range(0, operands.a.shape[0], ROWS_AT_A_TIME):
        rows = slice(begin, begin + ROWS_AT_A_TIME)
        terms = convert(operands.b[:, rows])[:, :, None] * vectors[rows]
        sums = sums[:, -1:] + np.cumsum(terms, axis=1, dtype=sums.dtype)
        parts.append(np.einsum("ip,piv->iv", convert(operands.a[rows]), sums))
    return np.concatenate(parts)


def _integer_residual(problem: Problem, operands: Operands, result: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return by row whether the projections differ, in arithmetic modulo 2^bits as the product's own."""

    def convert(x: np.ndarray) -> np.ndarray:
        return x.astype(vectors.dtype)

    def scale(factor: Any, x: np.ndarray) -> np.ndarray:
        return x if factor is None else x * np.asarray(factor).astype(vectors.dtype)

    product = _triangle_by_rows if problem.triangle else _product_by_rows
    with np.errstate(over="ignore"):
        expected = scale(problem.alpha, product(operands, vectors, convert))
        if problem.accumulate and operands.c is not None:
            expected = expected + scale(problem.beta, _by_rows(_computed(problem, operands.c), vectors, convert))
        projected = _by_rows(_computed(problem, result), vectors, convert)
        return np.asarray((projected != expected).any(axis=1))
