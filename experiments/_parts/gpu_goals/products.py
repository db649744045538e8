"""Goals of the kernels: thin and deep shapes, ragged squares, operands that are converted first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._tasks.chained import Chain, race
from experiments._parts.goals import Row
from experiments._parts.gpu_goals.rows import call_s, check_close, compare, drawn, launch_of
from harness import gemm, registry
from harness.dtypes import mixed_dtypes
from harness.problem import Problem

# m x n x k: a narrow side, a short or a long k.
SHAPES = """5000x31x5000 31x5000x5000 100000x96x96 300x7000x500 64x64x50000 2000x2000x20 10000x10000x16 65536x64x64
256x256x65536 128x8192x8192 16x8192x8192 65536x16x512 65x65x4096 4096x4096x64 100x100x100000 20000x33x1000
33x20000x1000 8x10000x10000 10000x8x10000 1000x50x30000 3x5000x5000 5000x2x5000 200000x10x50 7000x300x500 1023x65x8191
8000x8000x33 500000x32x8 17x23x300000 32x5000x5000 5000x32x5000 512x512x20000 48x48x48000 3000x100x3000 100x3001x3000
50000x128x128 8192x64x8192 24x6000x3000 6001x40x2500 77x77x20001 12000x60x60 400x400x8000 30x30x3000 3001x3001x25
150x150x30000 20x40000x300 40000x20x301"""
LIBRARY = "gpu-cublas"
OWN = {
    "float32": ("gpu-tuned", "gpu-rank-update"),
    "float64": ("gpu-tensor-core", "gpu-tuned", "gpu-rank-update"),
    "bfloat16": ("gpu-tensor-core",),
}
RAGGED, TALL = 10, 20
# n of int8: over cuBLAS, with both operands along k; and odd sizes, of the rate at the one beside it.
INT8 = {2048: None, 4096: 0.95, 8192: 1.03, 16384: 1.2}
INT8_ODD = {2049: 2048, 4095: 4096, 4097: 4096, 8191: 8192, 8193: 8192, 16383: 16384}
OF_WHOLE = 0.85


def thin() -> Iterator[Row]:
    """Yield the best of our own kernels over cuBLAS for each shape and dtype, and the geometric means."""
    for dtype, backends in OWN.items():
        ratios = []
        for text in SHAPES.split():
            m, n, k = map(int, text.split("x"))
            problem, a, b = _operands(m, n, k, dtype)
            names = [name for name in backends if registry.find(name).refuses(problem) is None]
            times = compare({name: launch_of(name, problem, a, b) for name in (LIBRARY, *names)}, 5)
            library = times.pop(LIBRARY)
            best = min(times, key=lambda name: times[name])
            ratios.append(library / times[best])
            yield Row(f"{text} {dtype}, {best} over cuBLAS ({library * 1e6:.1f} us)", 0.90, ratios[-1])
        yield Row(f"thin and deep, {dtype}: geometric mean", 1.0, _mean(ratios))
        yield Row(f"thin and deep, {dtype}: how many of 46 have 0.90", None, sum(x >= 0.90 for x in ratios))


def tall() -> Iterator[Row]:
    """Yield the best of our own kernels over cuBLAS for a tall C of few columns, drawn anew in each run; the means."""
    random = np.random.default_rng()
    for dtype, columns in (("float32", 48), ("bfloat16", 64)):
        ratios = []
        for _ in range(TALL):
            m, n, k = (int(np.exp(random.uniform(*np.log(ends)))) for ends in ((3000, 300_000), (2, columns), (4, 600)))
            problem, a, b = _operands(m, n, k, dtype)
            names = [name for name in OWN[dtype] if registry.find(name).refuses(problem) is None]
            times = compare({name: launch_of(name, problem, a, b) for name in (LIBRARY, *names)}, 5)
            library = times.pop(LIBRARY)
            ratios.append(library / min(times.values()))
            yield Row(f"{m}x{n}x{k} {dtype} over cuBLAS ({library * 1e6:.1f} us)", None, ratios[-1])
        yield Row(f"tall, {dtype}: geometric mean of {TALL}", 1.2, _mean(ratios))


def _operands(m: int, n: int, k: int, dtype: str) -> tuple[Problem, Any, Any]:
    if dtype != "bfloat16":
        return Problem(m, n, k, "plus_times", np.dtype(dtype)), drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype)
    narrow = next(x for x, _ in mixed_dtypes() if x.name == dtype)
    halves = (_rounded(drawn(*shape)).view(narrow) for shape in ((m, k), (k, n)))
    return Problem(m, n, k, "plus_times", np.dtype(np.float32), operand_dtype=narrow), *halves


def _rounded(x: Any) -> Any:
    """Return the bits of the nearest bfloat16 of finite float32."""
    return ((x.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def ragged() -> Iterator[Row]:
    """Yield gpu-tuned over cuBLAS in float32 at sizes drawn anew in each run, of which none is a multiple of 32."""
    sizes = [int(x) for x in np.random.default_rng().integers(700, 2401, 3 * RAGGED) if x % 32][:RAGGED]
    ratios = []
    for n in sorted(sizes):
        problem, a, b = _operands(n, n, n, "float32")
        times = compare({name: launch_of(name, problem, a, b) for name in (LIBRARY, "gpu-tuned")}, 9)
        ratios.append(times[LIBRARY] / times["gpu-tuned"])
        yield Row(f"gpu-tuned over cuBLAS, float32, n = {n}", 0.93, ratios[-1])
    yield Row("the same: geometric mean", 1.0, _mean(ratios))


def integers() -> Iterator[Row]:
    """Yield int8 with sums in int32 over cuBLAS, and its rate at odd sizes over that at even ones."""
    for n, asked in INT8.items():
        problem, a, b = _bytes(n)
        times = compare({name: launch_of(name, problem, a, b) for name in (LIBRARY, "gpu-tensor-core")}, 9)
        ratio = times[LIBRARY] / times["gpu-tensor-core"]
        yield Row(f"int8, n = {n}, over cuBLAS ({_rate(n, times[LIBRARY]):.0f} T operations/s)", asked, ratio)
    for odd, even in INT8_ODD.items():
        launches = {}
        for n in (odd, even):
            problem, a, b = _bytes(n)
            run, out = launch_of("gpu-tensor-core", problem, a, b)
            columns = [*range(0, n, n // 50), n - 1]
            exact = a.astype(np.float64) @ b[:, columns].astype(np.float64)
            check_close(out[:, columns].astype(np.float64), exact)
            launches[n] = Chain(run)
        times = race(launches, 9)
        ratio = _rate(odd, times[odd]) / _rate(even, times[even])
        yield Row(
            f"int8, n = {odd}, of the rate at {even} ({_rate(odd, times[odd]):.0f} T operations/s)", OF_WHOLE, ratio
        )


def _bytes(n: int) -> tuple[Problem, Any, Any]:
    """Return a product of bytes of all values, both operands along k."""
    random, narrow = device.cupy().random, np.dtype(np.int8)
    a, b = (random.randint(-128, 128, (n, n), dtype=np.int8) for _ in "ab")
    return Problem(n, n, n, "plus_times", np.dtype(np.int32), operand_dtype=narrow), a, b.T


def _rate(n: int, time_s: float) -> float:
    return 2 * n**3 / time_s / 1e12


def converted() -> Iterator[Row]:
    """Yield float32 with sums of float64 over converting first and cuBLAS; transposed operands over cupy.matmul."""
    cupy = device.cupy()
    for m, n, k in ((1024, 1024, 1024), (4096, 4096, 4096), (2000, 64, 2000)):
        a, b, c = drawn(m, k), drawn(k, n), device.empty((m, n), np.dtype(np.float64))
        problem = Problem(m, n, k, "plus_times", "float64", operand_dtype=np.dtype(np.float32))
        wide_a, wide_b = (x.astype(np.float64) for x in (a, b))
        product, c = launch_of(LIBRARY, Problem(m, n, k, "plus_times", "float64"), wide_a, wide_b, out=c)

        def by_hand(a: Any = a, b: Any = b, x: Any = wide_a, y: Any = wide_b, product: Any = product) -> None:
            cupy.copyto(x, a)
            cupy.copyto(y, b)
            product()

        names = (LIBRARY, "gpu-tensor-core", "gpu-naive")
        times = compare({"by hand": (by_hand, c), **{name: launch_of(name, problem, a, b) for name in names}}, 5)
        for name in names:
            asked = 0.9 if name == LIBRARY else None
            yield Row(
                f"{m}x{n}x{k} float32 to float64, {name} over converting by hand", asked, times["by hand"] / times[name]
            )
    for dtype in ("float32", "float64"):
        for n in (512, 4096):
            x, y, out = drawn(n, n, dtype=dtype), drawn(n, n, dtype=dtype), device.empty((n, n), np.dtype(dtype))
            for form, a, b in (("a.T @ b", x.T, y), ("a @ b.T", x, y.T), ("a.T @ b.T", x.T, y.T)):
                library = call_s(lambda a=a, b=b, out=out: cupy.matmul(a, b, out=out), 20)
                expected = out.copy()
                ours = call_s(lambda a=a, b=b, out=out: gemm(a, b, out=out), 20)
                check_close(out, expected)
                yield Row(f"{form}, {n}^3 {dtype}, auto over cupy.matmul, calls", 1.0, library / ours)
