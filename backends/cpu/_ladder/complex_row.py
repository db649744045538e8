"""A row of a register tile of complex numbers: two rows of sums, by the real and by the imaginary part of A.

    y       b0.re b0.im b1.re b1.im ...    a row of B as it lies
    row     (+) re(a) y  |  (+) im(a) y    side by side, so that a step of k is that of a real row twice as long
    a y     first + i second               once for each tile

No vector is shuffled in the loop (`_vector.elements`).

Source: Van Zee and Smith, "Implementing High-Performance Complex Matrix Multiplication via the 3m and 4m Methods"
(2017), section 2.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types

from backends.cpu._ladder.row import Rows, RowType
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.elements import join_rows
from backends.cpu._vector.intrinsics import emits
from backends.cpu._vector.operators import operations
from backends.cpu._vector.unit import VectorUnit
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import parts_dtype
from harness.semiring import Semiring


def build_complex_rows(semiring: Semiring, dtype: np.dtype[np.generic], lanes: int) -> Rows:
    """Return the functions on rows of `lanes` complex numbers, for plus_times."""
    size = lanes * dtype.itemsize
    one, both = (VectorCode(VectorUnit("row", (), count * size, 1, 1, 1), dtype) for count in (1, 2))
    row, ops = RowType(numba.from_dtype(parts_dtype(dtype)), both.lanes), operations(semiring, dtype)
    assert ops is not None

    def lanes_of(builder: Builder, x: Value, y: Value, begin: int, end: int) -> Value:
        return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(v.INDEX, end - begin), list(range(begin, end))))

    @emits(row, types.intp)
    def load(builder: Builder, address: Value) -> Value:
        y = one.load(builder, builder.inttoptr(address, v.POINTER))
        return lanes_of(builder, y, y, 0, both.lanes)

    @emits(types.void, types.intp, row)
    def store(builder: Builder, address: Value, sums: Value) -> None:
        halves = [lanes_of(builder, sums, sums, begin, begin + one.lanes) for begin in (0, one.lanes)]
        (joined,) = join_rows(ops, one, builder, halves, 1)
        one.store(builder, joined, builder.inttoptr(address, v.POINTER))

    @emits(row)
    def zeros(builder: Builder) -> Value:
        return both.constant(ops.zero)

    @emits(row, row, numba.from_dtype(dtype), row)
    def extend(builder: Builder, c: Value, x: Value, y: Value) -> Value:
        real, imaginary = (one.splat(builder, builder.extract_value(x, part)) for part in (0, 1))
        return ops.extend(both, builder, c, lanes_of(builder, real, imaginary, 0, both.lanes), y)

    @emits(row, row, row)
    def combine(builder: Builder, c: Value, t: Value) -> Value:
        return ops.combine(both, builder, c, t)

    return Rows(load, store, zeros, extend, combine)
