"""Print the median time of one product, called again and again in this process [s].

    python -m experiments._parts.cpu_goals.alone WHAT SIZE [own] DTYPE THREADS

WHAT is a semiring, which `gemm` computes, ``numpy`` or ``torch``; SIZE is n, MxNxK, or COUNTxMxNxK of a batch; ``own``:
a matrix by its own transpose.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from harness import gemm
from harness.dtypes import mixed_dtypes

SECONDS, SAMPLE_S, FEWEST = 0.8, 5e-3, 7
LIMITS = {"int8": (-128, 128)}


def main() -> int:
    """Print the time."""
    what, size, *own, dtype, threads = sys.argv[1:]
    *count, m, n, k = _sides(size)
    operands = _drawn((*count, m, k), dtype), _drawn((*count, k, n), dtype)
    if own:
        operands = operands[0].swapaxes(-1, -2), operands[0]
    library: Callable[..., Callable[[], Any]] = {"numpy": _numpy, "torch": _torch}.get(what, _ours)
    sys.stdout.write(f"{_median(library(what, *operands, dtype, int(threads)))}\n")
    return 0


def _sides(size: str) -> list[int]:
    sides = [int(x) for x in size.split("x")]
    return sides * 3 if len(sides) == 1 else sides


def _drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    random = np.random.default_rng(0)
    if dtype in LIMITS:
        return random.integers(*LIMITS[dtype], shape, dtype=dtype)
    return random.standard_normal(shape).astype("float32" if dtype == "bfloat16" else dtype)


def _ours(what: str, a: np.ndarray, b: np.ndarray, dtype: str, threads: int) -> Callable[[], Any]:
    sums = {"bfloat16": "float32", "int8": "int32"}.get(dtype)
    if dtype == "bfloat16":
        narrow = next(x for x, _ in mixed_dtypes() if x.name == dtype)
        a, b = a.astype(narrow), b.astype(narrow)
    out = gemm(a, b, semiring=what, dtype=sums, threads=threads)
    return lambda: gemm(a, b, semiring=what, dtype=sums, out=out, threads=threads)


def _numpy(what: str, a: np.ndarray, b: np.ndarray, dtype: str, threads: int) -> Callable[[], Any]:
    out = a @ b
    return lambda: np.matmul(a, b, out=out)


def _torch(what: str, a: np.ndarray, b: np.ndarray, dtype: str, threads: int) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    x, y = (torch.from_numpy(z).to(getattr(torch, dtype)) for z in (a, b))
    multiply = getattr(torch, "_int_mm" if dtype == "int8" else "matmul")  # the former has no public name
    out = multiply(x, y)
    return lambda: multiply(x, y, out=out)


def _median(call: Callable[[], Any]) -> float:
    for _ in range(3):
        call()
    begin = time.perf_counter()
    call()
    loops, samples = max(1, int(SAMPLE_S / (time.perf_counter() - begin))), []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(samples) < FEWEST:
        begin = time.perf_counter()
        for _ in range(loops):
            call()
        samples.append((time.perf_counter() - begin) / loops)
    return statistics.median(samples)


if __name__ == "__main__":
    sys.exit(main())
