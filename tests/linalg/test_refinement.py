"""Iterative refinement: float64 accuracy from factors of lower precision, and an error where there is none."""

import numpy as np
import pytest

from harness import ConvergenceError, ProblemError
from harness.linalg import elimination, refine
from harness.linalg.products import Products
from tests._support.factorizations import of_condition, residual

BLOCK = 6


@pytest.mark.parametrize("n", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 41])
@pytest.mark.parametrize("factor_dtype", ["float32", "bfloat16", "float64"])
def test_solutions_are_as_accurate_as_those_of_float64(n, factor_dtype, rng):
    a = of_condition(rng, n, 5)
    for b in (rng.standard_normal((n, 3)), rng.standard_normal(n)):
        x, residuals, name = refine(a, b, factor_dtype=factor_dtype, block=BLOCK)
        assert name == factor_dtype
        assert x.shape == b.shape
        assert residual(a, x, b) < max(n, 1) ** 0.5
        assert residuals[-1] <= n**0.5 * np.finfo(float).eps
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=0, atol=1e-12 * np.abs(x).max())


def test_nothing_to_solve():
    assert refine(np.empty((0, 0)), np.empty((0, 2))).x.shape == (0, 2)
    assert refine(np.eye(3), np.empty((3, 0))).x.shape == (3, 0)
    assert np.array_equal(refine(np.eye(3), np.zeros(3)).x, np.zeros(3))


@pytest.mark.parametrize("condition", [1e1, 1e2, 1e4, 1e6])
def test_float32_factors_reach_float64_up_to_their_condition(condition, rng):
    a, b = of_condition(rng, 80, condition), rng.standard_normal(80)
    x, residuals, _ = refine(a, b)
    exact = np.linalg.solve(a, b)
    assert np.abs(x - exact).max() <= 1e-14 * condition * np.abs(exact).max()
    assert residuals[0] > 1e-10  # by the factors alone
    assert residuals[-1] < 1e-15
    assert len(residuals) <= 8


@pytest.mark.parametrize(("factor_dtype", "condition"), [("float32", 1e10), ("bfloat16", 1e5)])
def test_what_does_not_converge_is_said(factor_dtype, condition, rng):
    a, b = of_condition(rng, 80, condition), rng.standard_normal(80)
    with pytest.raises(ConvergenceError, match=f"(?s)factors of {factor_dtype}.*fix .*factor_dtype='float64'"):
        refine(a, b, factor_dtype=factor_dtype)
    assert residual(a, refine(a, b, factor_dtype="float64").x, b) < 80**0.5


def test_too_few_steps_are_said(rng):
    a, b = of_condition(rng, 50, 1e5), rng.standard_normal(50)
    with pytest.raises(ConvergenceError, match="after 0 steps"):
        refine(a, b, most_steps=0)
    assert len(refine(a, b, tolerance=1e-6, most_steps=0).residuals) == 1


def test_rows_are_exchanged_and_sizes_of_columns_do_not_matter(rng):
    a = np.eye(30)[::-1] + 1e-9 * rng.standard_normal((30, 30))
    b = rng.standard_normal((30, 4)) * [1e-300, 1e-30, 1, 1e30]
    x = refine(a, b, block=BLOCK).x
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-12)


def test_products_of_bfloat16_are_mixed_and_those_of_residuals_are_not(rng, monkeypatch):
    kinds = set()
    compute = Products._compute

    def noted(self, a, b, out, *, accumulate):
        kinds.add((a.dtype.name, b.dtype.name, out.dtype.name))
        compute(self, a, b, out, accumulate=accumulate)

    monkeypatch.setattr(Products, "_compute", noted)
    refine(of_condition(rng, 20, 5), rng.standard_normal(20), factor_dtype="bfloat16", block=BLOCK)
    assert kinds == {("bfloat16", "bfloat16", "float32"), ("float32",) * 3, ("float64",) * 3}


def test_planted_bugs_are_seen(rng, monkeypatch):
    a, b = of_condition(rng, 40, 100), rng.standard_normal(40)
    panel = elimination._factor_panel

    def forgets_the_order(x, first):
        panel(x, first)
        return np.arange(x.shape[0])

    for target, wrong in [
        ((elimination, "_factor_panel"), forgets_the_order),
        ((elimination.LU, "solve"), lambda self, x: x.astype("float32")),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(*target, wrong)
            with pytest.raises((ConvergenceError, ProblemError)):
                refine(a, b, block=BLOCK)


def test_solutions_near_the_greatest_float_are_refined_too(rng):
    a = rng.standard_normal((30, 30)) + 8 * np.eye(30)
    x = np.sign(rng.standard_normal(30))
    found = refine(a, a @ (x * 4e306))
    np.testing.assert_allclose(found.x / 4e306, x, rtol=0, atol=1e-13)
    assert len(found.residuals) > 1
