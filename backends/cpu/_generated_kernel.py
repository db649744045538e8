"""The micro-kernel, generated: a register tile of C, extended by k steps, for any semiring, dtype and vector unit.

    for p in range(k):                                C[mr, nr] stays in mr x nv vectors
        for each row i of the tile:  broadcast A[i, p]
            for each vector j:       C[i, j] := C[i, j] (+) A[i, p] (x) B[p, j]

A is read by rows (k contiguous, rows `lda` bytes apart), so that a block of A can be used where it lies. B is read by
rows too (`ldb` bytes apart): a packed micro-panel, or B itself. Four steps make a turn of the loop. The whole tile asks
in its first turns for what is used next (one cache line a turn, into L2), and 16 turns before its end for its tile of
C. Edge tiles have fewer rows, fewer vectors, and a last vector of which only some lanes exist.

Source: Van Zee and van de Geijn, "BLIS" (2015), section 4; prefetch of C as in BLIS's own kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from backends.cpu import _vector_code as v
from backends.cpu._vector_code import Builder, Value, VectorCode
from backends.cpu._vector_operators import Operations
from backends.cpu._vector_unit import UNITS, VectorUnit
from harness.operands import CACHE_LINE

STEPS = 4  # of k in a turn of the loop
TURNS_BEFORE_END = 16  # when the tile of C is asked for: its way from L3 takes that long
INTO_L1, INTO_L2 = 3, 2


class KernelKey(NamedTuple):
    """All that a generated kernel depends on, by names and numbers alone.

    Attributes
    ----------
    operations : Operations
    dtype : str
    unit : str
        Name of a `VectorUnit`.
    mr, nv : int
        Rows and vectors of the whole register tile.
    """

    operations: Operations
    dtype: str
    unit: str
    mr: int
    nv: int

    @property
    def vector_unit(self) -> VectorUnit:
        """The unit of that name."""
        return next(unit for unit in UNITS if unit.name == self.unit)

    @property
    def lanes(self) -> int:
        """Elements in a vector."""
        return self.vector_unit.lanes(np.dtype(self.dtype))

    def code(self) -> VectorCode:
        """Return the emitter for this unit and dtype."""
        return VectorCode(self.vector_unit, np.dtype(self.dtype))


class _Touched(NamedTuple):
    """Cache lines that a loop asks for: in each turn those at `offsets` from a pointer that strides."""

    pointer: Value
    stride: Value
    offsets: tuple[int, ...]
    locality: int


class _Tile(NamedTuple):
    """One micro-kernel: its extent, and whether it has an edge or is whole and prefetches."""

    rows: int
    vectors: int
    is_whole: bool


# Arguments of a micro-kernel, addresses and sizes in bytes except for the counts k, lanes and ahead_turns.
ARGUMENTS = "k a lda b ldb c ldc accumulate lanes ahead ahead_stride ahead_turns".split()
_POINTERS = ("a", "b", "c", "ahead")


def micro_kernel_intrinsic(key: KernelKey) -> Any:
    """Return the intrinsic ``micro_kernel(rows, vectors, *ARGUMENTS)``: all tiles of a key behind one switch.

    ``rows`` in 1..mr, ``vectors`` in 1..nv, ``lanes`` of the last vector in 1..lanes. ``accumulate``: 0 stores,
    anything else combines with C, which is not read otherwise.
    """
    code, mr, nv = key.code(), key.mr, key.nv

    def emit(builder: Builder, values: list[Value]) -> None:
        rows, vectors, *arguments = values
        lanes = arguments[ARGUMENTS.index("lanes")]
        is_whole = builder.and_(
            builder.icmp_signed("==", lanes, v.size(code.lanes)), builder.icmp_signed("==", rows, v.size(mr))
        )
        which = builder.add(builder.mul(rows, v.size(nv + 1)), vectors)
        tiles = {r * (nv + 1) + c: _Tile(r, c, False) for r in range(1, mr + 1) for c in range(1, nv + 1)}
        if not key.operations.is_careful:  # or it would take twice as long to compile what hardly ever runs
            which = builder.select(is_whole, builder.add(vectors, v.size((mr + 1) * (nv + 1))), which)
            tiles |= {(mr + 1) * (nv + 1) + c: _Tile(mr, c, True) for c in range(1, nv + 1)}
        functions = {n: _micro_kernel(builder.module, key, code, tile) for n, tile in tiles.items()}
        v.switch(builder, which, functions, arguments)

    return size_intrinsic(2 + len(ARGUMENTS), emit)


def size_intrinsic(count: int, emit: Callable[[Builder, list[Value]], None]) -> Any:
    """Return a Numba intrinsic of `count` sizes or addresses that returns nothing: ``emit(builder, values)``."""

    @intrinsic
    def generated(typing_context: Any, values: Any) -> Any:
        def codegen(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
            (packed,) = arguments
            emit(builder, [builder.extract_value(packed, i) for i in range(count)])
            return context.get_dummy_value()

        return types.void(types.UniTuple(types.intp, count)), codegen

    return generated


def _micro_kernel(module: ir.Module, key: KernelKey, code: VectorCode, tile: _Tile) -> Any:
    """Return the function of one tile."""
    operations, rows, vectors = key.operations, tile.rows, tile.vectors

    def emit(b: Builder, *values: Value) -> None:
        given = dict(zip(ARGUMENTS, values, strict=True))
        k, lda, ldb, ldc = (given[name] for name in ("k", "lda", "ldb", "ldc"))
        a, panel, c, ahead = (b.inttoptr(given[name], v.POINTER) for name in _POINTERS)
        edge = None if tile.is_whole else code.edge(b, given["lanes"])
        edges = [None] * (vectors - 1) + [edge]
        rows_of_a = [_row(b, a, lda, i) for i in range(rows)]

        def step(p: int, offset: Value, row_of_b: Value, totals: list[Value]) -> list[Value]:
            of_b = [
                code.load(b, v.advance(b, row_of_b, j * code.size_bytes), edges[j] if code.masks else None)
                for j in range(vectors)
            ]
            extended = []
            for i in range(rows):
                x = code.broadcast(b, v.advance(b, v.advance(b, rows_of_a[i], offset), p * code.dtype.itemsize))
                extended += [operations.extend(code, b, totals[i * vectors + j], x, of_b[j]) for j in range(vectors)]
            return extended

        def run(turns: Value, steps: int, state: list[Value], touched: _Touched | None = None) -> list[Value]:
            """Extend the tile by `turns` times `steps`, asking for cache lines in each turn."""

            def turn(current: list[Value]) -> list[Value]:
                if touched:
                    current, line = current[:-1], current[-1]
                    for place in touched.offsets:
                        v.prefetch(b, v.advance(b, line, place), touched.locality)
                offset, row_of_b, *totals = current
                for p in range(steps):
                    totals = step(p, offset, row_of_b, totals)
                    row_of_b = v.advance(b, row_of_b, ldb)
                following = [b.add(offset, v.size(steps * code.dtype.itemsize)), row_of_b, *totals]
                return [*following, v.advance(b, line, touched.stride)] if touched else following

            return v.loop(b, turns, [*state, touched.pointer] if touched else state, turn)[: len(state)]

        state = [v.size(0), panel, *[code.constant(operations.zero)] * (rows * vectors)]
        steps = 1 if operations.is_careful else STEPS
        turns = b.udiv(k, v.size(steps))
        if tile.is_whole:
            tail = v.smaller(b, turns, v.size(rows + TURNS_BEFORE_END))
            head = b.sub(turns, tail)
            asking = v.smaller(b, given["ahead_turns"], head)
            state = run(asking, STEPS, state, _Touched(ahead, given["ahead_stride"], (0,), INTO_L2))
            state = run(b.sub(head, asking), STEPS, state)
            touching = v.smaller(b, tail, v.size(rows))
            width = vectors * code.size_bytes
            lines = (*range(0, width, CACHE_LINE), width - 1)  # a row of the tile may begin amid a line
            state = run(touching, STEPS, state, _Touched(c, ldc, lines, INTO_L1))
            turns = b.sub(tail, touching)
        state = run(turns, steps, state)
        if steps > 1:
            state = run(b.urem(k, v.size(steps)), 1, state)
        _, _, *totals = state
        _store(b, code, operations, totals, [_row(b, c, ldc, i) for i in range(rows)], edges, given["accumulate"])

    name = (
        f"tile_{rows}x{vectors}" + ("_whole" if tile.is_whole else "") + ("_careful" if operations.is_careful else "")
    )
    return v.own_function(module, name, [v.SIZE] * len(ARGUMENTS), emit)


def _row(builder: Builder, pointer: Value, stride: Value, i: int) -> Value:
    return v.advance(builder, pointer, builder.mul(stride, v.size(i))) if i else pointer


def _store(
    b: Builder,
    code: VectorCode,
    operations: Operations,
    totals: list[Value],
    rows_of_c: list[Value],
    edges: list[Value | None],
    accumulate: Value,
) -> None:
    """Store the tile; if `accumulate` is not 0, combined with what is there."""
    with b.if_else(b.icmp_signed("!=", accumulate, v.size(0))) as (combining, storing):
        for is_combining, branch in ((True, combining), (False, storing)):
            with branch:
                for number, total in enumerate(totals):
                    i, j = divmod(number, len(edges))
                    target = v.advance(b, rows_of_c[i], j * code.size_bytes)
                    before = code.load(b, target, edges[j]) if is_combining else None
                    value = operations.combine(code, b, before, total) if is_combining else total
                    code.store(b, value, target, edges[j])
