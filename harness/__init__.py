"""GEMM harness: one interface for matrix products over semirings, many backends, and honest measurements of them.

>>> import numpy as np
>>> from harness import gemm
>>> gemm(np.array([[1.0, 5.0]]), np.array([[2.0], [0.0]]), semiring="min_plus")
array([[3.]])
"""

import importlib
from typing import TYPE_CHECKING, Any

from harness.api.argk import gemm_argk
from harness.api.gemm import gemm
from harness.api.matrix_vector import axpy, gemv, ger, hemv, her, herk, symv, syr, syrk
from harness.arithmetic import native_floats
from harness.errors import (
    BackendUnavailable,
    ConvergenceError,
    ExperimentError,
    HarnessError,
    PlanError,
    ProblemError,
    StoreError,
    VerificationError,
)
from harness.interface import Backend, Execution
from harness.machine import VERSION, Machine
from harness.memory import free_memory
from harness.operands import Operands
from harness.plan import Blocking, Plan
from harness.problem import Problem
from harness.semiring import BINARY_OPS, MONOIDS, SEMIRINGS, BinaryOp, Monoid, Semiring

if TYPE_CHECKING:
    from harness.contraction.einsum import einsum
    from harness.page.results import Results, results

__version__ = VERSION

__all__ = [
    "BINARY_OPS",
    "MONOIDS",
    "SEMIRINGS",
    "Backend",
    "BackendUnavailable",
    "BinaryOp",
    "Blocking",
    "ConvergenceError",
    "Execution",
    "ExperimentError",
    "HarnessError",
    "Machine",
    "Monoid",
    "Operands",
    "Plan",
    "PlanError",
    "Problem",
    "ProblemError",
    "Results",
    "Semiring",
    "StoreError",
    "VerificationError",
    "axpy",
    "einsum",
    "free_memory",
    "gemm",
    "gemm_argk",
    "gemv",
    "ger",
    "hemv",
    "her",
    "herk",
    "native_floats",
    "results",
    "symv",
    "syr",
    "syrk",
]

# Imported when they are first asked for: a product needs neither, and they take a twentieth of the import.
_LATER = {"einsum": "harness.contraction.einsum", **dict.fromkeys(("Results", "results"), "harness.page.results")}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
