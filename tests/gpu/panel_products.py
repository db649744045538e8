"""Tall, narrow products by row panels of gpu-tuned: planned, compiled, computed by options of one's own, verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._program.program import Matrix, Place, Program
from harness import SEMIRINGS
from harness.machine import detect
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import MEASURED
from tests.gpu.simt_products import RUNGS, check, with_options

RUNG = RUNGS["gpu-tuned"]
Size = tuple[int, int, int]
Change = Callable[[Any], None]
# Semirings and dtypes of every kind that panels are for.
KINDS = (
    ("plus_times", "float32"), ("min_plus", "float32"), ("plus_times", "float64"), ("max_plus", "int32"),
    ("min_plus", "int64"), ("max_min", "float64"), ("logaddexp_plus", "float32"),
)  # fmt: skip


def problem(size: Size, semiring: str = "plus_times", dtype: str = "float32", **more: Any) -> Problem:
    return Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), **more)


def compute(
    options: dict[str, int],
    semiring: str,
    dtype: str,
    *sizes: Size,
    change: Change = lambda operands: None,
    **more: Any,
) -> None:
    """Compute products by these options, whose operands `change` has seen, and verify them."""
    for size in sizes:
        check(with_options(RUNG.name, **options), problem(size, semiring, dtype, **more), change)


def turn_b(operands: Any) -> None:
    """Have B lie by columns."""
    object.__setattr__(operands, "b", np.asfortranarray(operands.b))


def plan_of(size: Size, semiring: str, dtype: str, **more: Any) -> Plan:
    return RUNG.plan(problem(size, semiring, dtype, **more), detect())


def program(plan: Plan) -> Program:
    return RUNG.program(plan, *_matrices(plan.problem))


def _matrices(of: Problem) -> Iterator[Matrix]:
    """Return A, B and out, rows without gaps."""
    return (Matrix(Place(x), ld) for x, ld in (("a", of.k), ("b", of.n), ("out", of.n)))


def check_compiled(stem: str, plan: Plan) -> None:
    """Check that the kernels of that file spill nothing, and that a multiprocessor of sm_90 has the memory for them."""
    kernels = [kernel for kernel in program(plan).kernels() if kernel.stem == stem]
    assert kernels
    for kernel in kernels:
        taken = resources(compile_kernel(kernel.stem, kernel.defines, f"sm_90{kernel.suffix}"))["gemm"]
        assert not taken.spill_bytes
        assert kernel.shared_bytes <= MEASURED.shared_memory
