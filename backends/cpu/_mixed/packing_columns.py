"""Packing into words from an operand that lies by columns: square blocks of words, transposed in registers.

    B: words along a column are neighbours along k already; `lanes` columns of them, transposed, are rows of a panel
    A: rows of words are joined, as those of a B by rows are, and transposed into the rows of a strip

Both read *runs*, which are contiguous columns: so many of them and so long a piece of each as make a square of words.
A square that the operand does not fill is first gathered among zeros. What is packed is what `_mixed.packing` makes of
the same operand by rows, so the sums are the same too.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from backends.cpu._mixed.methods import ONE_IN_BYTES, SIGN_OF_BYTES, Dot, MixedKey, widen
from backends.cpu._mixed.packing import SHIFT_BITS, element_bytes, elements_of, join, vector_of_words
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import Emit
from backends.cpu._vector.scalar import ScalarCode


def emit_pack_a_columns(key: MixedKey) -> Emit:
    """Return the emitter of ``pack_a(rows, k, a, distance, target, target_stride, vector_stride)``.

    As `packing.emit_pack_a`; `distance` is that of columns of A.
    """

    def emit(
        b: Builder, rows: Value, k: Value, a: Value, distance: Value, target: Value, stride: Value, further: Value
    ) -> None:
        squares = _Squares(b, key, is_of_a=True)
        squares.pack(_Runs(k, rows, a, distance), b.inttoptr(target, v.POINTER), stride, further)

    return emit


def emit_pack_b_columns(key: MixedKey) -> Emit:
    """Return the emitter of ``pack_b(k, b, distance, panel, columns, ldb)``.

    As `packing.emit_pack_b`; `distance` is that of columns of B, of which `columns` exist. Rows of the panel, of whole
    vectors, are `ldb` apart.
    """

    def emit(b: Builder, k: Value, source: Value, distance: Value, panel: Value, columns: Value, ldb: Value) -> None:
        squares, sums = _Squares(b, key, is_of_a=False), b.inttoptr(panel, v.POINTER)
        words = v.advance(b, sums, ldb) if key.method.is_shifted else sums
        further = v.size(squares.code.size_bytes)
        squares.pack(_Runs(columns, k, source, distance), words, ldb, further, sums if key.method.is_shifted else None)

    return emit


class _Runs(NamedTuple):
    """Contiguous columns of an operand: their number, elements in each, address of the first, and their distance."""

    count: Value
    length: Value
    source: Value
    distance: Value


class _Squares(ScalarCode):
    """Emitter of one operand's squares of words: `runs` times `length` elements, which become `lanes` rows of words."""

    def __init__(self, b: Builder, key: MixedKey, *, is_of_a: bool) -> None:
        super().__init__(b)
        self._key, self._is_of_a, self.code = key, is_of_a, key.kernel.code()
        lanes, group = self.code.lanes, key.method.group
        self._runs, self._length = (lanes * group, lanes) if is_of_a else (lanes, lanes * group)
        self._elements = elements_of(key, self._length)
        sizes = self._runs * self._elements.size_bytes, lanes * self.code.size_bytes
        self._gathered, self._made = (self._room(size_bytes) for size_bytes in sizes)

    def _room(self, size_bytes: int) -> Value:
        """Return the address of memory of the function's own."""
        room = self.b.alloca(ir.ArrayType(v.BYTE, size_bytes))
        room.align = self.code.size_bytes
        return self.b.inttoptr(self.b.ptrtoint(room, v.SIZE), v.POINTER)

    def pack(self, runs: _Runs, target: Value, stride: Value, further: Value, sums: Value | None = None) -> None:
        """Pack all runs: rows `stride` apart from `target` on, the words of the next runs `further` from the first.

        If there is an address `sums`, -128 times the sums of columns of the operand are stored from there on.
        """
        b = self.b

        def some(step: Value) -> None:
            first, count = self.block(step, runs.count, self._runs)
            begin = b.inttoptr(self.at(runs.source, (first, runs.distance)), v.POINTER)
            to = v.advance(b, target, b.mul(step, further))

            def square(number: Value, *totals: Value) -> list[Value]:
                done, left = self.block(number, runs.length, self._length)
                source = v.advance(b, begin, b.mul(done, v.size(element_bytes(self._key))))
                rows = b.mul(number, v.size(self.code.lanes))
                return self._pack_square(count, left, source, runs.distance, v.advance(b, to, b.mul(rows, stride)),
                                         stride, totals)  # fmt: skip

            totals = [self.code.constant(0)] if sums is not None else []
            totals = self.for_each(self.parts(runs.length, self._length), totals, square)
            for total in totals:
                correction = b.neg(b.shl(total, self.code.constant(SHIFT_BITS)))
                b.store(correction, v.advance(b, sums, b.mul(step, v.size(self.code.size_bytes))), align=1)

        self.for_each(self.parts(runs.count, self._runs), (), some)

    def _pack_square(
        self, count: Value, left: Value, source: Value, distance: Value, target: Value, stride: Value,
        totals: tuple[Value, ...],
    ) -> list[Value]:  # fmt: skip
        """Emit one square, of which `count` runs of `left` elements exist; return the sums with its words added."""
        b, lanes, size = self.b, self.code.lanes, self.code.size_bytes
        is_partial = b.or_(self.is_not(count, self._runs), self.is_not(left, self._length))
        with b.if_then(is_partial):
            self._gather(count, left, source, distance)
        from_ = b.select(is_partial, self._gathered, source)
        rows = self.parts(left, self._length // lanes)
        has_edge = self.is_not(rows, lanes)
        to, apart = b.select(has_edge, self._made, target), b.select(has_edge, v.size(size), stride)
        made = self._rows(from_, b.select(is_partial, v.size(self._elements.size_bytes), distance))
        for i, row in enumerate(made):
            b.store(row, v.advance(b, to, b.mul(apart, v.size(i))), align=1)
        with b.if_then(has_edge):

            def copy(state: list[Value]) -> list[Value]:
                b.store(b.load(state[0], typ=vector_of_words(self.code), align=1), state[1], align=1)
                return [v.advance(b, state[0], size), v.advance(b, state[1], stride)]

            v.loop(b, rows, [self._made, target], copy)
        dot = Dot("plus", self._key.method.dot, 0)
        for row in made if totals else ():
            totals = (dot.extend(self.code, b, totals[0], self.code.constant(ONE_IN_BYTES), row),)
        return list(totals)

    def _rows(self, source: Value, distance: Value) -> list[Value]:
        """Return the rows of words that a whole square becomes."""
        b, key = self.b, self._key
        places = [v.advance(b, source, b.mul(distance, v.size(i))) for i in range(self._runs)]
        parts = [widen(key.method, b, self._elements.load(b, place)) for place in places]
        words = vector_of_words(self.code)
        if self._is_of_a:
            joined = [join(b, parts[i : i + key.method.group]) for i in range(0, self._runs, key.method.group)]
        else:
            joined = [b.bitcast(part, words) for part in parts]
        rows = self.code.transpose(b, joined)
        if self._is_of_a and key.method.is_shifted:
            return [b.xor(row, ir.Constant(words, [SIGN_OF_BYTES] * self.code.lanes)) for row in rows]
        return rows

    def _gather(self, count: Value, left: Value, source: Value, distance: Value) -> None:
        """Copy what exists of a square to where it stands among zeros."""
        b, elements = self.b, self._elements
        edge, further = elements.edge(b, left), elements.size_bytes

        def clear(state: list[Value]) -> list[Value]:
            b.store(v.zeros(elements.vector), state[0], align=1)
            return [v.advance(b, state[0], further)]

        def run(state: list[Value]) -> list[Value]:
            b.store(elements.load(b, state[0], edge), state[1], align=1)
            return [v.advance(b, state[0], distance), v.advance(b, state[1], further)]

        v.loop(b, v.size(self._runs), [self._gathered], clear)
        v.loop(b, count, [source, self._gathered], run)
