"""Prefetches of rows of a matrix that are streamed several at a time: the end of a row, then the rows after them.

The processor's own prefetchers stop at the end of a page and of a row, and several rows reach these at the same time.
"""

from __future__ import annotations

from backends.cpu._simd.kernel import INTO_L1
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from harness.operands import CACHE_LINE

AHEAD = 1024  # bytes of a row between a prefetch and the use


class RowStream:
    """The rows that are streamed together, and those after them.

    Parameters
    ----------
    b : Builder
    row_bytes : Value
        Bytes of a row that are used.
    stride : Value
        Bytes from a row to the next one.
    """

    def __init__(self, b: Builder, row_bytes: Value, stride: Value) -> None:
        self._row_bytes, self._stride = row_bytes, stride
        self._ahead = v.smaller(b, row_bytes, v.size(AHEAD))

    def ask(self, b: Builder, starts: list[Value], offset: Value, width: int) -> None:
        """Prefetch `width` bytes of each row, some way behind `offset`: beyond its end, those of a later row."""
        at = b.add(offset, self._ahead)
        beyond = b.add(b.sub(at, self._row_bytes), b.mul(self._stride, v.size(len(starts))))
        at = b.select(b.icmp_signed("<", at, self._row_bytes), at, beyond)
        for start in starts:
            for line in range(0, width, CACHE_LINE):
                v.prefetch(b, v.advance(b, start, b.add(at, v.size(line))), INTO_L1)
