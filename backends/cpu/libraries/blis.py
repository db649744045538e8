"""D = alpha A B + beta C by BLIS, from the wheel ``blis``.

The wheel's Python interface takes C-ordered matrices without gaps; its transposed form has wrong sizes for float64. Any
other layout is copied, and the copy is timed. The wheel is built without threads and always uses one. It knows no AMD
processor later than Zen 2, and takes its reference kernels there: `kernels` says "generic".

Source: Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality" (2015).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu.libraries._blas import BlasExecution, BlasPeer
from backends.cpu.libraries._kernel_family import of_blis
from harness.interface import Execution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem


class Blis(BlasPeer):
    """The five loops around a micro-kernel that the packed rungs follow, in the original implementation."""

    name = "cpu-blis"
    step = 80
    idea = "BLIS: the same five loops around a hand-written micro-kernel, one thread"
    source = "Van Zee and van de Geijn 2015, BLIS; wheel blis"
    module, project = "blis", "BLIS"

    def kernels(self) -> str:
        """Return the sub-configuration that BLIS took for this processor."""
        return of_blis(str(importlib.import_module("blis.py").__file__))

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan for the one thread that the wheel uses."""
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load BLIS and bind its routine to the operands."""
        return BlasExecution(plan, operands, _is_c_ordered, bind)


def bind(alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray) -> Callable[[], object]:
    """Return ``out := alpha a b + beta out`` as a function without arguments; every matrix is C-ordered."""
    from blis.py import gemm

    return functools.partial(gemm, a, b, out=out, alpha=float(alpha), beta=float(beta))


def _is_c_ordered(x: np.ndarray) -> bool:
    return x.flags.c_contiguous
