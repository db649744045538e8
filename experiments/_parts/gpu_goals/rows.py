"""Ways to time what rows of the table compare."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._tasks.ceilings import Copy, Read
from backends.gpu._tasks.chained import Chain, race
from harness import registry
from harness.errors import VerificationError
from harness.machine import detect
from harness.operands import Operands
from harness.problem import Problem

# Largest error, of the norm of a result, between contenders of one arithmetic.
TOLERANCE = {"float32": 1e-4, "float64": 1e-11, "int32": 0.0}


def drawn(*shape: int, dtype: str = "float32") -> Any:
    """Return normally distributed numbers on the GPU."""
    return device.cupy().random.standard_normal(shape, dtype=np.dtype(dtype).type)


def launch_of(name: str, problem: Problem, a: Any, b: Any, c: Any = None, out: Any = None, **options: Any) -> Any:
    """Return ``run`` and the array that it computes into, which has been computed once."""
    backend = registry.find(name)
    plan = backend.plan(problem, detect())
    out = device.empty((problem.m, problem.n), problem.dtype) if out is None else out
    execution = backend.prepare(plan.override(options) if options else plan, Operands(a, b, c, out))
    execution.run()
    device.synchronize()
    return execution.run, out


def compare(launches: dict[str, tuple[Callable[[], Any], Any]], rounds: int = 7) -> dict[str, float]:
    """Return the times of launches [s], whose results must agree with that of the first."""
    (_, first), *others = launches.values()
    for _, other in others:
        check_close(other, first)
    return race({name: Chain(run) for name, (run, _) in launches.items()}, rounds)


def check_close(x: Any, y: Any) -> None:
    """Raise VerificationError unless `x` is `y` but for rounding."""
    norm = device.cupy().linalg.norm
    error = float(norm((x - y).astype(np.float64)) / norm(y.astype(np.float64)))
    if not error <= TOLERANCE[y.dtype.name]:
        raise VerificationError("contenders differ", expected=f"{TOLERANCE[y.dtype.name]}", got=f"{error:.2g}")


def call_s(call: Callable[[], Any], calls: int = 40, *, waits: bool = True, samples: int = 7) -> float:
    """Return the time of a call [s]: until the GPU is done, or else what the host alone spends."""
    for _ in range(5):
        call()
    found = []
    for _ in range(samples):
        device.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        if waits:
            device.synchronize()
        found.append((time.perf_counter() - begin) / calls)
    return statistics.median(found)


@functools.cache
def read_and_copy_rates() -> tuple[float, float]:
    """Return the bytes that the GPU reads in a second, and those that it reads and writes, by a copy or by a kernel."""
    cupy, size = device.cupy(), 1 << 31
    read, copy, x = Read(2 * size), Copy(size), device.empty((size // 8,), np.dtype(np.float64))
    y = cupy.empty_like(x)
    reads = Chain(read.run, 2)
    read_s = min(reads.sample() for _ in range(5))
    copy_s = min(_alone_s(call) for call in (copy.run, lambda: cupy.negative(x, out=y)) for _ in range(5))
    return 2 * size / read_s, 2 * size / copy_s


def _alone_s(call: Callable[[], Any]) -> float:
    """Return the time of a call [s] outside of a graph: a copy of one takes 1.6 times as long there (H200)."""
    cuda = device.cupy().cuda
    begin, end = cuda.Event(), cuda.Event()
    begin.record()
    call()
    end.record()
    end.synchronize()
    return float(cuda.get_elapsed_time(begin, end)) * 1e-3
