"""Closures by a GPU that the host plays: every launch of small ones, against Floyd and Warshall's three loops."""

import numpy as np
import pytest

from backends.gpu._paths import program as paths_program
from harness import SEMIRINGS, Problem
from harness.machine import detect
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.on_cpu import RUNGS

pytestmark = BY_THE_SHIM
NONE = -9999
KINDS = [
    ("min_plus", "float32"),
    ("min_plus", "float64"),
    ("min_plus", "float16"),
    ("min_plus", "int16"),
    ("min_plus", "int32"),
    ("max_plus", "int64"),
    ("max_min", "float32"),
    ("min_max", "uint8"),
    ("lor_land", "bool"),
]


def edges(n, semiring, dtype, seed, *, density=0.3, high=6):
    """Return a graph whose best paths are exact in any dtype; edges of length zero make ties and cycles."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    zero = SEMIRINGS[semiring].zero(kind)
    weights = rng.integers(0, high, (n, n)).astype(kind)
    if semiring == "max_plus":
        weights = -weights
    if kind.kind == "b":
        weights = np.ones((n, n), bool)
    weights[rng.random((n, n)) >= density] = zero
    return weights


def floyd_warshall(weights, semiring):
    """Return best values: of numbers by floats, whose infinity is what integers have no value for."""
    kind, is_none = weights.dtype, np.eye(len(weights), dtype=bool)
    if kind.kind == "b":
        best, add, multiply = weights | is_none, np.logical_or, np.logical_and
    else:
        add, multiply = ({"plus": np.add, "min": np.minimum, "max": np.maximum}[name] for name in semiring.split("_"))
        absent = np.inf if add is np.minimum else -np.inf
        best = np.where(weights == SEMIRINGS[semiring].zero(kind), absent, weights.astype(float))
        best = add(best, np.where(is_none, 0 if multiply is np.add else -absent, absent))
    for k in range(len(weights)):
        best = add(best, multiply(best[:, k, None], best[None, k, :]))
    if kind.kind in "iu":
        info = np.iinfo(kind)
        best = np.where(np.isinf(best), np.where(best > 0, info.max, info.min), best)
    return best.astype(kind)


def assert_paths(weights, best, before, semiring):
    """Walk every path back, and check that its edges exist and have its value."""
    n, kind = len(weights), SEMIRINGS[semiring]
    zero = kind.zero(weights.dtype)
    multiply = {"plus": np.add, "min": np.minimum, "max": np.maximum, "land": np.logical_and}[semiring[4:]]
    for i, j in np.ndindex(n, n):
        if i == j or best[i, j] == zero:
            assert before[i, j] == NONE
            continue
        path = [j]
        while path[-1] != i:
            path.append(int(before[i, path[-1]]))
            assert 0 <= path[-1] < n
            assert len(path) <= n, "a circle"
        values = weights[path[:0:-1], path[-2::-1]]
        assert (values != zero).all()
        assert multiply.reduce(values) == best[i, j]


def close(gpu, weights, semiring, *, keeps, block=None, name="gpu-tuned"):
    n, count = weights.shape[-1], weights.size // weights.shape[-1] ** 2
    problem = Problem(n, n, n, SEMIRINGS[semiring], weights.dtype)
    closure = RUNGS[name].prepare_closure(problem, count, block, detect(), keeps=keeps)
    best, before = gpu.array(weights), gpu.array(np.full(weights.shape, 7, np.int32)) if keeps else None
    findings = closure(best, before)
    return best.get(), before.get() if keeps else None, findings


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_every_step_of_small_matrices(gpu, monkeypatch, semiring, dtype, keeps):
    monkeypatch.setattr(paths_program, "PANEL", 32)
    for n, block in ((1, None), (2, None), (3, None), (33, None), (37, 8), (64, 16), (67, 32)):
        weights = edges(n, semiring, dtype, n, density=min(1, 3 / n + 0.05))
        best, before, findings = close(gpu, weights, semiring, keeps=keeps, block=block)
        expected = floyd_warshall(weights, semiring)
        np.testing.assert_array_equal(best, expected)
        assert (findings.nan, findings.cycle) == (-1, -1)
        if keeps:
            assert_paths(weights, best, before, semiring)
