"""The micro-kernel, generated: a register tile of C, extended by k steps, for any semiring, dtype and vector unit.

    for p in range(k):                                C[mr, nr] stays in mr x nv vectors
        for each row i of the tile:  broadcast A[i, p]
            for each vector j:       C[i, j] := C[i, j] (+) A[i, p] (x) B[p, j]

A is read by rows (k contiguous, rows `lda` bytes apart), so that a block of A can be read in place. B is read by rows
too (`ldb` bytes apart): a packed micro-panel, or B itself. The loop takes four steps at once where a pair is one
instruction over floats, two where it takes more, and one over integers. The generated code keeps this order row by row.
LLVM would move loads up, delay arithmetic, make trees of minima and run out of registers.

A whole tile prefetches the next panel in its first iterations (a cache line each, into L2), and its tile of C 64 steps
before its end. Edge tiles have fewer rows or vectors, and a last vector of which only some lanes exist. docs/kernels.md
has the contract of a tile and a listing.

Of complex numbers the vectors hold real and imaginary parts side by side, as B and C do. A row of the tile is two: the
sums of re(A[i, p]) B[p, j] and of im(A[i, p]) B[p, j]. They are real products, so the loop is the one above, and meet
once, at the end: C[i, j] := first + i second. So nothing is packed twice, unlike in the 1m method of BLIS.

A kernel that tracks also notes, for each element, the block of k in which it last changed (`_simd.block_tracker`).

Source: Van Zee and van de Geijn, "BLIS" (2015), section 4; prefetch of C as in BLIS's own kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from backends.cpu._simd.block_tracker import BLOCK_BYTES, BlockTracker, track_blocks, track_every_step
from backends.cpu._simd.prefetch import INTO_L1, INTO_L2, Prefetch, touched_lines
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.elements import join_rows
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.unit import UNITS, VectorUnit
from backends.cpu._vector.vectors import VectorCode
from harness.dtypes import is_complex, is_exact

STEPS_OF_FUSED, STEPS_OF_OTHERS = 4, 2  # of k in an iteration of the loop, over floats: where a pair is one instruction
_UNITS = {unit.name: unit for unit in UNITS}
STEPS_BEFORE_END = 64  # when the tile of C is prefetched: about the latency of L3


class KernelKey(NamedTuple):
    """Key of a generated kernel: everything that its code depends on, by names and numbers alone.

    Attributes
    ----------
    operations : Operations
    dtype : str
    unit : str
        Name of a `VectorUnit`.
    mr, nv : int
        Rows and vectors of the whole register tile.
    block_steps : int
        Terms in a tracked block of k; 0: no tracking.
    """

    operations: Operations
    dtype: str
    unit: str
    mr: int
    nv: int
    block_steps: int = 0

    @property
    def vector_unit(self) -> VectorUnit:
        """The unit of that name."""
        return _UNITS[self.unit]

    @property
    def lanes(self) -> int:
        """Elements in a vector."""
        return _lanes(self.unit, self.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _itemsize(self.dtype)

    @property
    def may_take_dots(self) -> bool:
        """Whether columns left after whole vectors may be dot products.

        Only tiles note the numbers of blocks; a careful kernel rarely runs and need not be fast.
        """
        return not self.block_steps and not self.operations.is_careful and not _is_complex(self.dtype)

    @property
    def masks(self) -> bool:
        """Whether the unit loads and stores part of a vector."""
        return _masks(self.unit, self.dtype)

    def code(self) -> VectorCode:
        """Return the emitter for this unit and dtype."""
        return VectorCode(self.vector_unit, np.dtype(self.dtype))


@functools.cache
def _lanes(unit: str, dtype: str) -> int:
    return _UNITS[unit].lanes(np.dtype(dtype))


@functools.cache
def _masks(unit: str, dtype: str) -> bool:
    return _UNITS[unit].masks(np.dtype(dtype))


@functools.cache
def _itemsize(dtype: str) -> int:
    return np.dtype(dtype).itemsize


@functools.cache
def _is_complex(dtype: str) -> bool:
    return is_complex(np.dtype(dtype))


class _Tile(NamedTuple):
    """One micro-kernel: its extent, and whether it is whole, and so prefetches."""

    rows: int
    vectors: int
    is_whole: bool

    def name(self, operations: Operations) -> str:
        """Return the name of its function, in LLVM IR and in assembly."""
        return f"tile_{self.rows}x{self.vectors}{'_whole' * self.is_whole}{'_careful' * operations.is_careful}"


# Arguments of a micro-kernel: addresses, strides in bytes, and counts (k, lanes, ahead_steps). The last three are for
# kernels that track: the address for the numbers of blocks, and the number of the tile's first block.
ARGUMENTS = "k a lda b ldb c ldc accumulate lanes ahead ahead_stride ahead_steps block ld_block first_block".split()
_POINTERS = ("a", "b", "c", "ahead", "block")


def steps_per_iteration(key: KernelKey) -> int:
    """Return the number of steps of k in one iteration of the loop."""
    if key.operations.is_careful or is_exact(np.dtype(key.dtype)):
        return 1
    return STEPS_OF_FUSED if key.operations.is_fused else STEPS_OF_OTHERS


def whole_tile_name(key: KernelKey) -> str:
    """Return the name of the function that computes the whole register tile, which no edge cuts."""
    return _Tile(key.mr, key.nv, not key.operations.is_careful).name(key.operations)


def tiles_of(key: KernelKey, fewest_vectors: int = 1) -> dict[int, _Tile]:
    """Return the tiles of a key that are at least so wide, by their numbers (`tile_number`)."""
    widths = range(fewest_vectors, key.nv + 1)
    tiles = {
        tile_number(rows, vectors, key.nv): _Tile(rows, vectors, False)
        for rows in range(1, key.mr + 1)
        for vectors in widths
    }
    if key.operations.is_careful:  # it rarely runs: whole tiles would double its compilation time
        return tiles
    return tiles | {tile_number(key.mr + 1, n, key.nv): _Tile(key.mr, n, True) for n in widths}


def tile_functions(module: ir.Module, key: KernelKey, fewest_vectors: int = 1) -> dict[int, Any]:
    """Write the tiles of a key that are at least so wide, and return their functions by number; they take ARGUMENTS.

    ``lanes`` of the last vector is in 1..lanes. ``accumulate``: 0 stores, anything else combines with C, which is not
    read otherwise.
    """
    tiles = tiles_of(key, fewest_vectors)
    return {number: _micro_kernel(module, key, key.code(), tile) for number, tile in tiles.items()}


def tile_number(rows: int, vectors: int, nv: int) -> int:
    """Return the number of the tile of 1..mr rows and 1..nv vectors; with mr + 1 for rows, that of the whole one."""
    return rows * (nv + 1) + vectors


def _micro_kernel(module: ir.Module, key: KernelKey, code: VectorCode, tile: _Tile) -> Any:
    """Return the function of one tile."""
    operations, rows, vectors, itemsize = key.operations, tile.rows, tile.vectors, key.itemsize
    unrolled = steps_per_iteration(key)

    def emit(b: Builder, *values: Value) -> None:
        named = dict(zip(ARGUMENTS, values, strict=True))
        k, lda, ldb, ldc = (named[name] for name in ("k", "lda", "ldb", "ldc"))
        a, panel, c, ahead, block = (b.inttoptr(named[name], v.POINTER) for name in _POINTERS)
        tracker = BlockTracker(b, key.vector_unit, code.dtype, operations, rows, vectors) if key.block_steps else None
        edges = [None] * (vectors - 1) + [None if tile.is_whole else code.edge(b, named["lanes"])]
        rows_of_a, rows_of_c = ([_row(b, x, stride, i) for i in range(rows)] for x, stride in ((a, lda), (c, ldc)))

        def extend(offset: Value, row_of_b: Value, totals: list[Value]) -> list[Value]:
            """Return the tile one step of k further."""
            of_b = [
                code.load(b, v.advance(b, row_of_b, j * code.size_bytes), edges[j] if code.masks else None)
                for j in range(vectors)
            ]
            extended = []
            for i in range(rows * code.parts):
                row_of_a, part = divmod(i, code.parts)
                element = v.advance(b, v.advance(b, rows_of_a[row_of_a], offset), part * code.dtype.itemsize)
                x = code.broadcast(b, element)
                row = [operations.extend(code, b, totals[i * vectors + j], x, of_b[j]) for j in range(vectors)]
                extended += v.keep_order(b, row)
            return extended

        def iteration(steps: int, current: list[Value]) -> list[Value]:
            offset, row_of_b, *totals = current
            for _ in range(steps):
                totals = extend(offset, row_of_b, totals)
                offset, row_of_b = b.add(offset, v.size(itemsize)), v.advance(b, row_of_b, ldb)
            return [offset, row_of_b, *totals]

        def run(steps: Value, state: list[Value], prefetches: Sequence[Prefetch] = ()) -> list[Value]:
            """Extend the tile by `steps` steps of k, the first iterations with prefetches, one after the other."""

            def prefetching_iteration(prefetch: Prefetch, current: list[Value]) -> list[Value]:
                *current, line = current
                for offset in prefetch.offsets:
                    v.prefetch(b, v.advance(b, line, offset), prefetch.locality)
                return [*iteration(prefetch.steps, current), v.advance(b, line, prefetch.stride)]

            for prefetch in prefetches:
                asking = v.smaller(b, b.udiv(steps, v.size(prefetch.steps)), prefetch.iterations)
                *state, _ = v.loop(
                    b, asking, [*state, prefetch.pointer], functools.partial(prefetching_iteration, prefetch)
                )
                steps = b.sub(steps, b.mul(asking, v.size(prefetch.steps)))
            state = v.loop(b, b.udiv(steps, v.size(unrolled)), state, functools.partial(iteration, unrolled))
            if unrolled == 1:
                return state
            return v.loop(b, b.urem(steps, v.size(unrolled)), state, functools.partial(iteration, 1))

        width = vectors * code.size_bytes
        state = [v.size(0), panel, *[code.constant(operations.zero)] * (rows * code.parts * vectors)]
        next_lines = Prefetch(ahead, named["ahead_stride"], (0,), INTO_L2, named["ahead_steps"], unrolled)
        tile_of_c = Prefetch(c, ldc, touched_lines(width), INTO_L1, v.size(rows), unrolled)
        if tracker:
            lines = touched_lines(width * BLOCK_BYTES // itemsize)
            numbers = Prefetch(block, named["ld_block"], lines, INTO_L1, v.size(rows), unrolled)
            prefetches = tuple(x._replace(steps=1) for x in (next_lines, tile_of_c, numbers)) if tile.is_whole else ()
            if key.block_steps == 1:
                track_every_step(b, named, state, functools.partial(iteration, 1), tracker)
            else:
                track_blocks(b, key.block_steps, named, state, run, tracker, prefetches)
            tracker.store(b, named)
            return
        if tile.is_whole:
            tail = v.smaller(b, k, v.size(unrolled * rows + STEPS_BEFORE_END))
            state = run(tail, run(b.sub(k, tail), state, [next_lines]), [tile_of_c])
        else:
            state = run(k, state)
        _, _, *totals = state
        if code.parts > 1:
            totals = join_rows(operations, code, b, totals, vectors)
        combine = functools.partial(operations.combine, code, b)
        v.in_both_forms(b, named["accumulate"], functools.partial(_store, b, code, combine, totals, rows_of_c, edges))

    return v.own_function(module, tile.name(operations), [v.SIZE] * len(ARGUMENTS), emit)


def _row(builder: Builder, pointer: Value, stride: Value, i: int) -> Value:
    return v.advance(builder, pointer, builder.mul(stride, v.size(i))) if i else pointer


def _store(
    b: Builder,
    code: VectorCode,
    combine: Callable[[Value, Value], Value],
    totals: list[Value],
    rows_of_c: list[Value],
    edges: list[Value | None],
    is_combining: bool,
) -> None:
    """Store the tile, combined with C if `is_combining`."""
    for number, total in enumerate(totals):
        i, j = divmod(number, len(edges))
        target = v.advance(b, rows_of_c[i], j * code.size_bytes)
        value = combine(code.load(b, target, edges[j]), total) if is_combining else total
        code.store(b, value, target, edges[j])
