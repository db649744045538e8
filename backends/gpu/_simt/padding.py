"""Rows that begin at multiples of 16 bytes: what wide loads ask for, and copies of matrices that have them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._simt.program import Kernel, Matrix, Program, ceil_div

_ROW_BYTES = 16
# Copies have rows of whole lines: 4097 bfloat16 of 4104 apart are multiplied a quarter slower than 4224, on an H200.
LINE_BYTES = 128
_THREADS, _ROWS, _MOST_BLOCKS = 128, 4, 1 << 16  # the first two as in pad_rows.cu
_ELEMENTS = {2: "unsigned short", 4: "float", 8: "double"}


class Extent(NamedTuple):
    """A matrix and how much of it there is.

    Attributes
    ----------
    matrix : Matrix
    rows, columns : int
    """

    matrix: Matrix
    rows: int
    columns: int


def is_aligned(x: Matrix, itemsize: int) -> bool:
    """Whether every row of `x` begins at a multiple of 16 bytes."""
    return x.ld * itemsize % _ROW_BYTES == 0 and x.alignment % _ROW_BYTES == 0


def add_padding(program: Program, a: Extent, b: Extent, dtype: np.dtype[Any]) -> tuple[Matrix, Matrix]:
    """Return A and B with aligned rows: themselves where they have them, else copies, in one launch."""
    line = LINE_BYTES // dtype.itemsize
    result, copies = [], []
    for name, x in (("padded_a", a), ("padded_b", b)):
        if is_aligned(x.matrix, dtype.itemsize):
            result.append(x.matrix)
            continue
        ld = ceil_div(x.columns, line) * line
        place = program.reserve(name, x.rows * ld, np.dtype(f"u{dtype.itemsize}"))
        copies.append((x, place, ld))
        result.append(Matrix(place, ld))
    if copies:
        blocks = min(max(ceil_div(x.rows, _ROWS) for x, _, _ in copies), _MOST_BLOCKS)
        arguments: list[Any] = []
        for x, place, ld in (copies[0], copies[-1]):
            arguments += [x.matrix.place, x.matrix.ld, x.rows, x.columns, place, ld]
        kernel = Kernel("pad_rows", as_defines({"T": _ELEMENTS[dtype.itemsize]}), (_THREADS,), function="pad_rows")
        program.launch(kernel, (blocks, len(copies)), *arguments)
    return result[0], result[1]
