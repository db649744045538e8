"""Rungs of the GPU ladder executed on the CPU: with tiles so small that small products have many, over every edge."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._cuda import nvrtc
from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._passes import passes
from backends.gpu._program.program import Matrix, Place, Program
from backends.gpu._simt import argk as simt_argk
from backends.gpu._simt import log_sum_exp as simt_log_sum_exp
from harness import SEMIRINGS, Operands, registry
from harness.errors import BackendUnavailable, VerificationError
from harness.interface import Backend, make_plan, prepare
from harness.machine import Machine, detect
from harness.operands import lower_triangle
from harness.plan import Launch, Plan
from harness.problem import Problem
from harness.proof import contract
from harness.proof.contract_cases import ContractCase
from harness.proof.verify import verify
from harness.semiring import Semiring
from harness.tuning.gpu import rungs as tuning_gpu
from tests.gpu.host_kernels import BY_THE_SHIM, HostExecution, HostOperands

# For `pytestmark` of tests whose kernels are executed on the CPU.
ON_CPU = [*BY_THE_SHIM, pytest.mark.usefixtures("on_the_cpu")]


def _has_nvrtc() -> bool:
    try:
        nvrtc.library()
    except BackendUnavailable:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not _has_nvrtc(), reason="NVRTC is not installed")
Change = Callable[[Operands], object]

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
ARGK_TILES = {
    4: Launch(bm=16, bn=32, bk=8, wm=16, wn=32, tm=4, tn=4, stages=2),
    8: Launch(bm=16, bn=16, bk=8, wm=8, wn=16, tm=2, tn=2, stages=3),
}
TILED = tuple(name for name in SMALL if name not in ("gpu-naive", "gpu-row"))


def use_the_cpu(patch: Any, *, at_end: bool = True) -> None:
    """Have rungs execute their programs on the CPU, by pytest's monkeypatch."""
    patch.setattr(gpu_backend, "GpuOperands", HostOperands)
    patch.setattr(gpu_backend, "GpuExecution", HostExecution)
    patch.setattr(gpu_backend.templates, "find", lambda *_: None)  # it executes programs that are not packed
    patch.setattr(gpu_backend.GpuBackend, "prepare_argk", Backend.prepare_argk)  # argk.cu: see test_batches_on_host.py
    for rung in RUNGS.values():  # these stand-ins know no batches: see test_batches_on_host.py
        patch.setattr(type(rung), "takes", rung.takes - {"batch"})
    patch.setattr(HostOperands, "at_end", at_end)
    patch.setattr(tuning_gpu, "SCANNED_FROM", dict.fromkeys(tuning_gpu.SCANNED_FROM, 0))  # small products too
    for name in ("ARGK_TILES", "ARGK_SMALL_TILES"):
        patch.setattr(simt_argk, name, ARGK_TILES)
    for module, most in ((passes, "_PASS_BLOCKS"), (simt_log_sum_exp, "_MOST_BLOCKS")):
        patch.setattr(module, most, 8)  # threads that take turns: a few are enough


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


def in_steps(begin: Callable[..., Generator[None]]) -> Any:
    """Return what goes through the product that `begin` returns. Its attribute `begin` is for `together`."""

    @functools.wraps(begin)
    def compute(*arguments: Any, **options: Any) -> None:
        together(begin(*arguments, **options))

    compute.begin = begin  # type: ignore[attr-defined]
    return compute


def together(*products: Generator[None]) -> None:
    """Go through `products`, each of which prepares one, yields, and computes it.

    All are prepared first, so that their kernels are compiled together (`host_kernels.expect`).
    """
    for product in products:
        next(product)
    for product in products:
        for _ in product:
            pass


@in_steps
def check(
    backend: Backend, problem: Problem, change: Change = lambda operands: None, **options: Any
) -> Generator[None]:
    """Compute `problem` by a plan with `options`, for operands as `change` leaves them, and prove it right.

    Raises
    ------
    VerificationError, KernelFault
        If it is not, or an element above the diagonal of a triangle is written.
    """
    operands = Operands.generate(problem, sum((problem.m, problem.n, problem.k)))
    change(operands)
    plan = backend.plan(problem, detect()).override(options)
    execution = backend.prepare(plan, operands)
    yield
    execution.run()
    produced = execution.result()
    if problem.triangle == "d":
        above = produced[~lower_triangle(problem.m)]
        if above.tobytes() != b"\xff" * above.nbytes:
            raise VerificationError("the output was written above the diagonal")
    verify(problem, operands, produced, seed=1, extra_error=backend.extra_error(plan, operands))


def check_all(cases: Iterable[tuple[Backend, Problem]], change: Change = lambda operands: None) -> None:
    """Do as `check` for each problem by its backend, together."""
    together(*(check.begin(backend, problem, change) for backend, problem in cases))


def compute(
    name: str, semiring: str, dtype: str, *sizes: tuple[int, int, int], accumulate: bool = False, **parameters: Any
) -> None:
    """Compute a product of each size by the rung `name` with small tiles and prove it right; raises as `check`."""
    kind = SEMIRINGS[semiring], np.dtype(dtype)
    options = {**SMALL[name], **parameters}
    problems = (Problem(*size, *kind, accumulate=accumulate) for size in sizes)
    together(*(check.begin(RUNGS[name], problem, **options) for problem in problems))


def with_small_tiles(name: str, **parameters: Any) -> Backend:
    """Return the rung `name` with tiles that small products have many of, and other options by name."""
    return with_options(name, **{**SMALL[name], **parameters})


def with_options(name: str, **parameters: Any) -> Backend:
    """Return the rung `name` with other tiles and options than it would choose."""
    rung = copy.copy(RUNGS[name])
    rung.plan = lambda problem, machine: RUNGS[name].plan(problem, machine).override(parameters)  # type: ignore[method-assign]
    return rung


def matrices(problem: Problem) -> Iterator[Matrix]:
    """Yield A, B, C and out of `problem` without gaps, laid out as it says."""
    names = zip(
        ("a", "b", "c"),
        problem.layout,
        ((problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)),
        strict=True,
    )
    for name, order, (rows, columns) in names:
        if name != "c" or problem.accumulate:
            yield Matrix(Place(name), rows if order == "F" else columns, by_columns=order == "F")
    yield Matrix(Place("out"), problem.n)


def program_of(plan: Plan, rung: Any) -> Program:
    """Return the program of `plan` over operands without gaps."""
    return rung.program(plan, *matrices(plan.problem))


def check_resources(program: Program, blocks: int = 1, *, stem: str = "", most_spilled: int = 0) -> None:
    """Check that kernels spill no more bytes, and that a multiprocessor of sm_90 has room for the blocks of each."""
    kernels = [kernel for kernel in program.kernels() if stem in ("", kernel.stem)]
    assert kernels
    for kernel in kernels:
        taken = resources(compile_kernel(kernel.stem, kernel.defines, f"sm_90{kernel.suffix}"))[kernel.function]
        assert taken.spill_bytes <= most_spilled
        assert taken.registers * kernel.block[0] * blocks <= 65536
        assert blocks * (kernel.shared_bytes + 1024) <= 228 << 10


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
