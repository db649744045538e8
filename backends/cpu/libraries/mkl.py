"""D = alpha A B + beta C by Intel oneMKL, from the wheel ``mkl``, called through CBLAS by ctypes.

What CBLAS cannot read in place is copied, and the copy is timed. The wheel holds shared libraries and no Python module.

bfloat16 and float16 are multiplied with sums in float32; int8 is not: MKL wants one operand without signs.

A processor's bfloat16 instructions take a subnormal number for zero, so that infinity times it is NaN. Operands are
scanned there first, and multiplied in float32 if one holds such a number. ``scan=0`` leaves the scan out: MKL as it is.

Source: Intel oneMKL developer reference, cblas_?gemm, cblas_gemm_bf16bf16f32 and mkl_set_num_threads_local.
"""

from __future__ import annotations

import ctypes
import functools
import site
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from backends.cpu._ladder.options import choices
from backends.cpu._mixed.subnormals import build_has_subnormal
from backends.cpu._vector.unit import features
from backends.cpu.libraries import _cblas
from backends.cpu.libraries._blas import BlasExecution, BlasPeer, not_installed
from backends.cpu.libraries._kernel_family import of_mkl
from harness.dtypes import is_float8
from harness.interface import Execution
from harness.machine import Machine
from harness.operands import Operands, data_address
from harness.plan import Plan
from harness.problem import Problem
from harness.surroundings import is_there, working_directory

_ONE = np.ones((1, 1))

OPTIONS = {"scan": (1, 0)}

# Instructions of bfloat16, by one of which MKL computes where the processor has it.
NARROW_UNITS = frozenset({"avx512bf16", "amx-bf16"})


class Mkl(BlasPeer):
    """Intel's BLAS."""

    name = "cpu-mkl"
    step = 95
    idea = "Intel oneMKL: the vendor's kernels for each processor, chosen at run time"
    source = "Intel oneMKL developer reference, cblas_?gemm; wheel mkl"
    project = "MKL"
    takes = frozenset({"mixed", "complex"})

    def missing(self) -> str | None:
        """Return that the wheel is not installed, or None."""
        return not_installed("mkl") if _library_path() is None else None

    def declines(self, problem: Problem) -> str | None:
        """Return why MKL does not compute `problem`, or None."""
        if problem.is_mixed and problem.alpha is not None and (not np.isfinite(problem.alpha) or problem.alpha == 0):
            return "no factor of A of so few bits: MKL multiplies sums by alpha, and 0 or infinity would lose NaN"
        if problem.is_mixed and (problem.dtype.itemsize > 4 or is_float8(problem.input_dtype)):
            return f"MKL has no product of {problem.input_dtype.name} with sums of {problem.dtype.name}"
        return super().declines(problem)

    def kernels(self) -> str:
        """Return the vector extension that MKL's kernels use."""
        return load().kernels()

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan that scans for subnormal numbers where MKL would lose them."""
        if problem.input_dtype.name != "bfloat16":
            return super().plan(problem, machine)
        return Plan(problem, machine.threads, options={"scan": int(not NARROW_UNITS.isdisjoint(features()))})

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load MKL and bind its routine to the operands."""
        library = load()
        scans = bool(plan.options) and choices(plan, OPTIONS)["scan"] == 1
        bind = functools.partial(bind_to, library, library.agreed_threads(plan.threads), scans=scans)
        return BlasExecution(plan, operands, _cblas.has_contiguous_lines, bind)


class Library:
    """A loaded ``libmkl_rt``, and the number of threads it uses for calls from each Python thread."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._in_force = threading.local()
        declare = functools.partial(_cblas.declare, self._library)
        self.routines = {
            **{name: declare(f"cblas_{letter}gemm", name) for name, letter in _cblas.ROUTINES},
            "bfloat16": declare("cblas_gemm_bf16bf16f32", "float32"),
            "float16": declare("cblas_gemm_f16f16f32", "float32"),
        }

    def kernels(self) -> str:
        """Return the vector extension that its kernels use."""
        return of_mkl(self._library)

    def agreed_threads(self, threads: int) -> int:
        """Return `threads`, or fewer where the user has limited MKL to fewer."""
        self._set_threads(0)  # 0: removes this thread's limit, so that the user's is returned
        return min(threads, int(self._library.MKL_Get_Max_Threads()))

    def use(self, threads: int) -> None:
        """Let calls from the calling thread use `threads` threads."""
        if getattr(self._in_force, "threads", 0) != threads:
            self._set_threads(threads)

    def _set_threads(self, threads: int) -> None:
        self._library.MKL_Set_Num_Threads_Local(threads)
        self._in_force.threads = threads


@functools.cache
def load() -> Library:
    """Load MKL, once per process."""
    path = _library_path()
    assert path is not None, "prepare is called only where missing() says None"
    with working_directory():  # without one MKL ends the process
        library = Library(path)
        bind_to(library, 1, 1.0, _ONE, _ONE, 0.0, _ONE.copy())()  # loads the rest of it, by the path of this one
    return library


def bind_to(
    library: Library, threads: int, alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray, *,
    scans: bool = False,
) -> Callable[[], object]:  # fmt: skip
    """Return ``out := alpha a b + beta out`` as a function without arguments; every matrix has contiguous lines.

    `scans`: where A or B holds a subnormal number, both are copied to float32 first.
    """
    fast = _cblas.bind(library.routines, alpha, a, b, beta, out)

    def multiply() -> None:
        library.use(threads)
        if scans and (_has_subnormal(a) or _has_subnormal(b)):
            wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
            _cblas.bind(library.routines, alpha, wide_a, wide_b, beta, out)()
        else:
            fast()

    return multiply


def _has_subnormal(x: np.ndarray) -> bool:
    rows = x if x.strides[1] == x.itemsize or x.shape[1] == 1 else x.T
    return bool(build_has_subnormal(x.dtype.name)(data_address(rows), *rows.shape, rows.strides[0]))


@functools.cache
def _library_path() -> Path | None:
    """Return the path of ``libmkl_rt``, which pip puts in the `lib` folder of an environment."""
    for prefix in filter(is_there, map(Path, (sys.prefix, sys.base_prefix, site.getuserbase()))):
        for pattern in ("lib/libmkl_rt.so*", "lib/libmkl_rt*.dylib", "Library/bin/mkl_rt*.dll"):
            libraries = sorted(prefix.glob(pattern))
            if libraries:
                return libraries[-1]
    return None
