"""Slabs of what threads share: pieces of panels of B, and of rows of A that are copied, which one thread packs at once.

table of slabs    a row each, in groups: panels of a group of columns, or rows of a strip of parts
pack_slab         compiled: pack one row of the table
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.cpu._ir.call_by_address import call
from backends.cpu._simd.argument_table import Shape
from backends.cpu._simd.macro_kernel import even_split, part_of
from backends.cpu._vector.intrinsics import words_at

_SLAB = 16  # rows that are packed together: of B through all panels of a group, whole squares of registers

# A row of the table: whether it is of A; its sizes; offset and strides of the source; offset of the target; for panels
# rows of the block of k, and rows of it above the slab; for a copy of A the distance of its rows.
_OF_A, _ROWS, _COLUMNS, _SOURCE, _ROW_STRIDE, _COLUMN_STRIDE, _TARGET, _BLOCK_ROWS, _ABOVE, _LDA = range(10)
_WORDS, SLAB_BYTES = 10, 80


_slab_at = words_at(_WORDS)


class Columns(NamedTuple):
    """A group of columns: the first, the one after the last, where its panels begin, and bytes of a row of k there."""

    first: int
    last: int
    begin: int
    row_bytes: int


def slabs_of_b(groups: list[Columns], shape: Shape, kc: int) -> tuple[list[np.ndarray], int]:
    """Return the slabs of each group of columns, and the bytes of all panels."""
    block, above = np.divmod(np.arange(0, shape.k), kc)
    first = np.flatnonzero(above % _SLAB == 0)
    in_block = np.minimum(kc, shape.k - block[first] * kc)
    tables = []
    for group in groups:
        table = np.zeros((first.size, _WORDS), np.int64)
        table[:, _ROWS] = np.minimum(_SLAB, in_block - above[first])
        table[:, _COLUMNS] = group.last - group.first
        table[:, _SOURCE] = first * shape.strides_b[0] + group.first * shape.strides_b[1]
        table[:, _ROW_STRIDE], table[:, _COLUMN_STRIDE] = shape.strides_b
        table[:, _TARGET] = group.begin + block[first] * kc * group.row_bytes
        table[:, _BLOCK_ROWS], table[:, _ABOVE] = in_block, above[first]
        tables.append(table)
    return tables, groups[-1].begin + groups[-1].row_bytes * shape.k


def slabs_of_a(strips: list[tuple[int, int]], shape: Shape, begin: int, lda: int) -> list[np.ndarray]:
    """Return the slabs of each strip of rows of A, whose copy begins at `begin` and has rows `lda` bytes apart."""
    tables = []
    for i, end in strips:
        first = np.arange(i, end, _SLAB)
        table = np.zeros((first.size, _WORDS), np.int64)
        table[:, _OF_A], table[:, _ROWS], table[:, _COLUMNS] = 1, np.minimum(_SLAB, end - first), shape.k
        table[:, _SOURCE] = first * shape.strides_a[0]
        table[:, _ROW_STRIDE], table[:, _COLUMN_STRIDE] = shape.strides_a
        table[:, _TARGET], table[:, _LDA] = begin + first * lda, lda
        tables.append(table)
    return tables


def pack_slab(slab: int, gather: int, lanes: int, nv: int, itemsize: int, a: int, b: int, target: int) -> None:
    """Pack the row of the table at an address, from A or B to the memory at `target`, by the code at `gather`."""
    is_of_a, rows, columns, begin, rs, cs, place, k_cur, above, lda = _slab_at(slab)
    source, to = (a if is_of_a else b) + begin, target + place
    if lda:
        call(gather, (rows, columns, source, rs, cs, to, lda))
        return
    split = even_split((columns + lanes - 1) // lanes, nv)
    for jp in range(split[0]):
        first, vectors = part_of(split, jp)
        j, ldb = first * lanes, vectors * lanes * itemsize
        panel = to + j * itemsize * k_cur + above * ldb
        call(gather, (rows, min(vectors * lanes, columns - j), source + j * cs, rs, cs, panel, ldb))
