"""A row of a register tile as one value of compiled code: vectors side by side, which stay in registers.

Numba has scalars and arrays, and of these only scalars stay in registers. So a row is a type of its own, and what is
done with it are the vector instructions of a semiring (`_vector.operators`). A semiring that has none, such as one of a
user's own functions, is computed lane by lane, and LLVM joins equal instructions on lanes (`jit`'s ``joins_lanes``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from backends.cpu._ladder.operators import operators
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.inlined import inlined
from backends.cpu._vector.intrinsics import emits
from backends.cpu._vector.operators import Guard, guard, operations
from backends.cpu._vector.unit import VectorUnit, usable_units
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import is_bool, is_complex
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
    load, store : function
        ``load(address)`` returns the row that begins there, ``store(address, row)`` writes it.
    zeros : function
        ``zeros()`` returns a row of the semiring's zero.
    extend : function
        ``extend(c, x, y)`` returns c (+) (x (x) y), lane by lane, for rows c and y and a scalar x.
    combine : function
        ``combine(c, t)`` returns c (+) t.
    """

    load: Any
    store: Any
    zeros: Any
    extend: Any
    combine: Any


def lengths_of_row(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return how many elements a row may have: those of two of the widest vectors, and of one; at least four."""
    unit = usable_units()[0]
    fits_two = not is_complex(dtype) or unit.mr * unit.nv >= 2 * SUMS  # a vector of complex numbers has two of sums
    counts = (2, 1) if fits_two else (1,)
    return tuple(dict.fromkeys(min(max(count * unit.lanes(dtype), LEAST_LANES), MOST_LANES) for count in counts))


def sums_of_row(dtype: np.dtype[Any], lanes: int, rows: int) -> int:
    """Return in how many sums of their own steps of k are split, so that `rows` rows are `SUMS` vectors."""
    vectors = -(-lanes * dtype.itemsize // usable_units()[0].size_bytes) * (2 if is_complex(dtype) else 1)
    return max(SUMS // (rows * vectors), 1)


def build_rows(semiring: Semiring, dtype: np.dtype[Any], lanes: int) -> Rows:
    """Return the functions on rows of `semiring` over `dtype`."""
    element, of_bools = numba.from_dtype(dtype), is_bool(dtype)
    orders_nan = usable_units()[0].orders_nan
    code = VectorCode(VectorUnit("row", (), lanes * dtype.itemsize, 1, 1, 1, orders_nan=orders_nan), dtype)
    row, zero = RowType(element, lanes), semiring.zero(dtype).item()

    @emits(row, types.intp)
    def load(builder: Builder, address: Value) -> Value:
        return code.load(builder, builder.inttoptr(address, v.POINTER))

    @emits(types.void, types.intp, row)
    def store(builder: Builder, address: Value, values: Value) -> None:
        code.store(builder, values, builder.inttoptr(address, v.POINTER))

    @emits(row)
    def zeros(builder: Builder) -> Value:
        return code.constant(zero)

    if (ops := operations(semiring, dtype)) is None:
        return Rows(load, store, zeros, *_lane_by_lane(semiring, dtype, row))
    # The fast form of some (x) takes a scan of A and B, which this rung does not have.
    ops = ops._replace(zero=int(zero) if of_bools else zero, is_careful=guard(semiring, dtype) is not Guard.NONE)

    @emits(row, row, element, row)
    def extend(builder: Builder, c: Value, x: Value, y: Value) -> Value:
        return ops.extend(code, builder, c, code.splat(builder, builder.zext(x, v.BYTE) if of_bools else x), y)

    @emits(row, row, row)
    def combine(builder: Builder, c: Value, t: Value) -> Value:
        return ops.combine(code, builder, c, t)

    return Rows(load, store, zeros, extend, combine)


def _lane_by_lane(semiring: Semiring, dtype: np.dtype[Any], row: RowType) -> tuple[Any, Any]:
    """Return `extend` and `combine` by the scalar functions of `semiring`."""
    add, multiply, _ = operators(semiring, dtype, reduces=False)

    @inlined
    def extend_lane(c: Any, x: Any, y: Any) -> Any:
        return add(c, multiply(x, y))

    @intrinsic
    def extend(context: Any, c: Any, x: Any, y: Any) -> Any:
        return _on_lanes(context, extend_lane, row, (c, x, y))

    @intrinsic
    def combine(context: Any, c: Any, t: Any) -> Any:
        return _on_lanes(context, add, row, (c, t))

    return extend, combine


def _on_lanes(typing_context: Any, function: Any, row: RowType, operands: tuple[Any, ...]) -> Any:
    """Return signature and code of `function` on each lane of `operands`, of which some are scalars."""
    callee = types.Dispatcher(function)
    signature = callee.get_call_type(typing_context, [row.element] * len(operands), {})

    def codegen(context: Any, builder: Builder, _: Any, values: Any) -> Value:
        call, model = context.get_function(callee, signature), context.data_model_manager[row.element]
        joined = values[0]
        for j in range(row.lanes):
            of_lane = [
                model.from_data(builder, builder.extract_element(value, v.index(j))) if kind == row else value
                for kind, value in zip(operands, values, strict=True)
            ]
            joined = builder.insert_element(joined, model.as_data(builder, call(builder, of_lane)), v.index(j))
        return joined

    return row(*operands), codegen
