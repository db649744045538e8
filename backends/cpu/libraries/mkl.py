"""D = alpha A B + beta C by Intel oneMKL, from the wheel ``mkl``, called through CBLAS by ctypes.

CBLAS takes any matrix with contiguous rows or columns and any gap between them, so most layouts are read in place. The
others are copied, and the copy is timed. Pointers and sizes are converted once, when the routine is bound. The wheel
holds shared libraries and no Python module.

bfloat16 and float16 are multiplied with sums in float32; int8 is not: MKL wants one operand without signs.

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

from backends.cpu.libraries._blas import BlasExecution, BlasPeer, not_installed
from harness.interface import Execution
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

ROW_MAJOR, COLUMN_MAJOR, AS_IT_IS, TRANSPOSED = 101, 102, 111, 112


class Mkl(BlasPeer):
    """Intel's BLAS."""

    name = "cpu-mkl"
    step = 95
    idea = "Intel oneMKL: the vendor's kernels for each processor, chosen at run time"
    source = "Intel oneMKL developer reference, cblas_?gemm; wheel mkl"
    takes = frozenset({"mixed"})

    def missing(self) -> str | None:
        """Return that the wheel is not installed, or None."""
        return not_installed("mkl") if _library_path() is None else None

    def declines(self, problem: Problem) -> str | None:
        """Return why MKL does not compute `problem`, or None."""
        if problem.is_mixed and problem.alpha is not None and (not np.isfinite(problem.alpha) or problem.alpha == 0):
            return "no factor of A of so few bits: MKL multiplies sums by alpha, and 0 or infinity would lose NaN"
        if problem.is_mixed and problem.dtype.name == "float64":
            return "MKL has no product of float32 with sums of float64"
        return super().declines(problem)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load MKL and bind its routine to the operands."""
        library = load()
        bind = functools.partial(bind_to, library, library.agreed_threads(plan.threads))
        return BlasExecution(plan, operands, has_contiguous_lines, bind)


class Library:
    """A loaded ``libmkl_rt``, and the number of threads it uses for calls from each Python thread."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._in_force = threading.local()
        self.routines = {
            "float64": self._declare("cblas_dgemm", ctypes.c_double),
            "float32": self._declare("cblas_sgemm", ctypes.c_float),
            "bfloat16": self._declare("cblas_gemm_bf16bf16f32", ctypes.c_float),
            "float16": self._declare("cblas_gemm_f16f16f32", ctypes.c_float),
        }

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

    def _declare(self, name: str, scalar: Any) -> Any:
        routine = getattr(self._library, name)
        size, pointer = ctypes.c_int, ctypes.c_void_p
        operands = [scalar, pointer, size, pointer, size, scalar, pointer, size]
        routine.argtypes, routine.restype = [size] * 6 + operands, None
        return routine


@functools.cache
def load() -> Library:
    """Load MKL, once per process."""
    path = _library_path()
    assert path is not None, "prepare is called only where missing() says None"
    return Library(path)


def bind_to(
    library: Library, threads: int, alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray
) -> Callable[[], object]:
    """Return ``out := alpha a b + beta out`` as a function without arguments; every matrix has contiguous lines."""
    order = ROW_MAJOR if _has_contiguous_rows(out) else COLUMN_MAJOR
    (form_a, lda), (form_b, ldb), (_, ldc) = (_describe(x, order) for x in (a, b, out))
    (m, n), k = out.shape, a.shape[1]
    multiply = functools.partial(
        library.routines[a.dtype.name],
        *(order, form_a, form_b, m, n, k),
        *(float(alpha), a.ctypes.data, lda, b.ctypes.data, ldb),
        *(float(beta), out.ctypes.data, ldc),
    )

    def multiply_with_threads() -> None:
        library.use(threads)
        multiply()

    return multiply_with_threads


def has_contiguous_lines(x: np.ndarray) -> bool:
    """Return whether CBLAS can take the matrix `x` in place: rows or columns contiguous, in ascending order."""
    return _has_contiguous_rows(x) or _has_contiguous_rows(x.T)


def _has_contiguous_rows(x: np.ndarray) -> bool:
    (rows, columns), (row_stride, column_stride) = x.shape, x.strides
    is_next_further_on = row_stride >= columns * x.itemsize and row_stride % x.itemsize == 0
    return (columns <= 1 or column_stride == x.itemsize) and (rows <= 1 or is_next_further_on)


def _describe(x: np.ndarray, order: int) -> tuple[int, int]:
    """Return the form in which CBLAS reads `x` in `order`, as it is or transposed, and its leading dimension."""
    as_stored = x if order == ROW_MAJOR else x.T
    form = AS_IT_IS if _has_contiguous_rows(as_stored) else TRANSPOSED
    lines = as_stored if form == AS_IT_IS else as_stored.T
    gap = lines.strides[0] // x.itemsize if lines.shape[0] > 1 else lines.shape[1]
    return form, max(gap, 1)


@functools.cache
def _library_path() -> Path | None:
    """Return the path of ``libmkl_rt``, which pip puts in the `lib` folder of an environment."""
    for prefix in (sys.prefix, sys.base_prefix, site.getuserbase()):
        for pattern in ("lib/libmkl_rt.so*", "lib/libmkl_rt*.dylib", "Library/bin/mkl_rt*.dll"):
            libraries = sorted(Path(prefix).glob(pattern))
            if libraries:
                return libraries[-1]
    return None
