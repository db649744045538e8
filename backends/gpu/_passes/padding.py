"""Alignment of rows to 16 bytes, which wide loads need, and copies of matrices with aligned rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div, largest_power

WIDE = 16  # bytes of the widest load
_NARROWEST = 4  # bytes of an asynchronous copy
# Rows of copies are whole lines: on an H200, 4097 bfloat16 at a distance of 4104 multiply 1/4 slower than at 4224.
LINE_BYTES = 128
_THREADS, _ROWS, _MOST_BLOCKS = 128, 4, 1 << 16  # the first two as in pad_rows.cu
_ELEMENTS = {2: "unsigned short", 4: "float", 8: "double"}


def is_aligned(x: Matrix, itemsize: int) -> bool:
    """Return whether every row of `x`, or column if it lies so, begins at a multiple of 16 bytes."""
    return x.ld * itemsize % WIDE == 0 and x.alignment % WIDE == 0


def width_of_loads(matrix: Matrix, itemsize: int, most_bytes: int = WIDE) -> int:
    """Return the number of elements of a row that one load may take: `most_bytes` of them if aligned, else one.

    More than 16 bytes take several instructions, and rows of whole such loads. Rows of a window of a wider matrix may
    end within such a load: nothing need follow the last one, so loads are then narrower.
    """
    if not is_aligned(matrix, itemsize):
        return 1
    width = max(most_bytes // itemsize, 1)
    width = largest_power(matrix.line or matrix.ld, width if matrix.ld % width == 0 else WIDE // itemsize)
    return width if width * itemsize >= _NARROWEST else 1


def add_padding(program: Program, product: Product, dtype: np.dtype[Any]) -> Product:
    """Return the product of A and B with aligned rows, or columns where they lie so: copied, in one launch, if not."""
    line, sizes = LINE_BYTES // dtype.itemsize, {"a": (product.m, product.k), "b": (product.k, product.n)}
    copies, arguments, blocks = {}, [], 1
    for name, size in sizes.items():
        x = getattr(product, name)
        if not is_aligned(x, dtype.itemsize):
            rows, columns = reversed(size) if x.by_columns else size  # as they lie
            ld = ceil_div(columns, line) * line
            position = program.reserve(f"padded_{name}", rows * ld, np.dtype(f"u{dtype.itemsize}"))
            copies[name] = Matrix(position, ld, by_columns=x.by_columns)
            arguments.append((x.place, x.ld, rows, columns, position, ld))
            blocks = max(blocks, _blocks(rows, ld * dtype.itemsize // WIDE))
    if copies:
        kernel = Kernel("pad_rows", as_defines({"T": _ELEMENTS[dtype.itemsize]}), (_THREADS,), function="pad_rows")
        program.launch(kernel, (blocks, len(copies)), *arguments[0], *arguments[-1])
    return product._replace(**copies)


def _blocks(rows: int, vectors: int) -> int:
    """Return how many blocks copy so many rows of `vectors` loads each: short rows share the threads of a block."""
    across = min(_THREADS, 1 << (vectors - 1).bit_length())
    return min(ceil_div(rows, _ROWS * (_THREADS // across)), _MOST_BLOCKS)
