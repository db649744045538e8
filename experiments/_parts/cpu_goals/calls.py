"""Goals of calls in one process, on one thread: batches, layouts, sizes, small products, symmetric results."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from experiments._parts.goals import Row
from harness import gemm, registry
from harness.errors import BackendUnavailable, VerificationError
from harness.threads import limit

Call = Callable[[np.ndarray], object]  # of an array for the result

DTYPES = ("float64", "float32")
# Products, sides, and what is asked of numpy.matmul's rate.
BATCHES = ((512, 8, 1.0), (512, 32, 1.2), (64, 128, 1.2))
SIZES, LEAST, MEAN = 10, 0.97, 1.02
SECONDS, SAMPLE_S, FEWEST = 1.2, 2e-3, 7


def batches() -> Iterator[Row]:
    """Yield the rate of batches of small products over numpy.matmul's."""
    for dtype in DTYPES:
        for count, n, asked in BATCHES:
            a, b = drawn(count, n, n, dtype=dtype), drawn(count, n, n, dtype=dtype)
            yield Row(f"{count} of {n} x {n} x {n} {dtype}", asked, over_numpy(a, b))


def layouts() -> Iterator[Row]:
    """Yield the rate of rank-16 updates, of Fortran order and of own transposes over numpy.matmul's."""
    for dtype in DTYPES:
        a, b = drawn(4000, 16, dtype=dtype), drawn(16, 4000, dtype=dtype)
        yield Row(f"4000 x 4000 x 16 {dtype}", 1.0, over_numpy(a, b))
        for n in (300, 1500):
            a, b = drawn(n, n, dtype=dtype), drawn(n, n, dtype=dtype)
            yield Row(f"both in Fortran order, n = {n} {dtype}", 1.0, over_numpy(a.T, b.T))
            yield Row(f"a.T @ a, n = {n} {dtype}", 1.0, over_numpy(a.T, a))
            yield Row(f"a @ a.T, n = {n} {dtype}", 1.0, over_numpy(a, a.T))


def sizes() -> Iterator[Row]:
    """Yield the rate at sizes between 1000 and 2000, drawn anew in each run, over the faster of OpenBLAS and MKL."""
    for dtype in DTYPES:
        ratios = []
        for n in sorted(random.sample(range(1000, 2000), SIZES)):
            a, b = drawn(n, n, dtype=dtype), drawn(n, n, dtype=dtype)
            calls = {"ours": _ours(a, b), "numpy": _numpy(a, b)}
            if _has("cpu-mkl"):
                calls["mkl"] = lambda out, a=a, b=b: gemm(a, b, out=out, threads=1, backend="cpu-mkl")
            times = in_turns(calls, a @ b)
            ours = times.pop("ours")
            ratios.append(min(_ratio(ours, times[name]) for name in times))
            yield Row(f"n = {n} {dtype}, over the faster of {' and '.join(times)}", LEAST, ratios[-1])
        yield Row(f"{dtype}: geometric mean", MEAN, math.exp(statistics.fmean(map(math.log, ratios))))


def singles() -> Iterator[Row]:
    """Yield the rate of single small products over numpy.matmul's, with an array for the result and without."""
    for dtype in DTYPES:
        for n in (4, 8, 16, 32, 64, 128):
            a, b = drawn(n, n, dtype=dtype), drawn(n, n, dtype=dtype)
            times = in_turns({"ours": lambda _, a=a, b=b: gemm(a, b), "numpy": lambda _, a=a, b=b: a @ b}, None)
            new = _ratio(times["ours"], times["numpy"])
            yield Row(f"n = {n} {dtype}, gemm(a, b, out=c); gemm(a, b): {new:.2f}", None, over_numpy(a, b))


def symmetric() -> Iterator[Row]:
    """Yield the rate of `a @ a.T` over min_plus to that of the product by a copy of a.T."""
    for dtype in DTYPES:
        a = drawn(1500, 1500, dtype=dtype)
        copied = np.ascontiguousarray(a.T)
        calls: dict[str, Call] = {
            "whole": lambda out, a=a, b=copied: gemm(a, b, semiring="min_plus", out=out, threads=1),
            "half": lambda out, a=a: gemm(a, a.T, semiring="min_plus", out=out, threads=1),
        }
        times = in_turns(calls, gemm(a, copied, semiring="min_plus"))
        yield Row(f"a @ a.T over min_plus, n = 1500 {dtype}", 1.7, _ratio(times["half"], times["whole"]))


def drawn(*shape: int, dtype: str) -> np.ndarray:
    """Return normally distributed numbers."""
    return np.random.default_rng().standard_normal(shape).astype(dtype)


def over_numpy(a: np.ndarray, b: np.ndarray) -> float:
    """Return the rate of `gemm` over that of numpy.matmul, both on one thread, with an array for the result."""
    times = in_turns({"ours": _ours(a, b), "numpy": _numpy(a, b)}, a @ b)
    return _ratio(times["ours"], times["numpy"])


def _ours(a: np.ndarray, b: np.ndarray) -> Call:
    return lambda out: gemm(a, b, out=out, threads=1)


def _numpy(a: np.ndarray, b: np.ndarray) -> Call:
    return lambda out: np.matmul(a, b, out=out)


def _has(backend: str) -> bool:
    try:
        registry.find(backend)
    except BackendUnavailable:
        return False
    return True


def _ratio(ours: list[float], peer: list[float]) -> float:
    """Return the median of the ratios of each turn."""
    return statistics.median(y / x for x, y in zip(ours, peer, strict=True))


def in_turns(calls: dict[str, Call], expected: np.ndarray | None) -> dict[str, list[float]]:
    """Return samples of each call [s], in turns, each in another order; one thread for all.

    Raises
    ------
    VerificationError
        If a call computes something else than `expected`.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    with limit(1):
        out = np.empty(0) if expected is None else np.empty(expected.shape, expected.dtype)
        loops = {}
        for name, call in calls.items():
            call(out)
            if expected is not None and not np.allclose(out, expected, rtol=1e-3, atol=1e-3):
                raise VerificationError(f"{name} computes another product", expected="numpy.matmul's", got="another")
            begin = time.perf_counter()
            call(out)
            loops[name] = max(1, int(SAMPLE_S / (time.perf_counter() - begin)))
        end, order = time.perf_counter() + SECONDS, list(calls)
        while time.perf_counter() < end or len(times[order[0]]) < FEWEST:
            random.shuffle(order)
            for name in order:
                call, begin = calls[name], time.perf_counter()
                for _ in range(loops[name]):
                    call(out)
                times[name].append((time.perf_counter() - begin) / loops[name])
    return times
