"""Goals of the matrix-vector family, of triangles and of triangular solves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from experiments._parts.goals import Row
from experiments._parts.gpu_goals.rows import call_s, compare, drawn, launch_of, read_and_copy_rates
from harness.linalg import trsm
from harness.problem import Problem

A_X, X_A = "A x", "x A"
DTYPES = ("float32", "float64")
# Rows and columns of matrices: from memory with long sides, others, and below 1 MB.
SHAPES = (
    (16384, 16384), (100000, 10000), (1000000, 200), (200, 1000000), (12001, 12001), (8193, 16387),
    (8192, 8192), (1000000, 10), (1000000, 33), (4097, 4097), (10001, 10001), (1000, 1000000), (20000, 3001),
    (1000, 1000), (2000, 20000), (300, 300), (500, 400), (100, 100),
)  # fmt: skip
LARGE, LEAST_SIDE, SMALL = 1 << 29, 100, 1 << 20
OF_READ = {A_X: 0.93, X_A: 0.90}
OF_CUBLAS = {A_X: 1.0, X_A: 0.97}
AT = {(A_X, 8192, 8192): 1.3, (A_X, 1000000, 10): 3.0}


def vectors() -> Iterator[Row]:
    """Yield the share of the read ceiling, the ratio to cuBLAS's gemv, and min_plus over plus_times."""
    read, copied = read_and_copy_rates()
    yield Row("read ceiling [GB/s]", None, read / 1e9)
    yield Row("copy, read and written [GB/s]", None, copied / 1e9)
    for dtype in DTYPES:
        for rows, columns in SHAPES:
            matrix = drawn(rows, columns, dtype=dtype)
            for side in (A_X, X_A):
                yield from _of_shape(side, matrix, read)
            del matrix
            device.free_memory()


def _of_shape(side: str, matrix: Any, read: float) -> Iterator[Row]:
    (rows, columns), dtype = matrix.shape, matrix.dtype.name
    m, n, k = (rows, 1, columns) if side == A_X else (1, columns, rows)
    x = drawn(k, n, dtype=dtype) if side == A_X else drawn(m, k, dtype=dtype)
    a, b = (matrix, x) if side == A_X else (x, matrix)
    product = Problem(m, n, k, "plus_times", dtype)
    times = compare({name: launch_of(name, product, a, b) for name in ("gpu-mv-cublas", "gpu-mv-tuned")})
    library, ours = times["gpu-mv-cublas"], times["gpu-mv-tuned"]
    what = f"{side} {rows}x{columns} {dtype}"
    if matrix.nbytes >= LARGE:
        asked = OF_READ[side] if min(rows, columns) >= LEAST_SIDE else None
        yield Row(f"{what}, of the read ceiling", asked, matrix.nbytes / ours / read)
        tropical = Problem(m, n, k, "min_plus", dtype)
        of_min_plus = compare({name: launch_of("gpu-mv-tuned", p, a, b) for name, p in (("min", tropical),)})["min"]
        yield Row(f"{what}, min_plus over plus_times", 0.95, ours / of_min_plus)
    if matrix.nbytes > SMALL:
        yield Row(f"{what}, over cuBLAS", AT.get((side, rows, columns), OF_CUBLAS[side]), library / ours)
    else:
        yield Row(f"{what}, longer than cuBLAS by [us]", 0.6, (ours - library) * 1e6, at_most=True)


def triangles() -> Iterator[Row]:
    """Yield symv over gemv, syrk over gemm, and updates over a copy."""
    for dtype in DTYPES:
        yield from _symv(dtype)
        yield from _syrk(dtype)
        yield from _updates(dtype)
        device.free_memory()


def _symv(dtype: str) -> Iterator[Row]:
    for n in (8192, 16384):
        a = drawn(n, n, dtype=dtype)
        a, x = a + a.T, drawn(n, 1, dtype=dtype)
        whole, half = (Problem(n, 1, n, "plus_times", dtype, triangle=t) for t in ("", "a"))
        names = (("gpu-mv-tuned", whole), ("gpu-symv", half), ("gpu-cublas-triangle", half))
        times = compare({name: launch_of(name, problem, a, x) for name, problem in names})
        yield Row(f"symv {n} {dtype} over gemv", 1.7, times["gpu-mv-tuned"] / times["gpu-symv"])
        yield Row(f"symv {n} {dtype} over cuBLAS", 1.1, times["gpu-cublas-triangle"] / times["gpu-symv"])


