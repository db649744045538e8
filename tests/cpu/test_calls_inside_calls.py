"""A signal handler, or a finalizer, that multiplies in the middle of a product of its own thread: both are right."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backends.cpu import simd
from backends.cpu._compile import scratch
from backends.cpu._simd import small_products
from backends.cpu._vector.operators import operations
from backends.cpu.simd import Simd
from harness import SEMIRINGS, Problem, gemm, gemm_argk, gemv, machine, symv
from harness.dtypes import mixed_dtypes

pytestmark = [
    pytest.mark.skipif(bool(Simd().missing()), reason="generated code cannot run here"),
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers"),
]
SECONDS = 1.0


@pytest.fixture
def on_alarm() -> Iterator[Any]:
    """Return ``on_alarm(function)``, which calls it in a signal handler."""
    before = signal.getsignal(signal.SIGALRM)
    yield lambda function: signal.signal(signal.SIGALRM, lambda *_: function())
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _call(kind: str) -> Callable[[], Any]:
    """Return a product, which returns one array."""
    if kind == "a vector by rows":
        a, x = np.random.default_rng().random((700, 700)), np.random.default_rng().random(700)
        return lambda: gemv(a.T, x, threads=2)
    if kind == "a symmetric matrix by a vector":
        a, x = np.random.default_rng().random((500, 500)), np.random.default_rng().random(500)
        return lambda: symv(a, x)
    a, b, options = _operands(kind)
    if kind == "k of each element":
        return lambda: np.stack(gemm_argk(a, b))
    return lambda: gemm(a, b, threads=1, **options)


def _operands(kind: str) -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng()
    if kind == "a batch":
        return rng.random((30, 24, 24)), rng.random((30, 24, 24)), {}
    if kind == "a batch with scalars and C":
        a, b, c = rng.random((3, 30, 24, 24))
        return a, b, {"c": c, "alpha": 2.0, "beta": 0.5}
    if kind == "mixed":
        narrow = next(x for x, _ in mixed_dtypes() if x.name == "int8")
        a, b = (rng.integers(-9, 9, (160, 160), dtype="int8").astype(narrow) for _ in "ab")
        return a, b, {"dtype": "int32"}
    a, b = rng.random((2, 200, 200))
    return (a.T, a, {}) if kind == "by itself" else (a, b, {})


KINDS = (
    "large",
    "by itself",
    "a batch",
    "a batch with scalars and C",
    "mixed",
    "a vector by rows",
    "a symmetric matrix by a vector",
    "k of each element",
)


@pytest.mark.deep(but=4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inside", ("the same", "large"))
def test_a_signal_handler_multiplies(kind: str, inside: str, on_alarm: Any) -> None:
    call, other = _call(kind), _call(kind if inside == "the same" else inside)
    expected, of_handler = call(), other()
    begin = time.perf_counter()
    call()
    took, wrong, calls = time.perf_counter() - begin, [0, 0], 0

    def handle() -> None:
        wrong[0] += not np.array_equal(other(), of_handler)

    on_alarm(handle)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        signal.setitimer(signal.ITIMER_REAL, max(random.random() * took, 1e-6))
        wrong[1] += not np.array_equal(call(), expected)
        calls += 1
    assert calls > 10
    assert wrong == [0, 0]


def test_one_between_setting_the_addresses_and_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    real, inside, dtype = small_products._ready_product, [], np.dtype(np.float64)
    a, b, x, y = np.random.default_rng(4).random((4, 150, 150))
    result, of_other = np.empty((2, 150, 150))
    ops = operations(SEMIRINGS["plus_times"], dtype)
    assert ops is not None

    def loops_of(shape: Any, is_swapped: bool) -> Any:
        plan = Simd().plan(Problem(shape.m, shape.n, shape.k, dtype=dtype), machine.detect().with_threads(1))
        return simd.settings_of(plan).loops(ops, dtype, shape)

    def interrupted(*layout: Any) -> Any:
        way, bind, run = real(*layout)

        def run_later() -> None:
            if not inside:
                inside.append(1)
                large.compute(x, y, of_other)
            run()

        return way, bind, run_later

    monkeypatch.setattr(small_products, "_ready_product", interrupted)
    large = small_products.LargeProducts(loops_of)
    large.compute(a, b, result)
    assert inside
    assert np.allclose(result, a @ b)
    assert np.allclose(of_other, x @ y)


def test_an_exception_of_a_handler_is_raised_as_it_is(on_alarm: Any) -> None:
    class Late(Exception):
        """What the handler raises."""

    def handle() -> None:
        raise Late

    on_alarm(handle)
    a = np.random.default_rng(5).random((105, 105))
    expected, raised = gemm(a.T, a), 0
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1.5e-4))
            for _ in range(10):
                gemm(a.T, a)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            raised += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert raised > 10
    assert np.array_equal(gemm(a.T, a), expected)


def test_memory_in_use_is_given_to_no_other_product() -> None:
    block = scratch.scratch(1 << 12, "a test")
    assert scratch.scratch(1 << 12, "a test") is block
    with block.lock:
        assert scratch.scratch(1 << 12, "a test") is not block
    assert scratch.scratch(1 << 12, "a test") is block
    others: list[Any] = []
    thread = threading.Thread(target=lambda: others.append(scratch.scratch(1 << 12, "a test")))
    thread.start()
    thread.join()
    assert others[0] is not block
