"""Rows that begin at multiples of 16 bytes: what wide copies ask for, and the copy of a matrix that has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.gpu._program import Kernel, Matrix, Program, ceil_div
from backends.gpu._raw_kernel import as_defines

_ROW_BYTES = 16
_BLOCK, _BLOCKS = 256, 1 << 16
_ELEMENTS = {2: "unsigned short", 4: "float", 8: "double"}


def is_aligned(x: Matrix, itemsize: int) -> bool:
    """Whether every row of `x` begins at a multiple of 16 bytes."""
    return x.ld * itemsize % _ROW_BYTES == 0 and x.alignment % _ROW_BYTES == 0


def add_padding(program: Program, name: str, x: Matrix, rows: int, columns: int, dtype: np.dtype[Any]) -> Matrix:
    """Add a copy of `x` with aligned rows, zeros at their ends, and return it; or `x` itself if its rows are."""
    if is_aligned(x, dtype.itemsize):
        return x
    width = _ROW_BYTES // dtype.itemsize
    ld = ceil_div(columns, width) * width
    place = program.reserve(name, rows * ld, np.dtype(f"u{dtype.itemsize}"))
    kernel = Kernel("pad_rows", as_defines({"T": _ELEMENTS[dtype.itemsize]}), (_BLOCK,), function="pad_rows")
    program.launch(kernel, min(rows, _BLOCKS), x.place, x.ld, rows, columns, place, rows, ld)
    return Matrix(place, ld)
