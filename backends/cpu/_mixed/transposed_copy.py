"""Copy of a matrix with contiguous columns into one with contiguous rows: square blocks, transposed in registers.

    for blocks of 64 x 64 elements:          the lines of source and copy stay in L1
        for squares of one vector a side:    log2 rounds of interleaving (`VectorCode.transpose`)

Rows and columns beyond the last whole square are copied element by element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from backends.cpu._compile.jit import jit
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import size_intrinsic
from backends.cpu._vector.unit import UNITS
from backends.cpu._vector.vectors import VectorCode

BLOCK = 64


def prepare_transposed_copy(target: np.ndarray, source: np.ndarray) -> Callable[[], None]:
    """Return ``copy()``, which copies `source` to `target`; both (m, n), of 1 or 2 bytes an element.

    Columns of `source` are contiguous, and rows of `target`; both must outlive the copies.
    """
    layouts = source.ctypes.data, source.strides[1], target.ctypes.data, target.strides[0]
    return functools.partial(build_transposed_copy(source.itemsize), *source.shape, *layouts)


@functools.cache
def build_transposed_copy(size: int) -> Any:
    """Compile ``copy(rows, columns, source, column_stride, target, row_stride)`` for elements of `size` bytes."""
    code = VectorCode(UNITS[-1], np.dtype(f"u{size}"))
    square = size_intrinsic(4, lambda b, layouts: code.copy_transposed(b, *layouts))
    element, lanes = _element_intrinsic(code), code.lanes

    def copy(rows: int, columns: int, source: int, column_stride: int, target: int, row_stride: int) -> None:
        whole_rows, whole_columns = rows - rows % lanes, columns - columns % lanes
        for i_block in range(0, whole_rows, BLOCK):
            for j_block in range(0, whole_columns, BLOCK):
                for i in range(i_block, min(i_block + BLOCK, whole_rows), lanes):
                    for j in range(j_block, min(j_block + BLOCK, whole_columns), lanes):
                        begin, end = source + i * size + j * column_stride, target + i * row_stride + j * size
                        square((end, row_stride, begin, column_stride))
        for i in range(rows):
            for j in range(0 if i >= whole_rows else whole_columns, columns):
                element((source + i * size + j * column_stride, target + i * row_stride + j * size))

    return jit(None, *[types.intp] * 6, parallel=False)(copy)


def _element_intrinsic(code: VectorCode) -> Any:
    """Return the intrinsic ``element((source, target))``."""

    def emit(b: Builder, values: list[Value]) -> None:
        begin, end = (b.inttoptr(value, v.POINTER) for value in values)
        b.store(b.load(begin, typ=code.element, align=1), end, align=1)

    return size_intrinsic(2, emit)
