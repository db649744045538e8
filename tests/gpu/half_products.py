"""Products of 16-bit elements by gpu-tensor-core, by options of one's own: planned, compiled, computed and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backends.gpu._program.program import Matrix, Place, Program
from harness import SEMIRINGS, Operands
from harness.machine import detect
from harness.problem import Problem
from harness.proof.verify import verify
from tests.gpu.simt_products import RUNGS

RUNG = RUNGS["gpu-tensor-core"]
Size = tuple[int, int, int]


def problem(size: Size, dtype: str = "bfloat16", **more: Any) -> Problem:
    narrow = np.dtype(dtype if dtype == "float16" else getattr(pytest.importorskip("ml_dtypes"), dtype))
    return Problem(*size, SEMIRINGS["plus_times"], np.dtype(np.float32), operand_dtype=narrow, **more)


def compute(of: Problem, options: dict[str, Any], lay: Callable[..., Any] | None = None) -> None:
    """Compute a product by these options, A and B laid in memory by `lay`, and verify it."""
    operands = Operands.generate(of, of.m + of.n + of.k)
    if lay:
        operands = Operands(*lay(operands.a, operands.b), operands.c, operands.out)
    plan = RUNG.plan(of, detect()).override(options)
    execution = RUNG.prepare(plan, operands)
    execution.run()
    verify(of, operands, execution.result(), seed=1, extra_error=RUNG.extra_error(plan, operands))


def matrices(of: Problem) -> Iterator[Matrix]:
    """Return A, B and out, rows without gaps."""
    return (Matrix(Place(x), ld) for x, ld in (("a", of.k), ("b", of.n), ("out", of.n)))


def program(of: Problem, options: dict[str, Any]) -> Program:
    return RUNG.program(RUNG.plan(of, detect()).override(options), *matrices(of))
