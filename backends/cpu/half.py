"""float16 where (+) selects: computed in float32 by any other backend, and rounded once, at the end.

    A32, B32, C32  :=  (alpha (x) A), B, C                  exact; alpha (x) A is rounded to float16 before
    D32            :=  (A32 (x) B32) (+) (beta (x) C32)     by the base
    D              :=  D32, rounded

The result equals the product over float16, bit for bit. Rounding a term to 24 bits and then to 11 equals rounding it
once, since 24 >= 2 * 11 + 2, also where it is subnormal or infinite. Rounding keeps order, so the least rounded term is
the least term, rounded. Conversion costs O(m k + k n + m n) and is timed.

A triangle of A is mirrored once it is wide. Of a triangle of D the base computes no more, and no more is written.

Conversion by vectorised integer arithmetic takes 0.1 ns an element, NumPy's 1.4 to 1.8. Not every processor has the
instruction, and not every system the library function in its place. Without its sign, a number's bits are an integer,
exponent before mantissa: 15 bits of float16 and 31 of float32.

    widen    by `_vector.narrow`
    narrow   add half of the last place, less one where the last place is even, and cut 13 bits; below 2^-14 add 1/2,
             whose last place is 2^-24, so that the processor rounds

Source: Figueroa, "When is Double Rounding Innocuous?" (1995). No arithmetic over float16 is generated.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import numba
import numpy as np
from llvmlite import ir
from numba import prange

from backends._triangle import mirror_triangle
from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, rows, scalar, scratch
from backends.cpu._vector.intrinsics import emits
from backends.cpu._vector.narrow import FORMATS, WIDE_INFINITE, WIDE_MANTISSA, widen_float
from harness.composite import Composite
from harness.interface import Execution, HostExecution
from harness.machine import Machine
from harness.operands import Operands, lower_triangle
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import HALF
from harness.tuning.static_order import AUTO_FIRST

_WIDE = np.dtype(np.float32)
_BITS = np.dtype(np.uint16)  # the type in which kernels take float16: Numba has none

_WORD, _FLOAT, _SHORT = ir.IntType(32), ir.FloatType(), ir.IntType(16)
SIGN, _MANTISSA, _, INFINITE = FORMATS["float16"]
CUT = WIDE_MANTISSA - _MANTISSA  # bits of the mantissa that float16 lacks
_NAN = 0x7E00  # of float16
_WIDE_SIGN, _WIDE_NORMAL, _WIDE_HALF = 1 << 31, 113 << 23, 126 << 23


class Half(Composite):
    """A product over float32 whose operands and result are converted."""

    name = "cpu-half"
    step = 56
    idea = "float16 without arithmetic over it: converted to float32, where another backend computes, and rounded once"
    source = 'Figueroa, "When is Double Rounding Innocuous?" (1995)'
    rereads_operands = True
    takes = frozenset({"half", "triangle"})

    def declines(self, problem: Problem) -> str | None:
        """Decline every other dtype, and a triangle of D that no base computes."""
        if problem.dtype != HALF:
            return "float16 only"
        return None if not problem.triangle or self._able(_widened(problem)) else "no base computes a triangle of D"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the base."""
        return Plan(problem, machine.threads, None, {"base": self.choose_base(_widened(problem), AUTO_FIRST)})

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Allocate the float32 operands, and have the base prepare its product between the conversions."""
        wide = _widened(plan.problem)
        shapes = (operands.a.shape, operands.b.shape, operands.out.shape)
        a, b, out = (np.empty(shape, _WIDE, order) for shape, order in zip(shapes, _orders(wide), strict=True))
        c = np.empty_like(out) if plan.problem.accumulate else None
        product = self.prepare_part(plan, wide, Operands(a, b, c, out))
        alpha, multiply = plan.problem.alpha, plan.problem.semiring.multiply.ufunc
        scaled_a = operands.a if alpha is None else np.empty(operands.a.shape, HALF)
        pairs = [(scaled_a, a), (operands.b, b)]
        if c is not None and operands.c is not None:
            pairs.append((operands.c, c))
        is_triangle = plan.problem.triangle == "d"
        target = np.empty(out.shape, HALF, _orders(wide)[2]) if is_triangle else operands.out
        widen_all, narrow = [prepare_convert(*pair) for pair in pairs], prepare_convert(product.operands.out, target)

        def run() -> None:
            with np.errstate(all="ignore"):
                if multiply is not None and alpha is not None:
                    scaled_a[...] = multiply(alpha, operands.a)
                for widen in widen_all:
                    widen()
                if plan.problem.triangle == "a":
                    mirror_triangle(a, a, np)
                product.run_once()
                narrow()
                if is_triangle:
                    np.copyto(operands.out, target, where=lower_triangle(plan.problem.m))

        return HostExecution(operands, run)


def _widened(problem: Problem) -> Problem:
    """Return the product over float32.

    Its A includes alpha, and is whole. Rows or columns of every operand are contiguous.
    """
    layout, triangle = problem.layout.replace("A", "C"), problem.triangle.replace("a", "")
    return dataclasses.replace(problem, dtype=_WIDE, alpha=None, layout=layout, triangle=triangle)


def _orders(problem: Problem) -> tuple[Literal["C", "F"], ...]:
    return tuple("F" if order == "F" else "C" for order in problem.layout)


def prepare_convert(source: np.ndarray, target: np.ndarray) -> Callable[[], object]:
    """Return ``convert()``: ``target := source``, one float16 and the other float32, to nearest, ties to even.

    NumPy converts where neither all rows nor all columns are contiguous. Both arrays must outlive the conversions.
    """
    for pair in ((source, target), (source.T, target.T)):
        if all(x.flags.c_contiguous for x in pair) and not numba.config.DISABLE_JIT:
            bits = (x.view(_BITS) if x.dtype == HALF else x for x in pair)
            return functools.partial(build_convert(source.dtype), *bits)
    return functools.partial(np.copyto, target, source, casting="same_kind")


@kernel_builder
def build_convert(dtype: np.dtype[Any]) -> Any:
    """Compile ``y := x`` from `dtype` to the other, both C-contiguous, float16 as its bits."""
    is_narrow = dtype == HALF
    source, target, emit = (_BITS, _WIDE, _widen) if is_narrow else (_WIDE, _BITS, _narrow)
    element = emits(scalar(target), scalar(source))(emit)

    def convert(x: np.ndarray, y: np.ndarray) -> None:
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = element(x[i, j])

    return jit(None, rows(source), scratch(target, 2))(convert)


def _widen(b: ir.IRBuilder, x: Any) -> Any:
    return widen_float(b, x, HALF.name)


def _narrow(b: ir.IRBuilder, x: Any) -> Any:
    bits = b.bitcast(x, _WORD)
    magnitude = b.and_(bits, _WORD(_WIDE_SIGN - 1))
    is_odd = b.and_(b.lshr(magnitude, _WORD(CUT)), _WORD(1))
    below_half = _WORD((1 << CUT - 1) - 1 - (112 << 23) & 0xFFFFFFFF)  # and rebias the exponent by 112
    normal = b.lshr(b.add(b.add(magnitude, below_half), is_odd), _WORD(CUT))
    normal = b.select(b.icmp_unsigned("<", normal, _WORD(INFINITE)), normal, _WORD(INFINITE))
    sum_with_half = b.fadd(b.bitcast(magnitude, _FLOAT), _FLOAT(0.5))
    subnormal = b.sub(b.bitcast(sum_with_half, _WORD), _WORD(_WIDE_HALF))
    rounded = b.select(b.icmp_unsigned("<", magnitude, _WORD(_WIDE_NORMAL)), subnormal, normal)
    rounded = b.select(b.icmp_unsigned(">", magnitude, _WORD(WIDE_INFINITE)), _WORD(_NAN), rounded)
    return b.trunc(b.or_(rounded, b.and_(b.lshr(bits, _WORD(16)), _WORD(SIGN))), _SHORT)
