"""Products of 16-bit elements by gpu-tensor-core, by options of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backends.gpu._program.program import Program
from harness import SEMIRINGS
from harness.machine import detect
from harness.problem import Problem
from tests.gpu.on_cpu import RUNGS, program_of

RUNG = RUNGS["gpu-tensor-core"]


def problem(size: tuple[int, int, int], dtype: str = "bfloat16", **more: Any) -> Problem:
    narrow = np.dtype(dtype if dtype == "float16" else getattr(pytest.importorskip("ml_dtypes"), dtype))
    return Problem(*size, SEMIRINGS["plus_times"], np.dtype(np.float32), operand_dtype=narrow, **more)


def program(of: Problem, options: dict[str, Any]) -> Program:
    return program_of(RUNG.plan(of, detect()).override(options), RUNG)
