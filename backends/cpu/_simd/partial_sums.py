"""Sums of parts, combined: each part of a product has a row of scratch for its sum, and rows are combined in order.

    y[j] := [y[j] (+)] sums[0, j] (+) sums[1, j] (+) ...

The order is that of the parts, whichever thread computed them. So the bits of a result depend on the number of threads
alone, and for a selective (+) not even on that.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from backends.cpu._ir.functions import compile_functions
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from harness.operands import CACHE_LINE


def length_of_sums(elements: int, itemsize: int) -> int:
    """Return the bytes of a row of sums: whole cache lines, an odd number, so that rows do not share cache sets."""
    return (-(-elements * itemsize // CACHE_LINE) | 1) * CACHE_LINE


def compile_fold(key: KernelKey) -> int:
    """Compile ``fold(rows, n, sums, stride, y, accumulate)``, and return its address."""
    parts = key.operations, key.dtype, key.unit
    (address,) = compile_functions("fold", parts, lambda module: [fold_function(module, key)], unrolls=True)
    return address


def fold_function(module: ir.Module, key: KernelKey) -> Any:
    """Return the function ``fold(rows, n, sums, stride, y, accumulate)``, of at least one row of sums."""
    operations, code = key.operations, key.code()

    def emit(b: Builder, rows: Value, n: Value, sums: Value, stride: Value, y: Value, accumulate: Value) -> None:
        first, target = b.inttoptr(sums, v.POINTER), b.inttoptr(y, v.POINTER)

        def one(offset: Value, is_combining: bool, edge: Value | None = None) -> Value:
            def next_row(state: list[Value]) -> list[Value]:
                row, total = state
                total = operations.combine(code, b, total, code.load(b, v.advance(b, row, offset), edge))
                return [v.advance(b, row, stride), total]

            begin = code.load(b, v.advance(b, target if is_combining else first, offset), edge)
            if is_combining:
                _, total = v.loop(b, rows, [first, begin], next_row)
            else:
                _, total = v.loop(b, b.sub(rows, v.size(1)), [v.advance(b, first, stride), begin], next_row)
            code.store(b, total, v.advance(b, target, offset), edge)
            return b.add(offset, v.size(code.size_bytes))

        def all_of_them(is_combining: bool) -> None:
            whole, left = b.udiv(n, v.size(code.elements)), b.urem(n, v.size(code.elements))
            (offset,) = v.loop(b, whole, [v.size(0)], lambda state: [one(state[0], is_combining)])
            with b.if_then(b.icmp_signed("!=", left, v.size(0))):
                one(offset, is_combining, code.edge(b, left))

        v.in_both_forms(b, accumulate, all_of_them)

    return v.own_function(module, "fold", [v.SIZE] * 6, emit)


def fill_function(module: ir.Module, key: KernelKey) -> Any:
    """Return the function ``fill(n, y)``, which writes the semiring's zero to n elements."""
    code = key.code()
    zero = code.constant(key.operations.zero)

    def emit(b: Builder, n: Value, y: Value) -> None:
        def one(state: list[Value]) -> list[Value]:
            code.store(b, zero, state[0])
            return [v.advance(b, state[0], code.size_bytes)]

        whole, left = b.udiv(n, v.size(code.elements)), b.urem(n, v.size(code.elements))
        (end,) = v.loop(b, whole, [b.inttoptr(y, v.POINTER)], one)
        with b.if_then(b.icmp_signed("!=", left, v.size(0))):
            code.store(b, zero, end, code.edge(b, left))

    return v.own_function(module, "fill", [v.SIZE] * 2, emit)
