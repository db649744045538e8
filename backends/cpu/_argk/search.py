"""The search for the smallest k that attains an element, in the block of k that it is known to come from.

    panel    some columns of B, transposed                                  their rows share L2
    search   for each row i, for each column j of the panel:
             argk := the first p of block[i, j] with a[i, p] (x) b[p, j] == c[i, j]

A row takes three passes over arrays in L1: first index of each block, mask of equal terms (`_argk.matches`), first bit
of the mask. No pass branches on values, so the processor overlaps several elements. Rows of A stream past the panel;
while one is searched, the next is prefetched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir

from backends.cpu._argk.by_terms import build_search_by_terms
from backends.cpu._argk.matches import POSITION, WORD_BITS, chunk_begins, compile_compare, word_of
from backends.cpu._argk.transpose import gather_of
from backends.cpu._compile.pieces import build_run_piece, build_run_pieces
from backends.cpu._ir.call_by_address import address_of
from backends.cpu._ir.functions import compile_functions
from backends.cpu._simd.block_tracker import BLOCK, NO_BLOCK
from backends.cpu._vector import code as v
from backends.cpu._vector.operators import operations
from backends.cpu._vector.scalar import WORD, ScalarCode, call_compiled
from harness.operands import data_address
from harness.semiring import Semiring


@functools.cache
def build_search(semiring: Semiring, dtype: np.dtype[Any], steps: int, is_careful: bool = False) -> Any:
    """Compile ``prepare(a, b, c, block, argk, across, height, panels, missing)``, which returns ``search()``.

    That writes the smallest k in its block, for whatever the arrays hold when it is called.

    a : (m, k) array
        Rows contiguous, k >= steps.
    b : (k', n) array
        Of any strides, k' <= k; columns of A beyond k' hold no terms.
    c, block, argk : (m, n) array
        C-contiguous, `block` of int8, `argk` of int32. Where the number of a block is -1, so is argk.
    across, height : int
        Parts that share the columns of C; parts / across share its rows. Rows of C that pass a panel.
    panels : (parts, width, length) array
        Work memory for columns of B, length >= k.
    missing : (parts,) array of int64
        Becomes 1 where an element is attained by no term of its block.
    """
    if not searches_by_vectors(semiring, dtype):
        return build_search_by_terms(semiring, dtype, steps)
    word, compare = word_of(steps), compile_compare(semiring, dtype, steps, is_careful)
    search_part, chunks = compile_search_part(word), len(chunk_begins(steps))
    gather = address_of(gather_of(dtype))

    def prepare(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, argk: np.ndarray, across: int, height: int,
        panels: np.ndarray, missing: np.ndarray,
    ) -> Callable[[], None]:  # fmt: skip
        (m, n), (parts, width, _), down = c.shape, panels.shape, len(panels) // across
        starts, masks = np.empty((parts, width), POSITION), np.empty((parts, chunks, width), word)
        same = {
            "k": a.shape[1], "k_of_b": len(b), "rs_a": a.strides[0], "rs_b": b.strides[0], "cs_b": b.strides[1],
            "rs_c": c.strides[0], "rs_block": block.strides[0], "rs_argk": argk.strides[0],
            "rs_panel": panels.strides[1], "rs_masks": masks.strides[1], "height": height, "width": width,
            "itemsize": dtype.itemsize, "steps": steps, "chunks": chunks, "compare": compare, "gather": gather,
        }  # fmt: skip

        def words(part: int) -> list[int]:
            i, j = divmod(part, across)
            top, bottom, left, right = m * i // down, m * (i + 1) // down, n * j // across, n * (j + 1) // across
            own = {
                "rows": bottom - top, "columns": right - left, "a": _address(a, top), "b": _address(b, 0, left),
                "c": _address(c, top, left), "block": _address(block, top, left), "argk": _address(argk, top, left),
                "panel": _address(panels, part), "starts": _address(starts, part), "masks": _address(masks, part),
                "missing": _address(missing, part),
            }  # fmt: skip
            return [(same | own)[name] for name in PART]

        table = np.array([words(part) for part in range(parts)], np.int64)
        run_of, number = (build_run_pieces, parts) if parts > 1 else (build_run_piece, 0)
        run = functools.partial(run_of(), search_part, data_address(table), number)
        run.refers_to = table, a, b, c, block, argk, panels, missing, starts, masks  # type: ignore[attr-defined] # by address
        return run

    return prepare


def _address(x: np.ndarray, *index: int) -> int:
    """Return the address of an element, or of the first one of a row."""
    address: int = data_address(x)
    return address + sum(i * stride for i, stride in zip(index, x.strides, strict=False))


def searches_by_vectors(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether there is vector code of (x), and it can run."""
    return not numba.config.DISABLE_JIT and operations(semiring, dtype) is not None


# The words of a part of C: sizes of C, A and B; addresses and strides in bytes; and what `build_search` says.
PART = """
    rows columns k k_of_b a rs_a b rs_b cs_b c rs_c block rs_block argk rs_argk
    height width itemsize steps chunks compare gather panel starts masks missing rs_panel rs_masks
""".split()


@functools.cache
def compile_search_part(word: np.dtype[Any]) -> int:
    """Compile ``search_part(table, part)``, by the words of that row: panel by panel, row by row. Return its address.

    The same for every semiring and dtype: `gather` and `compare` are addresses of functions. Where an element is
    attained by no term of its block, the word at `missing` becomes 1.
    """

    def emit(module: ir.Module) -> list[ir.Function]:
        function = v.own_function(module, "search_part", [v.SIZE] * 2, functools.partial(_emit_search_part, word))
        v.prefer_widest_vectors(function)
        return [function]

    (address,) = compile_functions("search_part", (word.name,), emit, unrolls=True)
    return address


def _emit_search_part(word: np.dtype[Any], b: v.Builder, table: v.Value, part: v.Value) -> None:
    code = ScalarCode(b)
    w = code.words(code.at(table, (part, WORD * len(PART))), PART)
    of_rows = _Rows(b, w, word)

    def rows_by_panel(upper: v.Value, height: v.Value, left: v.Value, count: v.Value) -> None:
        call_compiled(b, w.gather, (count, w.k_of_b, code.at(w.b, (left, w.cs_b)), w.cs_b, w.rs_b, w.panel, w.rs_panel))
        last = b.sub(height, v.size(1))

        def row(i: v.Value) -> None:
            following = v.smaller(b, b.add(i, v.size(1)), last)
            of_rows.search(b.add(upper, i), b.add(upper, following), left, count)

        code.for_each(height, (), row)

    def panels(upper: v.Value, height: v.Value) -> None:
        code.for_blocks(w.columns, w.width, functools.partial(rows_by_panel, upper, height))

    code.for_blocks(w.rows, w.height, panels)


class _Rows(ScalarCode):
    """Emitter of the search of a row; `words` are those of the part. Integers are of 32 bits, for the lanes of vectors.

    All of it are loops over the elements of a row, which LLVM vectorises.
    """

    def __init__(self, b: v.Builder, words: Any, word: np.dtype[Any]) -> None:
        super().__init__(b)
        self._words, self._mask = words, v.element_type(word)
        self._step, self._size = b.trunc(words.steps, v.INDEX), b.trunc(words.itemsize, v.INDEX)
        self._latest = b.trunc(b.sub(words.k, words.steps), v.INDEX)

    def search(self, i: v.Value, ahead: v.Value, left: v.Value, count: v.Value) -> None:
        """Search row `i` of a panel; meanwhile row `ahead` is prefetched."""
        b, w = self.b, self._words
        of_c, of_argk, of_block = rows = (
            (w.c, w.rs_c, w.itemsize), (w.argk, w.rs_argk, POSITION.itemsize), (w.block, w.rs_block, BLOCK.itemsize),
        )  # fmt: skip

        def place(of: tuple[v.Value, v.Value, v.Value | int], row: v.Value) -> v.Value:
            address, stride, step = of
            return self.at(address, (row, stride), (left, step))

        which, nearest = (self.pointer(place(of, i)) for of in (of_block, of_argk))
        self._write_starts(count, which)
        kind = ir.FunctionType(v.VOID, [v.SIZE] * 13).as_pointer()
        b.call(b.inttoptr(w.compare, kind), [
            count, self.at(w.a, (i, w.rs_a)), w.panel, w.rs_panel, place(of_c, i), w.starts, w.masks, w.rs_masks,
            self.at(w.a, (ahead, w.rs_a)), b.mul(w.k, w.itemsize), *(place(of, ahead) for of in rows),
        ])  # fmt: skip
        self._find_nearest(count, v.size(0), nearest, self._step)
        more = b.sub(w.chunks, v.size(1))
        self.for_each(more, (), lambda chunk: self._find_nearest(count, b.add(chunk, v.size(1)), nearest))
        furthest = self._write_places(count, which, nearest)
        with b.if_then(b.icmp_signed("==", furthest, self._step)):
            b.store(v.size(1), self.pointer(w.missing))

    def _write_starts(self, count: v.Value, which: v.Value) -> None:
        """Write where the block of each element begins, in bytes."""
        starts = self.pointer(self._words.starts)

        def one(j: v.Value) -> None:
            begin = self._begin(self._number(which, j))
            self.b.store(self.b.mul(begin, self._size), self._element(starts, j))

        self.for_each(count, (), one)

    def _find_nearest(self, count: v.Value, chunk: v.Value, nearest: v.Value, nowhere: v.Value | None = None) -> None:
        """Write the first term that is equal, if the chunk has one; else `nowhere`, or what a later chunk has."""
        b, w = self.b, self._words
        equal = self.pointer(self.at(w.masks, (chunk, w.rs_masks)))
        later = b.mul(b.sub(b.sub(w.chunks, v.size(1)), chunk), v.size(WORD_BITS))  # the last of a block first
        latest = b.sub(w.steps, v.size(WORD_BITS))
        begin = b.trunc(_greater(b, v.smaller(b, later, latest), v.size(0)), v.INDEX)
        count_zeros = v.declare(b, f"llvm.cttz.i{self._mask.width}", self._mask, [self._mask, v.BIT])

        def one(j: v.Value) -> None:
            bits = b.load(b.gep(equal, [j], source_etype=self._mask), typ=self._mask)
            before = b.load(self._element(nearest, j), typ=v.INDEX) if nowhere is None else nowhere
            position = _in_32_bits(b, b.call(count_zeros, [bits, ir.Constant(v.BIT, 0)]))
            has_one = b.icmp_signed("!=", bits, ir.Constant(self._mask, 0))
            b.store(b.select(has_one, b.add(begin, position), before), self._element(nearest, j))

        self.for_each(count, (), one)

    def _write_places(self, count: v.Value, which: v.Value, nearest: v.Value) -> v.Value:
        """Write the k of each element; return the greatest position in a block, which is `steps` if one was missing."""
        b, nothing = self.b, v.index(0)

        def one(j: v.Value, furthest: v.Value) -> list[v.Value]:
            number, place = self._number(which, j), self._element(nearest, j)
            position, is_any = b.load(place, typ=v.INDEX), b.icmp_signed(">=", number, nothing)
            looked = b.select(is_any, position, nothing)
            b.store(b.select(is_any, b.add(self._begin(number), position), v.index(NO_BLOCK)), place)
            return [_greater(b, looked, furthest)]

        (furthest,) = self.for_each(count, [nothing], one)
        return furthest

    def _number(self, which: v.Value, j: v.Value) -> v.Value:
        """Return the number of the block that element j comes from."""
        return self.b.sext(self.b.load(self.b.gep(which, [j], source_etype=v.BYTE), typ=v.BYTE), v.INDEX)

    def _begin(self, number: v.Value) -> v.Value:
        """Return the first term of a block; 0 for no block."""
        return _greater(self.b, v.smaller(self.b, self.b.mul(number, self._step), self._latest), v.index(0))

    def _element(self, row: v.Value, j: v.Value) -> v.Value:
        return self.b.gep(row, [j], source_etype=v.INDEX)


def _greater(b: v.Builder, x: v.Value, y: v.Value) -> v.Value:
    return b.select(b.icmp_signed(">", x, y), x, y)


def _in_32_bits(b: v.Builder, x: v.Value) -> v.Value:
    if x.type.width == v.INDEX.width:
        return x
    return (b.trunc if x.type.width > v.INDEX.width else b.zext)(x, v.INDEX)
