"""float16 where (+) selects: in float32 by any other backend, and rounded once, at the end.

    A32, B32, C32  :=  (alpha (x) A), B, C                  exact; alpha (x) A is rounded to float16 before
    D32            :=  (A32 (x) B32) (+) (beta (x) C32)     by the base
    D              :=  D32, rounded

That is the product over float16, bit for bit. A term that is rounded to 24 bits and then to 11 is what rounding it once
gives, since 24 >= 2 * 11 + 2, and subnormal or infinite where that is; and rounding keeps order, so the least of the
rounded terms is the least term rounded. Conversion costs O(m k + k n + m n), and is part of what is timed.

Source: Figueroa, "When is Double Rounding Innocuous?" (1995); no processor that Numba compiles for is asked for
arithmetic over float16.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from backends.cpu._mixed.half_conversion import prepare_convert
from harness import machine
from harness.composite import Composite
from harness.interface import Execution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import HALF
from harness.tuning.cpu import AUTO_FIRST

_WIDE = np.dtype(np.float32)


class Half(Composite):
    """A product over float32 whose operands and result are converted."""

    name = "cpu-half"
    step = 56
    idea = "float16 without arithmetic over it: converted to float32, where another backend computes, and rounded once"
    source = 'Figueroa, "When is Double Rounding Innocuous?" (1995)'
    takes_half = True

    def declines(self, problem: Problem) -> str | None:
        """Decline every other dtype."""
        return None if problem.dtype == HALF else "float16 only"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the base."""
        return Plan(problem, machine.threads, None, {"base": self.choose_base(_widened(problem), (AUTO_FIRST,))})

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Allocate what is converted to, and have the base prepare its product."""
        wide = _widened(plan.problem)
        base = self.find_base(plan.options["base"], wide)
        shapes = (operands.a.shape, operands.b.shape, operands.out.shape)
        a, b, out = (np.empty(shape, _WIDE, order) for shape, order in zip(shapes, _orders(wide), strict=True))
        c = np.empty_like(out) if plan.problem.accumulate else None
        within = machine.detect().with_threads(plan.threads)
        converted = Operands(a, b, c, out)
        return _HalfExecution(plan.problem, operands, converted, base.prepare(base.plan(wide, within), converted))


class _HalfExecution:
    """The base's product, and what is converted around it."""

    def __init__(self, problem: Problem, operands: Operands, converted: Operands, product: Execution) -> None:
        self._operands, self._converted, self._product = operands, converted, product
        self._alpha, self._multiply = problem.alpha, problem.semiring.multiply.ufunc
        self._a = operands.a if self._alpha is None else np.empty(operands.a.shape, HALF)
        given = [(self._a, converted.a), (operands.b, converted.b)]
        if converted.c is not None and operands.c is not None:
            given.append((operands.c, converted.c))
        self._widen = [prepare_convert(*pair) for pair in given]
        self._round = prepare_convert(converted.out, operands.out)

    def run(self) -> None:
        """Compute once into `operands.out`."""
        with np.errstate(all="ignore"):
            if self._multiply is not None and self._alpha is not None:
                self._a[...] = self._multiply(self._alpha, self._operands.a)
            for widen in self._widen:
                widen()
            self._product.run()
            self._product.wait()
            produced = self._product.result()
            if produced is not self._converted.out:
                self._converted.out[...] = produced
            self._round()

    def wait(self) -> None:
        """Return: the result is complete."""

    def result(self) -> np.ndarray:
        """Return D, the output array itself."""
        return self._operands.out


def _widened(problem: Problem) -> Problem:
    """Return the product over float32: alpha is in its A already, and nothing is strided in both directions."""
    return dataclasses.replace(problem, dtype=_WIDE, alpha=None, layout=problem.layout.replace("A", "C"))


def _orders(problem: Problem) -> tuple[Literal["C", "F"], ...]:
    return tuple("F" if order == "F" else "C" for order in problem.layout)
