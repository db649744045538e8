"""Rungs of the GPU ladder executed on the CPU: with tiles so small that small products have many, over every edge."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._passes import passes
from harness import SEMIRINGS, Operands, registry
from harness.interface import Backend, make_plan, prepare
from harness.machine import Machine, detect
from harness.plan import Plan
from harness.problem import Problem
from harness.proof import contract
from harness.proof.contract_cases import ContractCase
from harness.proof.verify import verify
from harness.semiring import Semiring
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
    name: str, semiring: str, dtype: str, *sizes: tuple[int, int, int], accumulate: bool = False, **parameters: Any
) -> None:
    """Compute a product of each size by the rung `name` and prove it right.

    Raises
    ------
    VerificationError, KernelFault
        If it is not.
    """
    rung, kind = with_small_tiles(name, **parameters), (SEMIRINGS[semiring], np.dtype(dtype))
    check_all((rung, Problem(*size, *kind, accumulate=accumulate)) for size in sizes)


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
    check_all([(backend, problem)], change)


def check_all(
    cases: Iterable[tuple[Backend, Problem]], change: Callable[[Operands], None] = lambda operands: None
) -> None:
    """Do as `check` for each problem by its backend. All are prepared first, so that kernels are compiled together."""
    prepared = []
    for backend, problem in cases:
        operands = Operands.generate(problem, sum((problem.m, problem.n, problem.k)))
        change(operands)
        prepared.append((problem, operands, backend.prepare(backend.plan(problem, detect()), operands)))
    for problem, operands, execution in prepared:
        execution.run()
        verify(problem, operands, execution.result(), seed=1)


def together(*products: Generator[None]) -> None:
    """Go through `products`, each of which prepares one, yields, and computes it; all are prepared first, as above."""
    for product in products:
        next(product)
    for product in products:
        for _ in product:
            pass


def in_steps(begin: Callable[..., Generator[None]]) -> Any:
    """Return what goes through the product that `begin` returns. Its attribute `begin` is for `together`."""

    @functools.wraps(begin)
    def compute(*arguments: Any, **options: Any) -> None:
        together(begin(*arguments, **options))

    compute.begin = begin  # type: ignore[attr-defined]
    return compute


def contract_findings(backend: Backend, semiring: Semiring, dtype: np.dtype[Any]) -> list[contract.Finding]:
    """Return what the contract finds of a kernel on the CPU. All cases are prepared before one is computed.

    So what they need is compiled together (`host_kernels.expect`).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "_run_case", _prepare_case)
        patch.setattr(contract, "run_argk_case", lambda *_: None)
        list(contract.check_kernel(backend, semiring, dtype))
    return list(contract.check_kernel(backend, semiring, dtype))


def _prepare_case(backend: Backend, case: ContractCase, here: Machine) -> None:
    prepare(backend, make_plan(backend, case.problem, here).override(case.parameters), case.operands())
