"""Common parts of the BLAS peers, around their routine: unreadable layouts, alpha, beta, and empty sizes.

A library's routine computes ``out := alpha a b + beta out`` for m, n, k >= 1. It is bound to its operands once, in
`prepare`. An operand that the library cannot read in place is copied into scratch that `prepare` allocated. The copy
depends on values, so it is part of `run` and timed.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from harness.dtypes import is_exact
from harness.interface import Backend, HostExecution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

Takes = Callable[[np.ndarray], bool]
Bind = Callable[[Any, np.ndarray, np.ndarray, Any, np.ndarray], Callable[[], object]]


class BlasPeer(Backend):
    """A library that computes plus_times over floats and complex numbers, by its own blocks, on a number of threads.

    Attributes
    ----------
    module : str
        The optional module that it is called through.
    package : str
        The package to install for it; empty: named as the module.
    """

    module: ClassVar[str]
    package: ClassVar[str] = ""
    is_optional = True
    takes = frozenset({"complex"})
    accumulates_in_place = True

    def missing(self) -> str | None:
        """Return that the package is not installed, or None."""
        return absent(self.module, self.package)

    def declines(self, problem: Problem) -> str | None:
        """Return why the library does not compute `problem`, or None."""
        if not problem.semiring.is_ordinary:
            return f"{self.project} computes plus_times only"
        if is_exact(problem.dtype):
            return f"{self.project} takes float32, float64, complex64 and complex128 only"
        return None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return a plan without blocks: the library chooses its own."""
        return Plan(problem, machine.threads)


class BlasExecution(HostExecution):
    """A product by a BLAS library.

    Parameters
    ----------
    plan : Plan
    operands : Operands
    takes : callable
        ``takes(x)``: whether the library reads or writes the matrix `x` in place. It takes every C-ordered one.
    bind : callable
        ``bind(alpha, a, b, beta, out)`` returns a function without arguments that computes
        ``out := alpha a b + beta out``, not reading `out` where beta is zero.
    """

    def __init__(self, plan: Plan, operands: Operands, takes: Takes, bind: Bind) -> None:
        super().__init__(operands)
        problem = self._problem = plan.problem
        self._target = _in_place_or_scratch(operands.out, takes)
        self._a = _in_place_or_scratch(operands.a, takes)
        self._b = _in_place_or_scratch(operands.b, takes)
        alpha = problem.dtype.type(1) if problem.alpha is None else problem.alpha
        # BLAS skips A and B where alpha is zero, and scales the sum instead of its terms. An alpha of zero or infinity
        # would lose NaN.
        self._folds_alpha = not np.isfinite(alpha) or alpha == 0
        if self._folds_alpha:
            self._a, alpha = np.empty_like(operands.a, order="C"), problem.dtype.type(1)
        self._beta = problem.dtype.type(1 if problem.beta is None else problem.beta)
        beta = self._beta if problem.accumulate else problem.dtype.type(0)
        has_work = min(problem.m, problem.n, problem.k) > 0
        self._multiply = bind(alpha, self._a, self._b, beta, self._target) if has_work else None

    def run(self) -> None:
        """Compute once into `operands.out`."""
        operands = self.operands
        if self._multiply is None:
            self._run_without_terms()
            return
        if self._folds_alpha:
            with np.errstate(all="ignore"):
                np.multiply(operands.a, self._problem.alpha, out=self._a)
        elif self._a is not operands.a:
            np.copyto(self._a, operands.a)
        if self._b is not operands.b:
            np.copyto(self._b, operands.b)
        if operands.c is not None and operands.c is not self._target:
            np.copyto(self._target, operands.c)
        self._multiply()
        if self._target is not operands.out:
            np.copyto(operands.out, self._target)

    def _run_without_terms(self) -> None:
        """Compute a product whose inner size, or whose result, is empty."""
        if self._problem.accumulate:
            with np.errstate(all="ignore"):
                np.multiply(self.operands.c, self._beta, out=self.operands.out)
        else:
            self.operands.out[...] = 0


@functools.cache
def absent(module: str, package: str = "") -> str | None:
    """Return why the optional `module`, from `package`, cannot be used, or None. Looks for it without importing it."""
    return None if importlib.util.find_spec(module) is not None else not_installed(package or module)


def not_installed(package: str) -> str:
    """Return the reason why a peer is missing."""
    return f"package {package} is not installed: pip install {package}"


def is_contiguous(x: np.ndarray) -> bool:
    """Return whether rows or columns of `x` follow each other without a gap."""
    return x.flags.c_contiguous or x.flags.f_contiguous


def _in_place_or_scratch(x: np.ndarray, takes: Takes) -> np.ndarray:
    # SciPy would copy an array that is not aligned, and write to its copy
    return x if takes(x) and x.flags.aligned else np.empty_like(x, order="C")
