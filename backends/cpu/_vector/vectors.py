"""LLVM IR for vectors of one dtype: load, store, edges, broadcast, shuffle.

Vectors of complex numbers are those of their parts, real and imaginary ones side by side.

An edge is the last vector of a row, of which only the first lanes exist. A unit that masks loads and stores does so;
for any other unit a separate function copies the lanes one by one through a small buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.unit import VectorUnit
from harness.dtypes import is_complex, is_float, parts_dtype, row_of


class VectorCode:
    """Emitter of code for vectors of one unit and dtype.

    Attributes
    ----------
    dtype : dtype
        Of a lane: of complex numbers that of their parts.
    parts : int
        Lanes of an element: of a complex number two.
    lanes, elements : int
        In a vector.
    """

    def __init__(self, unit: VectorUnit, dtype: np.dtype[Any]) -> None:
        self.elements, self.parts = unit.lanes(dtype), 2 if is_complex(dtype) else 1
        self.dtype = dtype = parts_dtype(dtype)
        self.lanes = unit.lanes(dtype)
        self.size_bytes = unit.size_bytes
        self.element = v.element_type(dtype)
        self.vector = ir.VectorType(self.element, self.lanes)
        self.masks = unit.masks(dtype)
        self.orders_nan = unit.orders_nan and is_float(dtype)
        self.suffix = f"v{self.lanes}{row_of(dtype).llvm}"

    def constant(self, value: Any) -> ir.Constant:
        """Return a scalar of the dtype in all lanes."""
        number = float(value) if is_float(self.dtype) else int(value)
        return ir.Constant(self.vector, [number] * self.lanes)

    def edge(self, builder: Builder, count: Value) -> Value:
        """Return the edge of a vector whose first `count` elements exist, for `load` and `store`: a mask or lanes.

        None may exist, or all. To shift a number by all of its bits is undefined: LLVM then took the first for sure.
        """
        count = self._lanes_of(builder, count)
        if not self.masks:
            return count
        if self.lanes < 64:
            first = builder.sub(builder.shl(v.size(1), count), v.size(1))
            bits = builder.trunc(first, ir.IntType(self.lanes))
        else:
            first = builder.lshr(v.size(-1), builder.sub(v.size(64), count))
            bits = builder.select(builder.icmp_unsigned("==", count, v.size(0)), v.size(0), first)
        return builder.bitcast(bits, ir.VectorType(v.BIT, self.lanes))

    def _lanes_of(self, builder: Builder, elements: Value) -> Value:
        return builder.mul(elements, v.size(self.parts)) if self.parts > 1 else elements

    def first_lanes(self, builder: Builder, count: Value) -> Value:
        """Return a vector of bits: which lanes are of the first `count` elements."""
        count = self._lanes_of(builder, count)
        numbers = ir.VectorType(v.INDEX, self.lanes)
        first = builder.insert_element(ir.Constant(numbers, ir.Undefined), builder.trunc(count, v.INDEX), v.index(0))
        wide = builder.shuffle_vector(first, first, ir.Constant(numbers, None))
        return builder.icmp_unsigned("<", ir.Constant(numbers, list(range(self.lanes))), wide)

    def load(self, builder: Builder, pointer: Value, edge: Value | None = None) -> Value:
        """Load a vector; lanes beyond an edge are zero bits."""
        if edge is None:
            return builder.load(pointer, typ=self.vector, align=self.dtype.itemsize)
        if not self.masks:
            return builder.call(self._lane_by_lane(builder, "load"), [pointer, edge])
        return self.load_lanes(builder, pointer, edge)

    def load_lanes(self, builder: Builder, pointer: Value, lanes: Value) -> Value:
        """Load the lanes of a vector of bits; the others are zero bits. Slow on a unit without masks."""
        masked = [v.POINTER, v.INDEX, ir.VectorType(v.BIT, self.lanes), self.vector]
        function = v.declare(builder, f"llvm.masked.load.{self.suffix}.p0", self.vector, masked)
        return builder.call(function, [pointer, v.index(self.dtype.itemsize), lanes, v.zeros(self.vector)])

    def store(self, builder: Builder, value: Value, pointer: Value, edge: Value | None = None) -> None:
        """Store a vector, or the lanes before an edge."""
        if edge is None:
            builder.store(value, pointer, align=self.dtype.itemsize)
        elif self.masks:
            self.store_lanes(builder, value, pointer, edge)
        else:
            builder.call(self._lane_by_lane(builder, "store"), [pointer, edge, value])

    def store_lanes(self, builder: Builder, value: Value, pointer: Value, lanes: Value) -> None:
        """Store the lanes of a vector of bits. Slow on a unit without masks."""
        masked = [self.vector, v.POINTER, v.INDEX, ir.VectorType(v.BIT, self.lanes)]
        function = v.declare(builder, f"llvm.masked.store.{self.suffix}.p0", v.VOID, masked)
        builder.call(function, [value, pointer, v.index(self.dtype.itemsize), lanes])

    def broadcast(self, builder: Builder, pointer: Value) -> Value:
        """Load one element into all lanes."""
        return self.splat(builder, builder.load(pointer, typ=self.element, align=self.dtype.itemsize))

    def splat(self, builder: Builder, scalar: Value) -> Value:
        """Return `scalar` in all lanes."""
        first = builder.insert_element(v.undefined(self.vector), scalar, v.index(0))
        return builder.shuffle_vector(first, first, v.zeros(ir.VectorType(v.INDEX, self.lanes)))

    def intrinsic(self, builder: Builder, name: str, *values: Value) -> Value:
        """Call LLVM's elementwise intrinsic `name`."""
        function = v.declare(builder, f"llvm.{name}.{self.suffix}", self.vector, [self.vector] * len(values))
        return builder.call(function, values)

    def transpose(self, builder: Builder, rows: list[Value]) -> list[Value]:
        """Return the columns of a square block of `lanes` rows, by log2(lanes) rounds of interleaving."""
        half, lanes = self.lanes // 2, self.lanes
        mask = ir.VectorType(v.INDEX, lanes)
        low = ir.Constant(mask, [i // 2 + lanes * (i % 2) for i in range(lanes)])
        high = ir.Constant(mask, [half + i // 2 + lanes * (i % 2) for i in range(lanes)])
        rounds = lanes.bit_length() - 1
        for _ in range(rounds):
            pairs = [(rows[i], rows[i + half]) for i in range(half)]
            rows = [builder.shuffle_vector(x, y, which) for x, y in pairs for which in (low, high)]
        return rows

    def copy_transposed(
        self, b: Builder, target: Value, target_stride: Value, source: Value, source_stride: Value
    ) -> None:
        """Copy a square block, transposed: addresses, and strides in bytes."""
        from_, to = b.inttoptr(source, v.POINTER), b.inttoptr(target, v.POINTER)
        rows = [self.load(b, v.advance(b, from_, b.mul(source_stride, v.size(i)))) for i in range(self.lanes)]
        for i, column in enumerate(self.transpose(b, rows)):
            self.store(b, column, v.advance(b, to, b.mul(target_stride, v.size(i))))

    def _lane_by_lane(self, builder: Builder, direction: str) -> Any:
        """Return the function that loads or stores the first lanes of a vector one by one."""
        name = f"{direction}_lanes_{self.suffix}"
        step = self.dtype.itemsize

        def copy(b: Builder, source: Value, target: Value, count: Value) -> None:
            def one(state: list[Value]) -> list[Value]:
                (offset,) = state
                b.store(b.load(v.advance(b, source, offset), typ=self.element), v.advance(b, target, offset))
                return [b.add(offset, v.size(step))]

            v.loop(b, count, [v.size(0)], one)

        def load(b: Builder, pointer: Value, count: Value) -> Value:
            buffer = b.inttoptr(b.ptrtoint(b.alloca(self.vector), v.SIZE), v.POINTER)
            b.store(ir.Constant(self.vector, None), buffer, align=self.dtype.itemsize)
            copy(b, pointer, buffer, count)
            return b.load(buffer, typ=self.vector, align=self.dtype.itemsize)

        def store(b: Builder, pointer: Value, count: Value, value: Value) -> None:
            buffer = b.inttoptr(b.ptrtoint(b.alloca(self.vector), v.SIZE), v.POINTER)
            b.store(value, buffer, align=self.dtype.itemsize)
            copy(b, buffer, pointer, count)

        if direction == "load":
            return v.own_function(builder.module, name, [v.POINTER, v.SIZE], load, self.vector)
        return v.own_function(builder.module, name, [v.POINTER, v.SIZE, self.vector], store)
