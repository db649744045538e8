"""Verification of products with a triangle: what is wrong is found, what the problem leaves out is not looked at."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import VerificationError
from harness.operands import Operands
from harness.problem import Problem
from harness.proof import reference
from harness.proof.freivalds import most_suspect_rows
from harness.proof.verify import verify

LARGE = 300  # so many pairs that rows, columns and projections are compared, not all elements


def made(dtype: str, triangle: str, size: int = 9, **options: object) -> tuple[Problem, Operands, np.ndarray]:
    problem = Problem(size, size, size, dtype=np.dtype(dtype), triangle=triangle, accumulate=True, **options)
    operands = Operands.generate(problem, 3)
    return problem, operands, reference.product(problem, operands.a, operands.b, operands.c)


def test_counts_what_is_computed_and_moved():
    whole, a, d = (Problem(4, 4, 4, triangle=triangle) for triangle in ("", "a", "d"))
    assert (whole.pairs, a.pairs, d.pairs) == (64, 64, 40)
    assert (whole.bytes_moved, a.bytes_moved, d.bytes_moved) == (8 * 48, 8 * 42, 8 * 42)


def test_is_stored_only_where_there_is_one():
    assert "triangle" not in Problem(4, 4, 4).to_json()
    problem = Problem(4, 4, 4, triangle="d")
    assert Problem.from_json(problem.to_json()) == problem
    assert "lower triangle of D" in str(problem)


def test_operands_are_poisoned_above_the_diagonal():
    above = ~np.tri(9, dtype=bool)
    assert np.isnan(made("float64", "a")[1].a[above]).all()
    assert np.isnan(made("float64", "d")[1].c[above]).all()
    assert np.isfinite(made("float64", "d")[1].a).all()


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("size", [9, LARGE])
def test_a_symmetric_a_is_mirrored(dtype, size):
    problem, operands, _ = made(dtype, "a", size)
    lower = np.tri(size, dtype=bool)
    a = np.where(lower, operands.a, operands.a.T)
    right = a @ operands.b + operands.c
    assert verify(problem, operands, right, seed=1)
    wrong = np.where(lower, operands.a, 0) @ operands.b + operands.c
    with pytest.raises(VerificationError):
        verify(problem, operands, wrong, seed=1)
    twice = right + np.diag(operands.a)[:, None] * operands.b
    with pytest.raises(VerificationError):
        verify(problem, operands, twice, seed=1)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("size", [9, LARGE])
def test_of_a_triangle_of_d_nothing_above_the_diagonal_is_compared(dtype, size):
    problem, operands, right = made(dtype, "d", size)
    rubbish = right.copy()
    rubbish[~np.tri(size, dtype=bool)] = 7
    assert verify(problem, operands, rubbish, seed=1)
    for i, j in ((size - 1, 0), (size // 2, size // 2), (size // 2 + 1, size // 3)):
        wrong = rubbish.copy()
        wrong[i, j] = -wrong[i, j] - 1
        with pytest.raises(VerificationError):
            verify(problem, operands, wrong, seed=1)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize(("i", "j"), [(299, 298), (131, 131), (140, 3)])
def test_projections_name_the_row_of_one_wrong_element(dtype, i, j):
    problem, operands, right = made(dtype, "d", LARGE, alpha=2, beta=3)
    right[i, j] = -right[i, j] - 1
    right[0, 1:] = 9
    assert i in most_suspect_rows(problem, operands, right, np.random.default_rng(2))[:1]
