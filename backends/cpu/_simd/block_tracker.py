"""Tracker of the block of k in which each element of a micro-tile last changed, while the micro-kernel runs.

Where (+) selects, a running result only ever improves. So after each block of k the tile in registers is compared with
its copy from the block before. Where they differ, the block's number is stored and the copy is updated. Copy and
numbers lie on the stack: 2 KiB that stay in L1, aligned, whatever C is. A number is one byte, so that one masked store
writes those of several vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._simd.prefetch import Prefetch
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.unit import VectorUnit
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import is_float

NO_BLOCK = -1
BLOCK = np.dtype(np.int8)
BLOCK_BYTES = BLOCK.itemsize


class BlockTracker:
    """Emitter of the code that tracks one micro-tile.

    Parameters
    ----------
    b : Builder
        At the beginning of the micro-kernel.
    unit : VectorUnit
    dtype : numpy dtype
    operations : Operations
    rows, vectors : int
        Extent of the tile.
    """

    def __init__(
        self, b: Builder, unit: VectorUnit, dtype: np.dtype[Any], operations: Operations, rows: int, vectors: int
    ) -> None:
        self._operations, self._rows, self._vectors = operations, rows, vectors
        self._code, self._numbers_code = VectorCode(unit, dtype), VectorCode(unit, BLOCK)
        code, numbers = self._code, self._numbers_code
        zero, nothing = code.constant(operations.zero), numbers.constant(NO_BLOCK)
        self._tile = _on_stack(b, zero, rows * vectors, code)
        self._numbers = _on_stack(b, nothing, -(-rows * vectors // dtype.itemsize), numbers)

    def note(self, b: Builder, totals: list[Value], number: Value) -> None:
        """Note `number` where `totals` differ from the tile's copy."""
        code, together = self._code, self._code.dtype.itemsize
        wide = self._numbers_code.splat(b, b.trunc(number, v.BYTE))
        for first in range(0, len(totals), together):
            masks = []
            for i in range(first, min(first + together, len(totals))):
                address = v.advance(b, self._tile, i * code.size_bytes)
                masks.append(_differs(b, code, totals[i], code.load(b, address)))
                code.store(b, totals[i], address)
            masks += [ir.Constant(masks[0].type, None)] * (together - len(masks))
            address = v.advance(b, self._numbers, first * code.lanes)
            self._store_numbers(b, wide, address, _side_by_side(b, masks))

    def _store_numbers(self, b: Builder, wide: Value, address: Value, changed: Value) -> None:
        code = self._numbers_code
        if code.masks:
            code.store(b, wide, address, changed)
        else:
            code.store(b, b.select(changed, wide, code.load(b, address)), address)

    def store(self, b: Builder, named: dict[str, Value]) -> None:
        """Store the copy to C, combined with C if the micro-kernel accumulates, and the blocks' numbers.

        By a function of all tiles of this width: it is a loop over rows.
        """
        values = [v.size(self._rows), *(named[name] for name in "c ldc block ld_block accumulate lanes".split())]
        kinds = [v.POINTER, v.POINTER] + [v.SIZE] * len(values)
        store = v.own_function(b.module, f"store_{self._vectors}", kinds, self._emit_store)
        b.call(store, [self._tile, self._numbers, *values])

    def _emit_store(
        self, b: Builder, tile: Value, numbers: Value, rows: Value, c: Value, ldc: Value, block: Value,
        ld_block: Value, accumulate: Value, lanes: Value,
    ) -> None:  # fmt: skip
        code = self._code
        masked = (BLOCK_BYTES,) if code.masks and self._numbers_code.masks else ()
        number_code = VectorCode(VectorUnit("numbers", (), code.lanes, 1, 1, 1, masked), BLOCK)
        edges = [None] * (self._vectors - 1) + [code.edge(b, lanes)]
        number_edges = edges if code.masks == number_code.masks else [*edges[:-1], lanes]

        def row(state: list[Value], is_combining: bool) -> list[Value]:
            tile, numbers, c, block = state
            for j, (edge, number_edge) in enumerate(zip(edges, number_edges, strict=True)):
                total = code.load(b, v.advance(b, tile, j * code.size_bytes))
                number = number_code.load(b, v.advance(b, numbers, j * code.lanes))
                to_c, to_block = v.advance(b, c, j * code.size_bytes), v.advance(b, block, j * code.lanes)
                if is_combining:
                    before, noted = code.load(b, to_c, edge), number_code.load(b, to_block, number_edge)
                    total = self._operations.combine(code, b, before, total)
                    number = b.select(_differs(b, code, total, before), number, noted)
                code.store(b, total, to_c, edge)
                number_code.store(b, number, to_block, number_edge)
            steps = (v.size(self._vectors * code.size_bytes), v.size(self._vectors * code.lanes), ldc, ld_block)
            return [v.advance(b, x, step) for x, step in zip(state, steps, strict=True)]

        start = [tile, numbers, b.inttoptr(c, v.POINTER), b.inttoptr(block, v.POINTER)]
        v.in_both_forms(b, accumulate, lambda combines: v.loop(b, rows, start, lambda state: row(state, combines)))


