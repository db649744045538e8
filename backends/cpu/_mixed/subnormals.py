"""Scan for 16-bit subnormal numbers, which some instructions take for zero, before a product or in its loops.

A number is subnormal if its magnitude, as an integer, is neither 0 nor above that of the largest one. After subtracting
1 without a sign that is one comparison, since 0 becomes the largest integer. So the least of all magnitudes less one
decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import Emit, as_pointer
from harness.dtypes import TABLE

MAGNITUDE = 0x7FFF
LINE_BYTES = 64


def _largest_subnormal(operands: str) -> int:
    """Return the bits of the largest subnormal number: all of the mantissa."""
    return (1 << TABLE[operands].digits - 1) - 1


@kernel_builder
def build_has_subnormal(operands: str) -> Any:
    """Compile ``has_subnormal(address, rows, columns, row_stride)``, for contiguous rows; stride in bytes.

    Parameters
    ----------
    operands : str
        The dtype, a float of 16 bits.
    """
    dtype, largest = np.dtype(np.uint16), _largest_subnormal(operands)

    def has_subnormal(address: int, rows: int, columns: int, row_stride: int) -> bool:
        for i in range(rows):
            has_one = False
            for value in carray(as_pointer(address + i * row_stride), (columns,), dtype):
                magnitude = value & np.uint16(MAGNITUDE)
                has_one |= (magnitude != 0) & (magnitude <= np.uint16(largest))
            if has_one:
                return True
        return False

    return jit(None, *[types.intp] * 4, parallel=False, returns=types.boolean)(has_subnormal)


def emit_look(operands: str) -> Emit:
    """Return the emitter of ``look(rows, lines, address, stride, line_stride, flag)``.

    Sets the byte at the address `flag` if a row holds a subnormal number of the dtype. Rows
    are `stride` bytes apart, and each is `lines` times 64 bytes, `line_stride` bytes apart.
    """
    largest = _largest_subnormal(operands)
    vector = ir.VectorType(ir.IntType(16), LINE_BYTES // 2)

    def constant(value: int) -> Any:
        return ir.Constant(vector, [value] * vector.count)

    def emit(b: Builder, rows: Value, lines: Value, address: Value, stride: Value, further: Value, flag: Value) -> None:
        def line(state: list[Value]) -> list[Value]:
            address, least = state
            magnitude = b.and_(b.load(address, typ=vector, align=1), constant(MAGNITUDE))
            less_one = b.sub(magnitude, constant(1))
            least = b.select(b.icmp_unsigned("<", less_one, least), less_one, least)
            return [v.advance(b, address, further), least]

        def row(state: list[Value]) -> list[Value]:
            begin, least = state
            _, least = v.loop(b, lines, [begin, least], line)
            return [v.advance(b, begin, stride), least]

        _, least = v.loop(b, rows, [b.inttoptr(address, v.POINTER), constant(0xFFFF)], row)
        is_subnormal = b.icmp_unsigned("<", least, constant(largest))
        bits = ir.IntType(vector.count)
        with b.if_then(b.icmp_unsigned("!=", b.bitcast(is_subnormal, bits), ir.Constant(bits, 0))):
            b.store(ir.Constant(v.BYTE, 1), b.inttoptr(flag, v.POINTER))

    return emit
