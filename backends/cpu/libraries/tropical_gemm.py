"""D = alpha A (x) B (+) beta C over min_plus and max_plus by the wheel ``tropical-gemm``, one thread.

The wheel leaves some duties to its caller (found by tests of version 0.4.0); they are done here, inside the timed part:

* It reads the memory of A and B as if they were C-ordered; a transposed or Fortran-ordered one gives wrong values
  silently. Any other layout is copied.
* A NaN term is kept or dropped by its position in k. A NaN factor makes all its terms absent, so the semiring's zero
  replaces it. Where -inf meets +inf, which also gives NaN, a second product of marks finds the infinite results. A sum
  over each operand shows whether any of this is needed.
* It allocates its result, which is copied to the output: the wheel has no other form, so the copy is timed.
* malloc may give back to the system what the wheel frees, so that every product has its pages cleared anew: 992 faults
  and 1.09 times the time at n = 512. Whether it does depends on what the process has freed before; here it does not.

Source: TensorBFS, tropical-gemm (Rust), after the GEMM of BLIS.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from backends.cpu.libraries._blas import absent
from harness.dtypes import is_float
from harness.interface import Backend, Execution, HostExecution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

MOST_KEPT = 31 << 20  # bytes; glibc's threshold grows up to 32 MiB
FIRST = 256  # a size at which the wheel starts its threads; at 144 it does not

ROUTINES = {
    ("min_plus", "float32"): "minplus_matmul_2d",
    ("min_plus", "float64"): "minplus_matmul_2d_f64",
    ("max_plus", "float32"): "maxplus_matmul_2d",
    ("max_plus", "float64"): "maxplus_matmul_2d_f64",
}


class TropicalGemm(Backend):
    """A semiring product by another project, installed by pip."""

    name = "cpu-tropical-gemm"
    step = 81
    idea = "tropical-gemm: packed micro-kernels in Rust, 128-bit vectors, one thread"
    source = "TensorBFS, tropical-gemm; wheel tropical-gemm"
    project = "tropical-gemm"
    is_optional = True

    def missing(self) -> str | None:
        """Return that the wheel is not installed, or None."""
        return absent("tropical_gemm", "tropical-gemm")

    def declines(self, problem: Problem) -> str | None:
        """Return why the wheel does not compute `problem`, or computes it otherwise than defined, or None."""
        name = problem.semiring.name
        if not problem.semiring.is_named or name not in ("min_plus", "max_plus", "max_times"):
            return "tropical-gemm computes min_plus, max_plus and max_times only"
        if name == "max_times":
            return "tropical-gemm starts max_times from 0, not from -inf: products below 0 are lost"
        if is_float(problem.dtype):
            return None
        if problem.dtype.name in ("int32", "int64"):
            return "tropical-gemm's integer sums wrap, and its infinity does not absorb"
        return "tropical-gemm takes float32 and float64 only"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan for the one thread that the wheel uses."""
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Load the wheel and allocate scratch for operands that it cannot read."""
        _have_malloc_keep_memory()
        routine = ROUTINES[plan.problem.semiring.name, plan.problem.dtype.name]
        return _Execution(plan.problem, operands, getattr(_library(), routine))


@functools.cache
def _library() -> Any:
    """Load the wheel and start its one thread.

    It would use every core. Its first product of this size fixes the number, until when the environment has to say so.
    """
    import tropical_gemm

    before = os.environ.get("RAYON_NUM_THREADS")
    os.environ["RAYON_NUM_THREADS"] = before or "1"
    try:
        x = np.zeros((FIRST, FIRST))
        tropical_gemm.minplus_matmul_2d_f64(x, x)
    finally:
        if before is None:
            del os.environ["RAYON_NUM_THREADS"]
        else:
            os.environ["RAYON_NUM_THREADS"] = before
    return tropical_gemm


def _have_malloc_keep_memory() -> None:
    """Free a large block, after which glibc's malloc keeps what is smaller and freed: its thresholds grow by use."""
    np.empty(MOST_KEPT, np.uint8)


class _Execution(HostExecution):
    """A product by ``multiply(a, b) -> d``, all C-ordered, which is right where no term is NaN."""

    def __init__(self, problem: Problem, operands: Operands, multiply: Any) -> None:
        super().__init__(operands)
        self._problem, self._multiply = problem, multiply
        self._add = problem.semiring.add.ufunc
        self._zero = problem.semiring.zero(problem.dtype)
        is_used_in_place = operands.a.flags.c_contiguous and problem.alpha is None
        self._a = operands.a if is_used_in_place else np.empty_like(operands.a, order="C")
        self._b = operands.b if operands.b.flags.c_contiguous else np.empty_like(operands.b, order="C")
        self._scaled_c = np.empty_like(operands.out) if problem.accumulate else None

    def run(self) -> None:
        """Compute once into `operands.out`."""
        out = self.operands.out
        if out.size == 0:
            return
        with np.errstate(all="ignore"):
            product = self._product() if self._problem.k else self._zero
            if self._scaled_c is None:
                out[...] = product
                return
            beta = self._problem.dtype.type(0 if self._problem.beta is None else self._problem.beta)
            np.add(self.operands.c, beta, out=self._scaled_c)
            self._add(self._add(self._zero, self._scaled_c, out=self._scaled_c), product, out=out)

    def _product(self) -> Any:
        """Return ``alpha (x) A (x) B``."""
        problem, operands = self._problem, self.operands
        if problem.alpha is not None:
            np.add(operands.a, problem.alpha, out=self._a)
        elif self._a is not operands.a:
            np.copyto(self._a, operands.a)
        if self._b is not operands.b:
            np.copyto(self._b, operands.b)
        if has_no_nan_term(self._a, self._b):
            return self._multiply(self._a, self._b)
        return self._product_without_nan_terms(self._a, self._b)

    def _product_without_nan_terms(self, a: np.ndarray, b: np.ndarray) -> Any:
        """Return the product of operands that hold NaN or infinities of both signs.

        Replacing every NaN, and every infinity other than the zero, by the zero avoids NaN sums. That misses results
        equal to the other infinity: those with such a term and no zero. A product of marks finds them.
        """
        d = self._multiply(self._only_finite_or_zero(a), self._only_finite_or_zero(b))
        has_other = self._multiply(self._marks(a), self._marks(b)) * np.sign(self._zero) < 0
        d[has_other] = -self._zero
        return d

    def _only_finite_or_zero(self, x: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(x), x, self._zero)

    def _marks(self, x: np.ndarray) -> np.ndarray:
        """Return the zero where `x` is NaN or the zero, else the other infinity's sign where it is that, else 0."""
        marks = np.where(x == -self._zero, -np.sign(self._zero), x.dtype.type(0))
        marks[np.isnan(x) | (x == self._zero)] = self._zero
        return marks


def has_no_nan_term(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether no sum of an element of `a` and one of `b` is NaN. One pass for finite operands, else three."""
    if np.isfinite(a.sum()) and np.isfinite(b.sum()):
        return True
    extremes = a.min(), a.max(), b.min(), b.max()  # NaN where there is one
    opposite = np.isneginf(extremes[0]) and np.isposinf(extremes[3])
    opposite |= np.isposinf(extremes[1]) and np.isneginf(extremes[2])
    return not (opposite or np.isnan(extremes).any())
