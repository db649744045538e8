"""Packing for the generated kernels: a block of any strides is copied to contiguous rows.

``gather`` serves A and B: it copies contiguous rows, and transposes contiguous columns in square blocks of registers.
It copies any other layout element by element. ``pack_b_rows`` serves the frequent case of B, contiguous rows: a
micro-panel of whole vectors. Lanes beyond the edge are zero bits, which the micro-kernel never stores.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._cache.key import kernel_builder
from backends.cpu._ir.functions import compile_functions
from backends.cpu._ir.integers import translated
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import Emit, OfIntegers
from backends.cpu._vector.unit import VectorUnit
from backends.cpu._vector.vectors import VectorCode

TRANSPOSED_BYTES = (4, 8)  # sizes of elements that are transposed in registers: 8 or 16 vectors of them


def compile_packs(key: KernelKey) -> tuple[int, ...]:
    """Compile ``pack(k, b, ldb, panel, lanes)`` for panels of 1 to nv vectors, and return the addresses."""
    emitter = functools.partial(_pack_b_rows, key.code())
    return compile_functions(
        "packs",
        (key.dtype, key.unit, key.nv),
        lambda module: v.numbered_functions(module, "pack", key.nv, 5, emitter),
        unrolls=True,
    )


def _pack_b_rows(code: VectorCode, vectors: int) -> Emit:
    """Return the emitter of a panel of some vectors."""

    def emit(b: Builder, k: Value, source: Value, ldb: Value, panel: Value, lanes: Value) -> None:
        edges = [None] * (vectors - 1) + [code.edge(b, lanes)]

        def row(state: list[Value]) -> list[Value]:
            from_, to = state
            for j in range(vectors):
                part = code.load(b, v.advance(b, from_, j * code.size_bytes), edges[j])
                code.store(b, part, v.advance(b, to, j * code.size_bytes))
            return [v.advance(b, from_, ldb), v.advance(b, to, vectors * code.size_bytes)]

        v.loop(b, k, [b.inttoptr(source, v.POINTER), b.inttoptr(panel, v.POINTER)], row)

    return emit


def _copy_row_intrinsic() -> Any:
    """Return the intrinsic ``copy_row(target, source, size_bytes)``."""

    @OfIntegers
    def copy_row(b: Builder, target: Value, source: Value, length: Value) -> None:
        arguments = [v.POINTER, v.POINTER, v.SIZE, v.BIT]
        function = v.declare(b, "llvm.memcpy.p0.p0.i64", v.VOID, arguments)
        pointers = [b.inttoptr(x, v.POINTER) for x in (target, source)]
        b.call(function, [*pointers, length, ir.Constant(v.BIT, 0)])

    return copy_row


def _copy_element_intrinsic(dtype: np.dtype[Any]) -> Any:
    """Return the intrinsic ``copy_element(target, source)``."""
    element = v.element_type(dtype)

    @OfIntegers
    def copy_element(b: Builder, target: Value, source: Value) -> None:
        b.store(b.load(b.inttoptr(source, v.POINTER), typ=element), b.inttoptr(target, v.POINTER))

    return copy_element


def build_gather(key: KernelKey) -> Any:
    """Compile ``gather(rows, columns, source, row_stride, column_stride, target, target_stride)``, strides in bytes.

    ``target[i, j] := source[i, j]`` with contiguous rows in `target`.
    """
    return _build_gather(key.vector_unit, key.itemsize)


@kernel_builder
def _build_gather(unit: VectorUnit, itemsize: int) -> Any:
    """Compile `build_gather` for elements of some bytes: what is copied has no other type."""
    transposes = itemsize in TRANSPOSED_BYTES
    dtype = np.dtype(f"u{itemsize}" if transposes else f"V{itemsize}")
    lanes = unit.lanes(dtype)
    copy_row, copy_element = _copy_row_intrinsic(), _copy_element_intrinsic(dtype)
    # transpose(target, target_stride, source, source_stride), of a block of lanes x lanes
    transpose = OfIntegers(v.calls("transpose", VectorCode(unit, dtype).copy_transposed)) if transposes else None

    def gather(
        rows: int, columns: int, source: int, row_stride: int, column_stride: int, target: int, target_stride: int
    ) -> None:
        """Copy a block."""
        if column_stride == itemsize:
            for i in range(rows):
                copy_row(target + i * target_stride, source + i * row_stride, columns * itemsize)
            return
        if transposes and row_stride == itemsize and min(rows, columns) >= lanes:
            for left in range(0, columns, lanes):
                for top in range(0, rows, lanes):
                    i, j = min(top, rows - lanes), min(left, columns - lanes)  # the last squares overlap others
                    to = target + i * target_stride + j * itemsize
                    transpose(to, target_stride, source + i * itemsize + j * column_stride, column_stride)
            return
        for i in range(rows):
            for j in range(columns):
                to = target + i * target_stride + j * itemsize
                copy_element(to, source + i * row_stride + j * column_stride)

    return translated(gather, given=(unit.name,))