def track_every_step(
    b: Builder,
    named: dict[str, Value],
    state: list[Value],
    step: Callable[[list[Value]], list[Value]],
    tracker: BlockTracker,
) -> None:
    """Extend the tile step by step, and track each; products of so few steps gain nothing by prefetches."""

    def one(current: list[Value]) -> list[Value]:
        number, *inside = current
        inside = step(inside)
        tracker.note(b, inside[2:], number)
        return [b.add(number, v.size(1)), *inside]

    v.loop(b, named["k"], [named["first_block"], *state], one)


def track_blocks(
    b: Builder,
    block_steps: int,
    named: dict[str, Value],
    state: list[Value],
    run: Callable[..., list[Value]],
    tracker: BlockTracker,
    prefetches: tuple[Prefetch, ...],
) -> None:
    """Extend the tile block of k by block, the last shorter, track each block, and carry out `prefetches`.

    The first of them is of the next panel, and begins at once. The others are of the tile of C and of its numbers of
    blocks, which are used at the end: they begin with the last whole block.

    The last blocks are a loop of their own only where there are prefetches: each loop is more code to compile. A whole
    tile of one loop takes 1.02 of the time.
    """
    block, k = v.size(block_steps), named["k"]
    count, state = b.udiv(b.add(k, v.size(block_steps - 1)), block), [named["first_block"], k, *state]

    def blocks(count: Value, state: list[Value], waiting: tuple[Prefetch, ...], are_whole: bool) -> list[Value]:
        """Extend the tile by `count` blocks, which carry out what they can of the prefetches that wait."""

        def one(current: list[Value]) -> list[Value]:
            number, left, *others = current
            iterations, inside = others[: len(waiting)], others[len(waiting) :]  # to come of each prefetch
            steps = free = block if are_whole else v.smaller(b, block, left)
            here = []
            for i, prefetch in enumerate(waiting):
                line = v.advance(b, prefetch.pointer, b.mul(b.sub(prefetch.iterations, iterations[i]), prefetch.stride))
                here.append(prefetch._replace(pointer=line, iterations=v.smaller(b, free, iterations[i])))
                iterations[i], free = b.sub(iterations[i], here[i].iterations), b.sub(free, here[i].iterations)
            inside = run(steps, inside, here)
            tracker.note(b, inside[2:], number)
            return [b.add(number, v.size(1)), b.sub(left, steps), *iterations, *inside]

        number, left, *inside = state
        begin = [number, left, *(prefetch.iterations for prefetch in waiting), *inside]
        number, left, *inside = v.loop(b, count, begin, one)
        return [number, left, *inside[len(waiting) :]]

    if prefetches:
        before_last = b.sub(b.udiv(k, block), v.size(1))
        state = blocks(before_last, state, prefetches[:1], are_whole=True)
        count = b.select(b.icmp_signed(">", before_last, v.size(0)), b.sub(count, before_last), count)
    blocks(count, state, prefetches[1:], are_whole=False)


def _differs(b: Builder, code: VectorCode, x: Value, y: Value) -> Value:
    return (b.fcmp_unordered if is_float(code.dtype) else b.icmp_signed)("!=", x, y)


def _side_by_side(b: Builder, masks: list[Value]) -> Value:
    """Return several masks, a power of two of them, joined into one."""
    while len(masks) > 1:
        lanes = ir.Constant(ir.VectorType(v.INDEX, 2 * masks[0].type.count), list(range(2 * masks[0].type.count)))
        masks = [b.shuffle_vector(x, y, lanes) for x, y in zip(masks[::2], masks[1::2], strict=True)]
    return masks[0]


def _on_stack(b: Builder, value: Value, count: int, code: VectorCode) -> Value:
    """Return the address of `count` vectors that are `value`."""
    room = b.alloca(ir.ArrayType(code.vector, count))
    room.align = code.size_bytes
    # empty assembly hides the address; else LLVM would move the vectors to registers and spill others
    hidden = b.asm(ir.FunctionType(v.SIZE, [v.SIZE]), "", "=r,0", [b.ptrtoint(room, v.SIZE)], side_effect=False)
    address = b.inttoptr(hidden, v.POINTER)
    for i in range(count):
        code.store(b, value, v.advance(b, address, i * code.size_bytes))
    return address
