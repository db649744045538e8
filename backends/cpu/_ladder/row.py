"""A row of a register tile as one value of compiled code: some elements side by side, which LLVM keeps in a vector.

Numba has scalars and arrays, and of these only scalars stay in registers. So a row is a type of its own. Its lanes are
computed one by one, by the scalar operations of any semiring. LLVM unrolls that loop and joins its instructions into
those of a vector (`jit`'s ``joins_lanes``).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from backends.cpu._ladder.operators import operators
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.inlined import inlined
from backends.cpu._vector.intrinsics import emits
from backends.cpu._vector.unit import usable_units
from harness.semiring import Semiring

LEAST_LANES, MOST_LANES = 4, 32
# Vectors of sums that hide the latency of an addition, of four cycles, on two units.
SUMS = 8


class RowType(types.Type):
    """Numba's type of a row."""

    def __init__(self, element: Any, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"row({element} x {lanes})")


@register_model(RowType)
class _RowModel(models.PrimitiveModel):
    """A row is a vector of elements as they lie in memory."""

    def __init__(self, manager: Any, row: RowType) -> None:
        super().__init__(manager, row, ir.VectorType(manager.lookup(row.element).get_data_type(), row.lanes))


class Rows(NamedTuple):
    """Functions of compiled code on rows of one semiring, dtype and length.

    Attributes
    ----------
    load : function
        ``load(address)`` returns the row that begins there.
    zeros : function
        ``zeros()`` returns a row of the semiring's zero.
    extend : function
        ``extend(c, x, y)`` returns c (+) (x (x) y), lane by lane, for rows c and y and a scalar x.
    combine : function
        ``combine(c, t)`` returns c (+) t.
    lane : function
        ``lane(row, j)`` returns an element.
    """

    load: Any
    zeros: Any
    extend: Any
    combine: Any
    lane: Any


def lengths_of_row(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return how many elements a row may have: those of two of the widest vectors, and of one; at least four."""
    vector = usable_units()[0].lanes(dtype)
    return tuple(dict.fromkeys(min(max(count * vector, LEAST_LANES), MOST_LANES) for count in (2, 1)))


def sums_of_row(dtype: np.dtype[Any], lanes: int, rows: int) -> int:
    """Return in how many sums of their own steps of k are split, so that `rows` rows are `SUMS` vectors."""
    vectors = -(-lanes * dtype.itemsize // usable_units()[0].size_bytes)
    return max(SUMS // (rows * vectors), 1)


@functools.cache
def build_rows(semiring: Semiring, dtype: np.dtype[Any], lanes: int) -> Rows:
    """Return the functions on rows of `semiring` over `dtype`."""
    element, is_bool = numba.from_dtype(dtype), dtype.kind == "b"
    row, vector = RowType(element, lanes), ir.VectorType(v.BYTE if is_bool else v.element_type(dtype), lanes)
    add, multiply, zero = operators(semiring, dtype, reduces=False)

    @emits(row, types.intp)
    def load(builder: Builder, address: Value) -> Value:
        return builder.load(builder.inttoptr(address, v.POINTER), typ=vector, align=dtype.itemsize)

    @emits(element, row, types.intp)
    def lane(builder: Builder, values: Value, j: Value) -> Value:
        value = builder.extract_element(values, j)
        return builder.trunc(value, v.BIT) if is_bool else value

    @emits(row, row, types.intp, element)
    def with_lane(builder: Builder, values: Value, j: Value, x: Value) -> Value:
        return builder.insert_element(values, builder.zext(x, v.BYTE) if is_bool else x, j)

    @emits(row)
    def any_values(builder: Builder) -> Value:
        return ir.Constant(vector, ir.Undefined)

    @inlined
    def zeros() -> Any:
        values = any_values()
        for j in range(lanes):
            values = with_lane(values, j, zero)
        return values

    @inlined
    def extend(c: Any, x: Any, y: Any) -> Any:
        for j in range(lanes):
            c = with_lane(c, j, add(lane(c, j), multiply(x, lane(y, j))))
        return c

    @inlined
    def combine(c: Any, t: Any) -> Any:
        for j in range(lanes):
            c = with_lane(c, j, add(lane(c, j), lane(t, j)))
        return c

    return Rows(load, zeros, extend, combine, lane)
