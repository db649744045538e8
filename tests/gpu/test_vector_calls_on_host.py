"""The vector calls with arrays of a GPU that the host plays: the first call and those after it, with y and out."""

import sys

import numpy as np
import pytest

from harness import ProblemError, axpy, gemv, ger, symv, syr, syrk
from harness.api import arrays
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = BY_THE_SHIM


def numbers(gpu, *shape, seed=0):
    x = np.random.default_rng(seed).integers(-9, 9, shape).astype("float32")
    return x, gpu.array(x)


def test_calls_with_vectors_are_right_in_the_first_call_and_later_ones(gpu):
    (a, on_a), (x, on_x), (y, on_y) = (numbers(gpu, *shape) for shape in ((33, 21), (21,), (33,)))
    (s, on_s), (v, on_v) = numbers(gpu, 29, 29, seed=1), numbers(gpu, 29, seed=2)
    whole, lower = np.tril(s) + np.tril(s, -1).T, np.tril_indices(29)
    for _ in range(3):
        assert np.array_equal(gemv(on_a, on_x).get(), a @ x)
        assert np.array_equal(gemv(on_a, on_x, on_y, alpha=2, beta=3).get(), 2 * (a @ x) + 3 * y)
        assert np.array_equal(gemv(on_a, on_x, semiring="min_plus").get(), (a + x).min(1))
        assert np.array_equal(symv(on_s, on_v).get(), whole @ v)
        assert np.array_equal(ger(on_y, on_x).get(), np.outer(y, x))
        assert np.array_equal(axpy(on_x, on_x, alpha=2).get(), 3 * x)
        assert np.array_equal(syrk(on_a).get()[np.tril_indices(33)], (a @ a.T)[np.tril_indices(33)])
        assert np.array_equal(syr(on_v).get()[lower], np.outer(v, v)[lower])
        out = gpu.empty((33,), "float32")
        assert gemv(on_a, on_x, out=out) is out
        assert np.array_equal(out.get(), a @ x)


def test_the_one_of_axpy_is_made_once(gpu, monkeypatch):
    (x, on_x), made, asarray = numbers(gpu, 21), [], sys.modules["cupy"].asarray
    monkeypatch.setattr(sys.modules["cupy"], "asarray", lambda value: made.append(value) or asarray(value))
    monkeypatch.setattr(arrays, "_constants", {})
    for _ in range(3):
        assert np.array_equal(axpy(on_x, on_x, alpha=2).get(), 3 * x)
    assert np.array_equal(axpy(on_x, on_x, semiring="min_plus").get(), x)
    assert [float(value[0, 0]) for value in made] == [1.0, 0.0]


def test_bad_vectors_are_refused_by_the_name_of_the_call(gpu):
    (_, a), (_, x), (_, short) = numbers(gpu, 33, 21), numbers(gpu, 21), numbers(gpu, 20)
    for arguments, match in (
        ((a, short), "gemv: "),
        ((x, x), "gemv: a is no matrix"),
        ((a, np.zeros(21, "f4")), "gemv: "),
    ):
        with pytest.raises(ProblemError, match=match):
            gemv(*arguments)
    with pytest.raises(ProblemError, match="gemv: out"):
        gemv(a, x, out=gpu.empty((32,), "float32"))
