"""Shares of k on tensor cores, and the addition of their sums, executed: the same .cu files, with planted mistakes."""

import numpy as np
import pytest

from backends.gpu._passes import shares
from backends.gpu._program.program import Product
from tests.gpu import on_cpu
from tests.gpu.on_cpu import ON_CPU
from tests.gpu.test_tensor_cores_on_cpu import BROUGHT, compute, compute_by_wgmma, scatter

pytestmark = ON_CPU

DEEP = {"float64": (65, 47, 70), "float32": (65, 47, 150)}  # the last share is shorter, and its last tile partial


@pytest.mark.parametrize("accumulate", (False, True))
@pytest.mark.parametrize("dtype", DEEP)
def test_blocks_of_tensor_cores_share_k(dtype, accumulate):
    compute(dtype, DEEP[dtype], accumulate=accumulate, shares=3)


def test_there_are_never_more_shares_than_tiles_along_k():
    compute("float64", (33, 20, 17), shares=100)
    assert shares.share_steps(17, 4) == (4, 5)
    assert shares.share_steps(16, 12) == (8, 2)
    assert shares.share_steps(1, 100) == (1, 1)


def test_shares_of_values_that_tf32_cannot_split_are_not_added_up():
    compute("float32", (33, 17, 100), scatter(np.nan, np.inf), accumulate=True, shares=3)


def test_persistent_blocks_share_k():
    compute("float64", (140, 130, 70), accumulate=True, **BROUGHT, shares=3)
    compute_by_wgmma((140, 150, 300), accumulate=True, alpha=2.0, shares=3)
    compute_by_wgmma((140, 20, 330), alpha=-0.5, bn=64, tn=4, shares=2)
    compute_by_wgmma((140, 131, 100), "float32", shares=2)


# Few elements and many shares: several threads add up one element.
MANY = {"bm": 16, "bn": 32, "bk": 8, "wm": 16, "wn": 32, "tm": 4, "tn": 4, "stages": 2, "wave": 1 << 30, "shares": 37}


def add_up(**more):
    on_cpu.compute("gpu-tuned", "plus_times", "float32", (17, 35, 300), accumulate=True, **MANY, **more)


def test_threads_share_the_sums_of_an_element(monkeypatch):
    lines = []
    fold = shares.fold
    monkeypatch.setattr("backends.gpu._base.tuned_rung.fold", lambda *x: lines.append(fold(*x)) or lines[-1])
    add_up()
    on_cpu.compute("gpu-tuned", "min_plus", "float32", (16, 32, 300), **MANY)
    assert all(int(dict(step.kernel.defines)["LINES"]) > 2 for step in lines)


def test_sums_are_added_up_by_blocks_of_few_elements():
    """Every element of C has its threads: shares of one tile need more blocks with more threads an element."""
    product = Product(*[None] * 2, None, 64, 64, 9999, None, False, None)
    tail = shares.Tail(None, 0, 1, 132, 80)
    step = shares.fold((), (64, 64, 8), tail, product._replace(out=type("M", (), {"place": None, "ld": 64})))
    assert step.grid[0] * shares.FOLD_BLOCK // int(dict(step.kernel.defines)["LINES"]) == 64 * 64
