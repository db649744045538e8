"""Graphs of the host on GPUs: nothing is read before it is there, or overwritten before it is read, by any schedule."""

import itertools
import threading
import time

import numpy as np
import pytest

from harness import SEMIRINGS, ProblemError
from harness.api.paths import passes, several, transfers
from harness.api.paths.large import Panels
from harness.api.paths.several import Shares
from harness.api.paths.transfers import Transfer, Transfers
from harness.paths import closure
from tests._support.graphs import closure_by_definition
from tests._support.played_streams import Gpus, Rows

MIN_PLUS = SEMIRINGS["min_plus"]
UP, DOWN = 1, 2
SCHEDULES = [
    {"eager_copies": copies, "eager_products": products, "slow": slow}
    for copies, products, slow in itertools.product([False, True], [False, True], [0, UP, DOWN])
]


@pytest.fixture(params=SCHEDULES, ids=str)
def gpus(request, monkeypatch):
    """Return GPUs, to which rows are copied by many small pieces."""
    monkeypatch.setattr(transfers, "PIECE", 1 << 10)
    return Gpus(**request.param)


def graph(rng):
    """Return a graph of few edges, and few paths of one length."""
    return np.where(rng.random((100, 100)) < 0.04, rng.integers(1, 1000, (100, 100)), np.inf).astype(np.float32)


@pytest.mark.parametrize(("rows", "pivots"), [(16, 16), (16, 48), (8, 64), (64, 64), (16, 128)])
def test_rows_pass_through_a_gpu(gpus, rows, pivots, rng):
    weights = graph(rng)
    with Transfers(gpus, 3) as copies:
        best = passes.close_by_panels(gpus, weights, Panels(rows, pivots), MIN_PLUS, Rows, copies)
    np.testing.assert_array_equal(best, closure_by_definition(weights, "min_plus"))


@pytest.mark.parametrize(
    ("count", "rows", "late"), [(1, 16, 1), (2, 128, 1), (2, 6, 4), (3, 16, 1), (3, 4, 3), (3, 3, 8)]
)
def test_rows_lie_on_several_gpus(gpus, count, rows, late, rng):
    weights = graph(rng)
    best = several.close_on_several(gpus, weights, [2, 0, 1][:count], Shares(rows, late), MIN_PLUS, Rows, 2)
    np.testing.assert_array_equal(best, closure_by_definition(weights, "min_plus"))


def test_arrays_pass_as_they_are(gpus, rng):
    given = rng.integers(0, 99, (3, 40, 80))[:, :, ::2].astype(np.int16)
    result = np.empty(given.shape, given.dtype)
    with Transfers(gpus, 3) as copies:
        copies.touch(result).wait()
        there = passes.to_gpu(gpus, given[..., ::-1], copies)
        passes.to_host(gpus, [(result, there)], copies)
    np.testing.assert_array_equal(result, given[..., ::-1])


def test_pages_are_cleared_before_rows_are_written_there(gpus, monkeypatch, rng):
    def touch(self, x):
        return Transfer([self._pools[1].submit(lambda: (time.sleep(0.1), x.fill(0)))])

    monkeypatch.setattr(Transfers, "touch", touch)
    weights = graph(rng)
    expected = closure_by_definition(weights, "min_plus")
    with Transfers(gpus, 3) as copies:
        best = passes.close_by_panels(gpus, weights, Panels(16, 128), MIN_PLUS, Rows, copies)
    np.testing.assert_array_equal(best, expected)
    best = several.close_on_several(gpus, weights, [0, 1], Shares(16, 1), MIN_PLUS, Rows, 2)
    np.testing.assert_array_equal(best, expected)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("calls", [1, 9])
def test_no_thread_copies_any_more_after_an_error(gpus, error, calls, rng):
    class Failing(Rows):
        left = calls

        def improve(self, *given):
            Failing.left -= 1
            if Failing.left == 0:
                raise error
            super().improve(*given)

    weights, before = graph(rng), threading.active_count()
    with pytest.raises(error), Transfers(gpus, 3) as copies:
        passes.close_by_panels(gpus, weights, Panels(16, 32), MIN_PLUS, Failing, copies)
    assert threading.active_count() == before
    Failing.left = calls
    with pytest.raises(error):
        several.close_on_several(gpus, weights, [0, 1], Shares(16, 1), MIN_PLUS, Failing, 2)
    assert threading.active_count() == before


def test_an_error_of_a_copy_is_that_of_the_call(gpus, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such address")

    monkeypatch.setattr(gpus.cuda.runtime, "memcpyAsync", fail)
    with pytest.raises(RuntimeError, match="no such address"), Transfers(gpus, 3) as copies:
        passes.close_by_panels(gpus, np.ones((99, 99)), Panels(16, 32), MIN_PLUS, Rows, copies)


def test_nan_and_cycles_are_told_of(gpus):
    weights = np.full((99, 99), np.inf)
    weights[70, 50], weights[50, 70] = 1.0, -2.0
    for message in (r"vertex (70|50) lies on a negative cycle", r"NaN at \[3, 4\]"):
        with pytest.raises(ProblemError, match=message), Transfers(gpus, 2) as copies:
            passes.close_by_panels(gpus, weights, Panels(16, 32), MIN_PLUS, Rows, copies)
        with pytest.raises(ProblemError, match=message):
            several.close_on_several(gpus, weights, [0, 1], Shares(16, 1), MIN_PLUS, Rows, 2)
        weights[3, 4] = np.nan


@pytest.mark.gpu
@pytest.mark.parametrize(("semiring", "dtype"), [("min_plus", "float32"), ("max_min", "int16"), ("lor_land", "bool")])
def test_a_gpu_closes_arrays_of_the_host(semiring, dtype, rng):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("no CUDA device")
    n, kind = 4200, np.dtype(dtype)
    weights = rng.integers(1, 1000, (n, n)).astype(kind)
    weights[rng.random((n, n)) >= (0.0005 if dtype == "bool" else 0.1)] = SEMIRINGS[semiring].zero(kind)
    expected = closure(cupy.asarray(weights), semiring).get()
    ways = [{}, {"memory_cap": weights.nbytes // 2}, {"memory_cap": weights.nbytes // 8}]
    for way in [*ways, *([{"device": list(range(count))}] if count > 1 else [])]:
        for given in (weights, np.asfortranarray(weights)):
            np.testing.assert_array_equal(closure(given, semiring, **({"device": 0} | way)), expected)
