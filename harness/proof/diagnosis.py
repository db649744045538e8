"""Recognise the mistake behind a wrong product: typical bugs of kernels, from the result and what was expected."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from harness.dtypes import is_complex, is_exact
from harness.operands import Operands, poison
from harness.problem import Problem
from harness.proof import reference
from harness.semiring import SEMIRINGS

# A value is recognised if it agrees to this many units in the last place, times the number of terms.
ULPS_PER_TERM = 4
# Precisions that a kernel may lower its operands to, by the distance of 1 from the next number, and the least and the
# greatest error in those steps.
LOWER, STEPS = {"float32": 2.0**-23, "TF32 or float16": 2.0**-10, "bfloat16": 2.0**-7}, (0.01, 4.0)

# Fewer wrong integers or bools than this may equal the poison by chance.
ENOUGH = 8


def recognise(
    problem: Problem,
    operands: Operands,
    result: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    expected: np.ndarray,
    wrong: np.ndarray,
) -> str:
    """Return what the mistake looks like, in a few words, or an empty string.

    Parameters
    ----------
    problem : Problem
    operands : Operands
    result : (m, n) array
    rows, columns : integer arrays
        Which part of the result was compared.
    expected : (len(rows), len(columns)) array
    wrong : (len(rows), len(columns)) array of bool
        Which elements of that part are wrong.
    """
    got, position = result[np.ix_(rows, columns)], _where(rows, columns, wrong, result.shape)
    poisoned = np.empty_like(result)
    poison(poisoned)
    if not is_exact(problem.dtype) and np.isnan(got[wrong]).all():
        mistake = "the output was not written" if np.isnan(got).all() else "NaN, or output that was not written,"
        return f"{mistake} {position}".rstrip(" ,")
    if np.count_nonzero(wrong) >= ENOUGH and np.array_equal(got[wrong], poisoned[np.ix_(rows, columns)][wrong]):
        return f"the output was not written {position}".rstrip()
    if not is_exact(problem.dtype) and wrong.all() and (expected == -got).all():
        return "the sign is wrong"
    for mistake, other in _mistakes(problem, operands, rows, columns, expected):
        if _agree(problem, got, other):
            return mistake
    return position or _precision(problem, got, expected)


def _precision(problem: Problem, got: np.ndarray, expected: np.ndarray) -> str:
    """Return "the precision of float32" if the errors are those of narrower numbers, or an empty string."""
    if is_exact(problem.dtype) or not np.isfinite(expected).all():
        return ""
    with np.errstate(all="ignore"):
        error = float(np.abs(got - expected).max()) / (float(np.abs(expected).max()) or 1.0)
    for name, step in LOWER.items():
        if step > np.finfo(problem.dtype).eps and STEPS[0] * step < error < STEPS[1] * step:
            return f"the precision of {name}"
    return ""


def _mistakes(
    problem: Problem,
    operands: Operands,
    rows: np.ndarray,
    columns: np.ndarray,
    expected: np.ndarray,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield mistakes, each with the result it leads to; those that need a product of their own last."""
    a, b, c = operands.a, operands.b, operands.c
    part = {"rows": rows, "columns": columns}
    yield "the semiring's zero, as if k were 0", np.full_like(expected, problem.semiring.zero(problem.dtype))
    if c is not None:
        yield "C itself, as if k were 0", c[np.ix_(rows, columns)]
    if problem.m == problem.n:
        swapped = {"rows": columns, "columns": rows}
        yield "the transpose of the product", reference.product(problem, a, b, c, **swapped).T
    if problem.alpha is not None:
        yield "alpha was left out", reference.product(dataclasses.replace(problem, alpha=None), a, b, c, **part)
    if problem.beta is not None:
        yield "beta was left out", reference.product(dataclasses.replace(problem, beta=None), a, b, c, **part)
    if problem.accumulate:
        without = dataclasses.replace(problem, accumulate=False, beta=None)
        yield "C was left out", reference.product(without, a, b, None, **part)
    if problem.k > 1:
        shorter = dataclasses.replace(problem, k=problem.k - 1)
        yield "the last step of k was left out", reference.product(shorter, a[:, :-1], b[:-1], c, **part)
        yield "the first step of k was left out", reference.product(shorter, a[:, 1:], b[1:], c, **part)
    if is_complex(problem.dtype):
        yield "A was conjugated", reference.product(problem, a.conj(), b, c, **part)
        yield "B was conjugated", reference.product(problem, a, b.conj(), c, **part)
    ordinary = SEMIRINGS["plus_times"]
    if problem.semiring is not ordinary and ordinary.unsupported(problem.dtype) is None:
        plain = dataclasses.replace(problem, semiring=ordinary)
        yield "the product over plus_times", reference.product(plain, a, b, c, **part)


def _agree(problem: Problem, x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether `x` is `y` up to rounding."""
    if is_exact(problem.dtype):
        return np.array_equal(x, y)
    tolerance = ULPS_PER_TERM * (problem.k + 1) * float(np.finfo(problem.dtype).eps)
    scale = np.abs(y[np.isfinite(y)]).max(initial=0)
    with np.errstate(over="ignore"):  # the difference of two of the largest numbers
        return np.allclose(x, y, rtol=tolerance, atol=tolerance * float(scale), equal_nan=True)


def _where(rows: np.ndarray, columns: np.ndarray, wrong: np.ndarray, shape: tuple[int, ...]) -> str:
    """Return where the wrong elements are if they are at an edge or alone, or an empty string."""
    if wrong.all() or not wrong.any():
        return ""
    bad_rows, bad_columns = rows[wrong.any(axis=1)], columns[wrong.any(axis=0)]
    if bad_rows.size == bad_columns.size == 1:
        return "in this element alone"
    for name, bad, size in (("row", bad_rows, shape[0]), ("column", bad_columns, shape[1])):
        if bad[0] == size - 1:
            return f"in the last {name} alone"
        if bad.size == 1:
            return f"in {name} {bad[0]} alone"
        if bad[0] > 0 and bad[-1] == size - 1:
            return f"from {name} {bad[0]} to the last"
    return ""
