"""Goals of calls that are alone in a process each: two threads, all processors, narrow dtypes by the tiles of AMX."""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence

from experiments._parts.goals import Row
from harness.machine import detect

ROUNDS = 2
SIZES, LEAST, MEAN = (300, 500, 700, 1000, 1500, 2000, 4096), 0.93, 1.0
OF_ONE_THREAD, MIN_PLUS_SIZES = 0.8, (1000, 1500, 2000)
NARROW_SIZES, NARROW, SMALL, NARROW_AT_512 = (512, 1000, 2048, 4096), 0.9, 512, 0.6
BATCHES = (("512x8x8x8", 1.0), ("512x32x32x32", 1.2), ("64x128x128x128", 1.2))
PEERS, TORCH = ("numpy", "torch"), "torch"


def threads() -> Iterator[Row]:
    """Yield the rate of two threads over those of NumPy's: batches, updates, own transposes, squares."""
    products = [*BATCHES, ("4000x4000x16", 1.0), ("300", 1.0), ("1500", 1.0), ("300 own", 1.0), ("1500 own", 1.0)]
    for dtype in ("float64", "float32"):
        for size, asked in products:
            yield Row(f"{size} {dtype}, two threads", asked, _over(size, dtype, 2, ("numpy",)))


def cores() -> Iterator[Row]:
    """Yield the rate of all processors: over the faster of NumPy and PyTorch; of min_plus over as many single ones."""
    count = detect().cores
    for dtype in ("float64", "float32"):
        ratios = []
        for n in SIZES:
            ratios.append(_over(str(n), dtype, count, [x for x in PEERS if importlib.util.find_spec(x)]))
            yield Row(f"n = {n} {dtype}, {count} threads", LEAST, ratios[-1])
        yield Row(f"{dtype}: geometric mean", MEAN, _mean(ratios))
        for n in MIN_PLUS_SIZES:
            one, all_of_them = (_seconds("min_plus", str(n), dtype, number) for number in (1, count))
            what = f"min_plus, n = {n} {dtype}, {count} threads over {count} times one"
            yield Row(what, OF_ONE_THREAD, one / all_of_them / count)


def narrow() -> Iterator[Row]:
    """Yield the rate of bfloat16 and int8 over PyTorch's; nothing where it is not installed, or tiles are missing."""
    if importlib.util.find_spec(TORCH) is None or "amx_tile" not in detect().simd:
        return
    for count in sorted({1, min(4, detect().cores), detect().cores}):
        for dtype in ("bfloat16", "int8"):
            ratios = []
            for n in NARROW_SIZES:
                ratios.append(_over(str(n), dtype, count, (TORCH,)))
                yield Row(f"n = {n} {dtype}, {count} threads", NARROW_AT_512 if n == SMALL else NARROW, ratios[-1])
            yield Row(f"{dtype}, {count} threads: geometric mean", MEAN, _mean(ratios))


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _over(size: str, dtype: str, count: int, peers: Sequence[str]) -> float:
    """Return the least time of a peer over that of `gemm`: of the rounds, in turns, the least each."""
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for what in ("plus_times", *peers):
            times.setdefault(what, []).append(_seconds(what, size, dtype, count))
    return min(min(times[peer]) for peer in peers) / min(times["plus_times"])


def _seconds(what: str, size: str, dtype: str, count: int) -> float:
    """Return the median time of a call in a process of its own [s]."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(count))
    command = [sys.executable, "-m", "experiments._parts.cpu_goals.alone", what, *size.split(), dtype, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | limits)  # noqa: S603
    return float(done.stdout)
