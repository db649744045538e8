"""Rungs of the GPU ladder executed on the CPU: with tiles so small that small products have many, over every edge."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from backends.gpu._base import backend as gpu_backend
from backends.gpu._passes import passes
from harness import SEMIRINGS, Operands, registry
from harness.interface import Backend
from harness.machine import detect
from harness.plan import Plan
from harness.problem import Problem
from harness.proof.verify import verify
from harness.tuning.gpu import rungs as tuning_gpu
from tests.gpu.host_kernels import HostExecution, HostOperands

RUNGS: dict[str, Backend] = {
    entry.name: entry.backend
    for entry in registry.discover()
    if entry.backend is not None and isinstance(entry.backend, gpu_backend.GpuBackend)
}

SMALL: dict[str, dict[str, int | str]] = {
    "gpu-naive": {"bm": 4, "bn": 8},
    "gpu-row": {"bm": 32, "bn": 3, "bk": 8, "tn": 3},
    "gpu-tiled": {"bm": 8, "bn": 8, "bk": 8},
    "gpu-register-tiled": {"bm": 16, "bn": 12, "bk": 4, "tm": 4, "tn": 3},
    "gpu-warp-tiled": {"bm": 32, "bn": 64, "bk": 8, "wm": 32, "wn": 32, "tm": 8, "tn": 4},
    "gpu-pipelined": {"bm": 32, "bn": 32, "bk": 8, "wm": 16, "wn": 32, "tm": 4, "tn": 4, "stages": 2, "group": 2},
    "gpu-tuned": {"bm": 16, "bn": 64, "bk": 16, "wm": 16, "wn": 32, "tm": 4, "tn": 4, "stages": 4, "order": 4},
}
TILED = tuple(name for name in SMALL if name not in ("gpu-naive", "gpu-row"))


def use_the_cpu(patch: Any, *, at_end: bool = True, edits: tuple[tuple[str, str], ...] = ()) -> None:
    """Have rungs execute their programs on the CPU, by pytest's monkeypatch."""
    patch.setattr(gpu_backend, "GpuOperands", HostOperands)
    patch.setattr(gpu_backend, "GpuExecution", HostExecution)
    patch.setattr(gpu_backend.GpuBackend, "prepare_argk", Backend.prepare_argk)  # argk.cu: see test_batches_on_host.py
    for rung in RUNGS.values():  # these stand-ins know no batches: see test_batches_on_host.py
        patch.setattr(type(rung), "takes", rung.takes - {"batch"})
    patch.setattr(HostOperands, "at_end", at_end)
    patch.setattr(HostExecution, "edits", edits)
    patch.setattr(tuning_gpu, "SCANNED_FROM", dict.fromkeys(tuning_gpu.SCANNED_FROM, 0))  # small products too
    patch.setattr(passes, "_PASS_BLOCKS", 8)  # threads that take turns: a few are enough


def sizes(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Yield sizes around every edge of the tiles: less than one, whole ones, one more and less; rows aligned or not."""
    launch = plan.launch
    assert launch is not None
    bm, bn, bk = launch.bm, launch.bn, launch.bk
    yield 1, 1, 1
    yield bm, bn, bk
    yield bm - 1, bn + 1, bk + 1
    yield 2 * bm + 1, 2 * bn - 1, 3 * bk - 1
    yield bm + 3, bn + 8, 2 * bk + 8  # rows of A and B are aligned, and few tiles are whole


def compute(
    name: str, semiring: str, dtype: str, size: tuple[int, int, int], *, accumulate: bool = False, **parameters: Any
) -> None:
    """Compute one product by the rung `name` and prove it right.

    Raises
    ------
    VerificationError, KernelFault
        If it is not.
    """
    problem = Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=accumulate)
    check(with_small_tiles(name, **parameters), problem)


def with_small_tiles(name: str, **parameters: Any) -> Backend:
    """Return the rung `name` with tiles that small products have many of, and other options by name."""
    return with_options(name, **{**SMALL[name], **parameters})


def with_options(name: str, **parameters: Any) -> Backend:
    """Return the rung `name` with other tiles and options than it would choose."""
    rung = copy.copy(RUNGS[name])
    rung.plan = lambda problem, machine: RUNGS[name].plan(problem, machine).override(parameters)  # type: ignore[method-assign]
    return rung


def check(backend: Backend, problem: Problem, change: Callable[[Operands], None] = lambda operands: None) -> None:
    """Compute `problem` for operands that `change` has changed, and prove the result right; raises as `compute`."""
    operands = Operands.generate(problem, sum((problem.m, problem.n, problem.k)))
    change(operands)
    execution = backend.prepare(backend.plan(problem, detect()), operands)
    execution.run()
    verify(problem, operands, execution.result(), seed=1)
