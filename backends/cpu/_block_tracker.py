"""Which block of k each element of a micro-tile last changed in, noted beside C while the micro-kernel runs.

Where (+) selects, a running result only ever changes for the better. So after each block of k the tile in registers is
compared with the tile in memory, which is as it was a block ago: where they differ, the block's number is stored, and
then the tile. One compare and two stores for each element and block, in L1; the terms themselves are not looked at.
"""

from __future__ import annotations

import numpy as np

from backends.cpu import _vector_code as v
from backends.cpu._vector_code import Builder, Value, VectorCode
from backends.cpu._vector_operators import Operations
from backends.cpu._vector_unit import VectorUnit

NO_BLOCK = -1
BLOCK = np.dtype(np.int32)
BLOCK_BYTES = BLOCK.itemsize


class BlockTracker:
    """Emits the code of one micro-tile.

    Parameters
    ----------
    code : VectorCode
    operations : Operations
    rows_of_c, rows_of_block : list of value
        Where the rows of the tile, and of the numbers of blocks, begin.
    edges : list
        By vector: what `VectorCode.edge` returned, or None.
    """

    def __init__(
        self,
        code: VectorCode,
        operations: Operations,
        rows_of_c: list[Value],
        rows_of_block: list[Value],
        edges: list[Value | None],
    ) -> None:
        self._code, self._operations, self._edges = code, operations, edges
        masked = (BLOCK_BYTES,) if code.masks else ()
        self._block_code = VectorCode(VectorUnit("blocks", (), code.lanes * BLOCK_BYTES, 1, 1, masked), BLOCK)
        self._places = [
            (c, block, j) for c, block in zip(rows_of_c, rows_of_block, strict=True) for j in range(len(edges))
        ]

    def begin(self, b: Builder, totals: list[Value], number: Value, accumulate: Value) -> list[Value]:
        """Store the first block's `totals`; if `accumulate` is not 0, combined with what is there. Return the tile."""
        zero, nothing = self._code.constant(self._operations.zero), self._block_code.constant(NO_BLOCK)
        wide = self._wide(b, number)
        with b.if_else(b.icmp_signed("!=", accumulate, v.size(0))) as (combining, storing):
            with combining:
                combined = self._merge(b, totals, wide)
                end_of_combining = b.block
            with storing:
                for total, (c, block, j) in zip(totals, self._places, strict=True):
                    numbers = b.select(self._differs(b, total, zero), wide, nothing)
                    self._block_code.store(b, numbers, self._block(b, block, j), self._edges[j])
                    self._code.store(b, total, self._c(b, c, j), self._edges[j])
                end_of_storing = b.block
        tile = []
        for total, other in zip(totals, combined, strict=True):
            tile.append(b.phi(self._code.vector))
            tile[-1].add_incoming(total, end_of_storing)
            tile[-1].add_incoming(other, end_of_combining)
        return tile

    def note(self, b: Builder, totals: list[Value], number: Value) -> None:
        """Store `totals`, which are no worse than the tile in memory, and `number` where they differ from it."""
        wide = self._wide(b, number)
        for total, (c, block, j) in zip(totals, self._places, strict=True):
            before = self._code.load(b, self._c(b, c, j), self._edges[j])
            self._store(b, total, before, wide, (c, block, j))

    def _merge(self, b: Builder, totals: list[Value], wide: Value) -> list[Value]:
        tile = []
        for total, (c, block, j) in zip(totals, self._places, strict=True):
            before = self._code.load(b, self._c(b, c, j), self._edges[j])
            tile.append(self._operations.combine(self._code, b, before, total))
            self._store(b, tile[-1], before, wide, (c, block, j))
        return tile

    def _store(self, b: Builder, total: Value, before: Value, wide: Value, at: tuple[Value, Value, int]) -> None:
        c, block, j = at
        edge, place = self._edges[j], self._block(b, block, j)
        changed = self._differs(b, total, before)
        if self._block_code.masks:
            self._block_code.store(b, wide, place, changed if edge is None else b.and_(changed, edge))
        else:
            numbers = self._block_code.load(b, place, edge)
            self._block_code.store(b, b.select(changed, wide, numbers), place, edge)
        self._code.store(b, total, self._c(b, c, j), edge)

    def _differs(self, b: Builder, x: Value, y: Value) -> Value:
        return (b.fcmp_unordered if self._code.dtype.kind == "f" else b.icmp_signed)("!=", x, y)

    def _wide(self, b: Builder, number: Value) -> Value:
        return self._block_code.splat(b, b.trunc(number, v.INDEX))

    def _c(self, b: Builder, row: Value, j: int) -> Value:
        return v.advance(b, row, j * self._code.size_bytes)

    def _block(self, b: Builder, row: Value, j: int) -> Value:
        return v.advance(b, row, j * self._block_code.size_bytes)