def _syrk(dtype: str) -> Iterator[Row]:
    own, cupy = "gpu-tuned" if dtype == "float32" else "gpu-tensor-core", device.cupy()
    for n, part in ((4096, 0.57), (8192, 0.55)):
        a = drawn(n, n, dtype=dtype)
        b, whole, half = a.T.copy(), *(Problem(n, n, n, "plus_times", dtype, triangle=t) for t in ("", "d"))
        product, _ = launch_of(own, whole, a, b)
        outs = [cupy.zeros((n, n), a.dtype) for _ in range(2)]
        syrk, library = (
            launch_of(name, half, a, operand, out=out)
            for name, operand, out in ((own, b, outs[0]), ("gpu-cublas-triangle", a.T, outs[1]))
        )
        times = compare({"syrk": syrk, "cuBLAS": library, "gemm": (product, outs[0])})
        yield Row(f"syrk {n} {dtype}, its time over gemm's", part, times["syrk"] / times["gemm"], at_most=True)
        yield Row(f"syrk {n} {dtype} over cuBLAS", 1.0, times["cuBLAS"] / times["syrk"])


def _updates(dtype: str) -> Iterator[Row]:
    n, (_, copied) = 16384, read_and_copy_rates()
    c, x, y = drawn(n, n, dtype=dtype), drawn(n, 1, dtype=dtype), drawn(1, n, dtype=dtype)
    long, one = drawn(n * n, 1, dtype=dtype), device.cupy().full((1, 1), 0.5, dtype)
    update = Problem(n, n, 1, "plus_times", dtype, accumulate=True)
    half = Problem(n, n, 1, "plus_times", dtype, accumulate=True, triangle="d")
    axpy = Problem(n * n, 1, 1, "plus_times", dtype, accumulate=True)
    flat, size = c.reshape(-1, 1), c.nbytes
    for name, problem, a, b, out, moved in (
        ("ger", update, x, y, c, 2 * size), ("syr", half, x, x.T, c, size), ("axpy", axpy, long, one, flat, 3 * size),
    ):  # fmt: skip
        run, _ = launch_of("gpu-rank-update", problem, a, b, out, out)
        took = compare({name: (run, out)})[name]
        yield Row(f"{name} {n} {dtype}, of the rate of a copy", 0.95, moved / took / copied)


def solves() -> Iterator[Row]:
    """Yield triangular solves over cuBLAS's, and their residuals over those of substitution."""
    n, cupy = 4096, device.cupy()
    for dtype in DTYPES:
        a = cupy.tril(drawn(n, n, dtype=dtype)) / 64 + 4 * cupy.eye(n, dtype=dtype)
        for columns in (256, 4096):
            b = drawn(n, columns, dtype=dtype)
            library = call_s(_cublas_solve(a, b), 4)
            ours = call_s(lambda a=a, b=b: trsm(a, b), 4)
            yield Row(f"trsm n = {n}, {columns} columns, {dtype}, over cuBLAS", 1.3, library / ours)
            plain, exact = (_residual(a, trsm(a, b, method=method), b) for method in ("blocks", "substitution"))
            yield Row("the same: residual over that of substitution", 4, plain / exact, at_most=True)


def _cublas_solve(a: Any, b: Any) -> Any:
    """Return a call of cublasStrsm or Dtrsm on a copy of b: rows of b are columns there, and x A^T = b is solved."""
    from cupy_backends.cuda.libs import cublas

    cupy, (n, columns), x = device.cupy(), b.shape, b.copy()
    solve, alpha = getattr(cublas, "strsm" if b.dtype == np.float32 else "dtrsm"), np.array(1, b.dtype)
    right, upper, as_it_is, not_unit = 1, 1, 0, 0

    def call() -> None:
        cupy.copyto(x, b)
        handle = cupy.cuda.device.get_cublas_handle()
        solve(
            handle, right, upper, as_it_is, not_unit, columns, n, alpha.ctypes.data, a.data.ptr, n, x.data.ptr, columns
        )

    return call


def _residual(a: Any, x: Any, b: Any) -> float:
    norm = device.cupy().linalg.norm
    wide_a, wide_x = a.astype(np.float64), x.astype(np.float64)
    return float(norm(wide_a @ wide_x - b) / (norm(wide_a) * norm(wide_x)))
