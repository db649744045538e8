"""A part of a product: the one argument of all compiled loops, by names, and its type for Numba.

A table of parts is a table of their fields, in this order. All are integers of the width of an address.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import types

NO_DIAGONAL = -(1 << 62)  # the diagonal, if all of C counts
PANELS_AT_B = 2  # a `packs_b`: the panels of all blocks of k lie at b, one block behind the other


class Part(NamedTuple):
    """``c := [c (+)] a (x) b``: sizes in elements, strides in bytes, and choices of the loops.

    Attributes
    ----------
    m, n, k : int
    a, rs_a, cs_a, b, rs_b, cs_b, c, rs_c : int
        Addresses, in a table offsets from those of the operands, and strides from row to row and column to column.
        Rows of c are contiguous.
    accumulate : int
        Whether c is added to.
    block, rs_block : int
        Where the number of a block of k is noted for each element of c, for kernels that track them.
    mc, nc, kc : int
        Cache blocks.
    packs_a, packs_b : int
        Whether a block of A, and micro-panels of B, are copied first; `PANELS_AT_B`.
    packed_a, packed_b : int
        Addresses of the copies, in a table offsets in scratch.
    diagonal : int
        Only c[i, j] with ``j + diagonal <= i`` are computed; `NO_DIAGONAL`.
    kernel : int
        Address of the table of the kernel, in whose words and functions all loops differ from one kernel to the next.
    """

    m: int
    n: int
    k: int
    a: int = 0
    rs_a: int = 0
    cs_a: int = 0
    b: int = 0
    rs_b: int = 0
    cs_b: int = 0
    c: int = 0
    rs_c: int = 0
    accumulate: int = 0
    block: int = 0
    rs_block: int = 0
    mc: int = 0
    nc: int = 0
    kc: int = 0
    packs_a: int = 0
    packs_b: int = 0
    packed_a: int = 0
    packed_b: int = 0
    diagonal: int = NO_DIAGONAL
    kernel: int = 0

    def cut(self, m: int, n: int, a: int, b: int, c: int, block: int, diagonal: int) -> Part:
        """Return a part of this one with these fields; `_replace` takes twice as long."""
        until_c = m, n, self.k, a, *self[4:6], b, *self[7:9], c
        return Part(*until_c, *self[10:12], block, *self[13:21], diagonal, self.kernel)


PART = types.NamedUniTuple(types.intp, len(Part._fields), Part)
