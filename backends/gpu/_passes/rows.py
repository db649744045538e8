"""Operands as a kernel reads them: row by row where they lie by columns, and wider where no kernel reads them so."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import LINE_BYTES
from backends.gpu._program.operators import TYPES, unsigned
from backends.gpu._program.program import Kernel, Matrix, Program, ceil_div
from harness.dtypes import dtype_name
from harness.problem import Problem

# As in rows.cu: threads of a block, and the side of a tile by whether elements have 4 bytes or more. Blocks enough for
# any GPU.
_THREADS, _SIDES, _MOST_BLOCKS = 256, {False: 64, True: 32}, 1 << 14


# Dtypes of operands that a pass can widen first, and what they become.
_WIDER = {
    "float32": np.dtype(np.float64),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), np.dtype(np.float16)),
}


def widened(problem: Problem) -> Problem:
    """Return the product of operands that have been widened: itself, if no pass can do that."""
    wider = _WIDER.get(dtype_name(problem.input_dtype)) if problem.is_mixed else None
    return problem if wider is None else dataclasses.replace(problem, operand_dtype=wider)


def add_rows(
    program: Program,
    problem: Problem,
    a: Matrix,
    b: Matrix,
    dtype: np.dtype[Any] | None = None,
    *,
    reads: frozenset[str] = frozenset(),
) -> list[Matrix]:
    """Return A and B by rows: as they are, or copied by one launch where they lie by columns.

    Parameters
    ----------
    program : Program
    problem : Problem
        One product, no batch.
    a, b : Matrix
    dtype : numpy dtype, optional
        Copy both as elements of this type. None: as they are.
    reads : set of str
        Which of "a" and "b" stay by columns.
    """
    narrow = problem.input_dtype
    wide = dtype or narrow
    sizes = {"a": (a, problem.m, problem.k), "b": (b, problem.k, problem.n)}
    result, arguments, tiles = [], [], 1
    for name, (x, rows, columns) in sizes.items():
        if dtype is None and (not x.by_columns or name in reads):
            result.append(x)
            continue
        line = LINE_BYTES // wide.itemsize
        ld = ceil_div(columns, line) * line
        place = program.reserve(f"rows_of_{name}", rows * ld, wide if dtype else np.dtype(f"u{wide.itemsize}"))
        result.append(Matrix(place, ld))
        arguments.append((x.place, x.ld, rows, columns, int(x.by_columns), place, ld))
        side = _SIDES[narrow.itemsize >= 4]
        tiles = max(tiles, ceil_div(rows, side) * ceil_div(ld, side))
    if arguments:
        types = {"FROM": narrow, "TO": wide}
        macros = {name: TYPES[x.name] if dtype else unsigned(x.itemsize) for name, x in types.items()}
        kernel = Kernel("rows", as_defines(macros), (_THREADS,), function="rows")
        program.launch(kernel, (min(tiles, _MOST_BLOCKS), len(arguments)), *arguments[0], *arguments[-1])
    return result
