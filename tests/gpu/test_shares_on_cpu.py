"""Shares of k on tensor cores, and the addition of their sums, executed: the same .cu files, with planted mistakes."""

import numpy as np
import pytest

from backends.gpu._passes import shares
from backends.gpu._program.program import Product
from harness.errors import VerificationError
from tests.gpu import simt_products
from tests.gpu.host_kernels import COMPILER, KernelFault
from tests.gpu.simt_products import use_the_cpu
from tests.gpu.test_tensor_cores_on_cpu import BROUGHT, _scatter, compute, compute_by_wgmma

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here"),
    pytest.mark.no_cover,
]

DEEP = {"float64": (65, 47, 70), "float32": (65, 47, 150)}  # the last share is shorter, and its last tile partial


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    use_the_cpu(monkeypatch)


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
    compute("float32", (33, 17, 100), _scatter(np.nan, np.inf), accumulate=True, shares=3)


def test_persistent_blocks_share_k():
    compute("float64", (140, 130, 70), accumulate=True, **BROUGHT, shares=3)
    compute_by_wgmma((140, 150, 300), accumulate=True, alpha=2.0, shares=3)
    compute_by_wgmma((140, 20, 330), alpha=-0.5, bn=64, tn=4, shares=2)
    compute_by_wgmma((140, 131, 100), "float32", shares=2)


PLANTED = {
    "the share before": ("blockIdx.x / tiles_c * depth", "max((int)blockIdx.x / tiles_c - 1, 0) * depth"),
    "the end of k is that of a share": ("k = min(k - begin, depth);", "k = depth;"),
    "tiles in each other's place": ("c + (long long)index * (BM * BN), BN", "c, BN"),
}


@pytest.mark.parametrize("edit", PLANTED.values(), ids=PLANTED)
def test_planted_mistake_in_shares_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", DEEP["float64"], shares=3)


PLANTED_IN_PERSISTENT = {
    "stages of the first share": ("(first + at) * BK", "at * BK"),
    "stages past the end of k": ("of_share.count, alpha", "depth, alpha"),
    "tiles in each other's place": ("c + (long long)index * (FETCHERS * BM * BN)", "c"),
}


@pytest.mark.parametrize("edit", PLANTED_IN_PERSISTENT.values(), ids=PLANTED_IN_PERSISTENT)
def test_planted_mistake_in_shares_of_persistent_blocks_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", (140, 130, 80), **BROUGHT, shares=2)


# Few elements and many shares: several threads add up one element.
MANY = {"bm": 16, "bn": 32, "bk": 8, "wm": 16, "wn": 32, "tm": 4, "tn": 4, "stages": 2, "wave": 1 << 30, "shares": 37}


def _add_up(**more):
    simt_products.compute("gpu-tuned", "plus_times", "float32", (17, 35, 300), accumulate=True, **MANY, **more)


def test_threads_share_the_sums_of_an_element(monkeypatch):
    lines = []
    fold = shares.fold
    monkeypatch.setattr("backends.gpu._base.tuned_rung.fold", lambda *x: lines.append(fold(*x)) or lines[-1])
    _add_up()
    simt_products.compute("gpu-tuned", "min_plus", "float32", (16, 32, 300), **MANY)
    assert all(int(dict(step.kernel.defines)["LINES"]) > 2 for step in lines)


@pytest.mark.parametrize(
    "edit",
    [
        ("begin = line * run", "begin = 0"),
        ("if (other * run < shares) ", ""),
        ("runs[other][mine]", "runs[other - 1][mine]"),
        ("if (line > 0) return;", ""),
        ("__syncthreads();\n    if (line", "if (line"),
    ],
)
def test_planted_mistake_in_the_addition_of_shares_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        _add_up()


def test_sums_are_added_up_by_blocks_of_few_elements():
    """Every element of C has its threads: shares of one tile need more blocks with more threads an element."""
    product = Product(*[None] * 2, None, 64, 64, 9999, None, False, None)
    tail = shares.Tail(None, 0, 1, 132, 80)
    step = shares.fold((), (64, 64, 8), tail, product._replace(out=type("M", (), {"place": None, "ld": 64})))
    assert step.grid[0] * shares.FOLD_BLOCK // int(dict(step.kernel.defines)["LINES"]) == 64 * 64
