"""Goals of calls on a GPU: their host time, the first one, batches, gradients, a matrix by its own transpose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from experiments._parts.goals import Row
from experiments._parts.gpu_goals.rows import call_s, drawn
from harness import gemm

BATCHES = ((512, 32), (4096, 16))
HALVES = ((512, 32), (4096, 16), (64, 128), (500, 31))


def host() -> Iterator[Row]:
    """Yield the host time of a warm call over that of cupy.matmul."""
    matmul = device.cupy().matmul
    for n in (64, 256, 512, 1024):
        a, b, out, calls = drawn(n, n), drawn(n, n), device.empty((n, n), np.dtype(np.float32)), 100 if n < 1024 else 30
        library = call_s(lambda a=a, b=b, out=out: matmul(a, b, out=out), calls, waits=False)
        for semiring, most in (("plus_times", 1.5), ("min_plus", 2.5)):
            ours = call_s(lambda s=semiring, a=a, b=b, out=out: gemm(a, b, semiring=s, out=out), calls, waits=False)
            what = f"host time of {semiring}, n = {n}, {ours * 1e6:.1f} us, over cupy.matmul's"
            yield Row(what, most, ours / library, at_most=True)


def first() -> Iterator[Row]:
    """Yield the time of a first call of a class of products, and of further sizes of it."""

    def ms(call: Callable[[], Any]) -> float:
        device.synchronize()
        begin = time.perf_counter()
        call()
        device.synchronize()
        return (time.perf_counter() - begin) * 1e3

    for semiring, dtype in (("max_times", "float32"), ("max_min", "float64"), ("plus_min", "int32")):
        a, b = (drawn(600, 600).astype(dtype) for _ in "ab")
        what = f"first call over {semiring} {dtype}"
        yield Row(f"{what} [ms]", 1000, ms(lambda a=a, b=b, s=semiring: gemm(a, b, semiring=s)), at_most=True)
        for n in (599, 583, 553):
            took = ms(lambda a=a, b=b, s=semiring, n=n: gemm(a[:n, :n], b[:n, :n], semiring=s))
            yield Row(f"{what}, n = {n} then [ms]", 10, took, at_most=True)


def batches() -> Iterator[Row]:
    """Yield the rate of batches over cupy.matmul's, of halves over torch.bmm's, which rounds its sums."""
    matmul = device.cupy().matmul
    for dtype in ("float32", "float64"):
        for count, n in BATCHES:
            a, b = (drawn(count, n, n, dtype=dtype) for _ in "ab")
            out = device.empty(a.shape, a.dtype)
            library = call_s(lambda a=a, b=b, out=out: matmul(a, b, out=out))
            for semiring, asked in (("plus_times", 1.0), ("min_plus", 0.4)):
                ours = call_s(lambda a=a, b=b, out=out, s=semiring: gemm(a, b, semiring=s, out=out))
                yield Row(f"{count} x {n}^3 {dtype} {semiring} over cupy.matmul, calls", asked, library / ours)
    yield from _batches_of_halves()


def _batches_of_halves() -> Iterator[Row]:
    import torch

    for kind in ("float16", "bfloat16"):
        for count, n in HALVES:
            a, b = (torch.randn(count, n, n, device="cuda").to(getattr(torch, kind)) for _ in "ab")
            narrow, wide = torch.empty_like(a), torch.empty(a.shape, device="cuda")
            library = call_s(lambda a=a, b=b, out=narrow: torch.bmm(a, b, out=out))
            ours = call_s(lambda a=a, b=b, out=wide: gemm(a, b, dtype="float32", out=out))
            torch.testing.assert_close(wide, torch.bmm(a.float(), b.float()), rtol=1e-3, atol=1e-3)
            yield Row(f"{count} x {n}^3 {kind} to float32 over torch.bmm, calls", None, library / ours)
            if kind == "float16":
                ours = call_s(lambda a=a, b=b, out=narrow: gemm(a, b, semiring="min_plus", out=out))
                yield Row(f"{count} x {n}^3 {kind} min_plus over torch.bmm, calls", None, library / ours)


def gradients() -> Iterator[Row]:
    """Yield forward and backward over max_plus over the forward product alone."""
    import torch

    from harness.torch import gemm as product

    for n in (1024, 2048):
        a, b = (torch.randn(n, n, device="cuda", requires_grad=True) for _ in "ab")
        g = torch.randn(n, n, device="cuda")

        def forward(a: Any = a, b: Any = b) -> None:
            with torch.no_grad():
                product(a, b, semiring="max_plus")

        def both(a: Any = a, b: Any = b, g: Any = g) -> None:
            torch.autograd.grad(product(a, b, semiring="max_plus"), (a, b), g)

        alone, whole = call_s(forward, 30), call_s(both, 30)
        what = (
            f"max_plus {n}^3 forward and backward ({whole * 1e6:.0f} us) over the product alone ({alone * 1e6:.0f} us)"
        )
        yield Row(what, 3, whole / alone, at_most=True)
        yield Row("the same, host time [us]", None, call_s(both, 30, waits=False) * 1e6)


def symmetric() -> Iterator[Row]:
    """Yield how many times as fast a matrix by its own transpose is as by another matrix."""
    for n in (1500, 4096):
        for semiring in ("min_plus", "max_min"):
            a, out = drawn(n, n), device.empty((n, n), np.dtype(np.float32))
            b = a.T.copy()
            whole = call_s(lambda a=a, b=b, out=out, s=semiring: gemm(a, b, semiring=s, out=out), 10)
            expected = out.copy()
            half = call_s(lambda a=a, out=out, s=semiring: gemm(a, a.T, semiring=s, out=out), 10)
            assert bool((out == expected).all())
            yield Row(f"a @ a.T over {semiring}, n = {n}, over the general product's time", 1.7, whole / half)
