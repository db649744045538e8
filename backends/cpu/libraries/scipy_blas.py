"""D = alpha A B + beta C by the BLAS that SciPy ships, through ``scipy.linalg.blas``.

That interface takes Fortran-ordered matrices only, as they are or transposed. A C-ordered matrix is its transpose in
Fortran order, so neither order is copied. For a C-ordered output the product computed is ``out^T = B^T A^T``. Any other
layout is copied, and the copy is timed.

Source: scipy.linalg.blas reference; Dongarra et al., "A set of level 3 basic linear algebra subprograms" (1990).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu.libraries._blas import BlasExecution, BlasPeer, is_contiguous
from backends.cpu.libraries._kernel_family import of_openblas
from harness.dtypes import row_of
from harness.interface import Execution
from harness.operands import Operands
from harness.plan import Plan


class ScipyBlas(BlasPeer):
    """SciPy's own BLAS, usually another build of OpenBLAS than NumPy's."""

    name = "cpu-scipy"
    step = 85
    idea = "the BLAS that SciPy ships, called without NumPy's dispatch"
    source = "scipy.linalg.blas.?gemm; Dongarra et al. 1990, level 3 BLAS"
    module, project = "scipy", "SciPy"

    def kernels(self) -> str:
        """Return the processor that its OpenBLAS took this one for."""
        return of_openblas("scipy.libs")

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load SciPy and bind its routine to the operands."""
        return BlasExecution(plan, operands, is_contiguous, bind)


def bind(alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray) -> Callable[[], object]:
    """Return ``out := alpha a b + beta out`` as a function without arguments; every matrix is contiguous."""
    from scipy.linalg import blas

    if not out.flags.f_contiguous:
        a, b, out = b.T, a.T, out.T
    (a_stored, a_is_transposed), (b_stored, b_is_transposed) = _in_fortran_order(a), _in_fortran_order(b)
    routine = getattr(blas, f"{row_of(out.dtype).blas}gemm")
    return functools.partial(
        routine,
        alpha,
        a_stored,
        b_stored,
        beta=beta,
        c=out,
        trans_a=a_is_transposed,
        trans_b=b_is_transposed,
        overwrite_c=1,
    )


def _in_fortran_order(x: np.ndarray) -> tuple[np.ndarray, int]:
    """Return `x` or its transpose, the one that lies in Fortran order, and 1 if it is the transpose."""
    return (x, 0) if x.flags.f_contiguous else (x.T, 1)
