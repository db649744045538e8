"""Tall, narrow products by row panels of gpu-tuned, by options of one's own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._program.program import Program
from harness import SEMIRINGS
from harness.machine import detect
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import MEASURED
from tests.gpu.on_cpu import RUNGS, program_of

RUNG = RUNGS["gpu-tuned"]
Size = tuple[int, int, int]
# Semirings and dtypes of every kind that panels are for.
KINDS = (
    ("plus_times", "float32"), ("min_plus", "float32"), ("plus_times", "float64"), ("max_plus", "int32"),
    ("min_plus", "int64"), ("max_min", "float64"), ("logaddexp_plus", "float32"),
)  # fmt: skip


def problem(size: Size, semiring: str = "plus_times", dtype: str = "float32", **more: Any) -> Problem:
    return Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), **more)


def turn_b(operands: Any) -> None:
    """Have B lie by columns."""
    object.__setattr__(operands, "b", np.asfortranarray(operands.b))


def plan_of(size: Size, semiring: str, dtype: str, **more: Any) -> Plan:
    return RUNG.plan(problem(size, semiring, dtype, **more), detect())


def program(plan: Plan) -> Program:
    return program_of(plan, RUNG)


def two_multiprocessors(patch: Any) -> None:
    """Have plans made for two multiprocessors, so that a block has several panels."""
    patch.setattr(device, "planned", lambda: dataclasses.replace(MEASURED, multiprocessors=2))
