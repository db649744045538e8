"""The micro-kernel over a processor's tiles: up to 2 x 2 tiles of C, extended by steps of one tile of k.

    for p in range(steps):                        C stays in R x S tiles
        load R tiles of A, S tiles of B           16 rows of 64 bytes each
        for each i, j:  C[i, j] += A[i] B[j]      one instruction, 16 x 16 x 16 words

A is read in place or packed: rows `lda` bytes apart, steps of k `a_step` bytes apart. B is a micro-panel of rows of
words (`_mixed.packing`), S tiles side by side. A tile takes 16 cycles to multiply and 8 to load: with 2 x 2 both units
keep up, if the operands are in a near cache. A strip of A passes through once for each panel of B. Its loads say so,
that the panel stays in L1, unless rows begin within a cache line: the next step needs that line again. The kernel
prefetches the next tile of C and the next panel.

Tiles that C does not fill are computed whole, in scratch, and `merge` stores the part that exists.
"""

from __future__ import annotations

from typing import Any

from backends.cpu._mixed import amx_code
from backends.cpu._mixed.amx_code import ROW_BYTES, ROWS, TILES
from backends.cpu._mixed.methods import MixedKey
from backends.cpu._mixed.packing import element_bytes
from backends.cpu._simd.prefetch import INTO_L2, touched_lines
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import Emit
from harness.errors import PlanError
from harness.operands import CACHE_LINE
from harness.plan import Blocking

ARGUMENTS = "steps a lda a_step b c ldc accumulate next_c ahead ahead_stride ahead_lines".split()
_POINTERS = ("a", "b", "c", "next_c", "ahead")
C_ROWS_A_STEP = 2  # of the next tile of C, prefetched in each step


def check_tiles(backend: str, blocking: Blocking) -> None:
    """Raise unless the register block is made of whole tiles that fit the eight registers.

    Raises
    ------
    PlanError
        If mr or nr is no multiple of 16, or the tiles of A, B and C are more than eight.
    """
    r, s = blocking.mr // ROWS, blocking.nr // ROWS
    if blocking.mr % ROWS or blocking.nr % ROWS or r * s + r + s > TILES:
        raise PlanError(
            f"{backend}: no such register tile",
            expected=f"mr, nr multiples of {ROWS}; tiles of C, A and B together at most {TILES}",
            got=str(blocking),
            fix=f"mr={2 * ROWS}, nr={2 * ROWS}",
        )


def configure(b: Builder) -> None:
    """Emit what configures this thread's tiles."""
    v.calls("configure_tiles", lambda inside: amx_code.TileCode(inside).configure())(b)


def release(b: Builder) -> None:
    """Emit what gives this thread's tiles back."""
    v.calls("release_tiles", lambda inside: amx_code.TileCode(inside).release())(b)


def multiply_tiles(b: Builder, key: MixedKey, rows: Value, columns: Value, *arguments: Value) -> None:
    """Emit the call of the kernel of `rows` x `columns` tiles of C, of ARGUMENTS: addresses, and strides in bytes.

    ``accumulate``: 0 stores, any other value adds to C. ``ahead_lines``: in each step that many runs of cache lines,
    `ahead_stride` bytes apart, are prefetched.
    """
    which = b.add(b.mul(rows, v.size(TILES)), columns)
    shapes = [(r, s) for r in range(1, key.mr // ROWS + 1) for s in range(1, key.nv + 1)]
    functions = {r * TILES + s: _kernel(b.module, key, r, s) for r, s in shapes}
    v.switch(b, which, functions, list(arguments))


def _kernel(module: Any, key: MixedKey, rows: int, columns: int) -> Any:
    """Return the function of `rows` x `columns` tiles of C."""

    def emit(b: Builder, *values: Value) -> None:
        tiles = amx_code.TileCode(b)
        named = dict(zip(ARGUMENTS, values, strict=True))
        steps, lda, ldc = named["steps"], named["lda"], named["ldc"]
        a, panel, c, next_c, ahead = (b.inttoptr(named[name], v.POINTER) for name in _POINTERS)
        width = columns * ROW_BYTES
        of_a, of_b = rows * columns, rows * columns + rows  # the first of each
        line = b.urem(b.or_(named["a"], lda), v.size(CACHE_LINE))
        has_whole_lines = b.icmp_signed("==", line, v.size(0))

        def load_of_a(tile: int, pointer: Value) -> None:
            with b.if_else(has_whole_lines) as (passing, staying):
                with passing:
                    tiles.load_passing(tile, pointer, lda)
                with staying:
                    tiles.load(tile, pointer, lda)

        def step(a: Value, panel: Value) -> None:
            for i in range(rows):
                load_of_a(of_a + i, v.advance(b, a, b.mul(lda, v.size(i * ROWS))))
                for j in range(columns):
                    if i == 0:
                        tiles.load(of_b + j, v.advance(b, panel, j * ROW_BYTES), v.size(width))
                    tiles.dot(key.method.dot, i * columns + j, of_a + i, of_b + j)

        def run(iterations: Value, state: list[Value], *, touches_c: bool) -> list[Value]:
            def iteration(current: list[Value]) -> list[Value]:
                a, panel, line, row = current

                def prefetch_panel(state: list[Value]) -> list[Value]:
                    _prefetch(b, state[0], ROWS * columns * element_bytes(key))
                    return [v.advance(b, state[0], named["ahead_stride"])]

                (line,) = v.loop(b, named["ahead_lines"], [line], prefetch_panel)
                for _ in range(C_ROWS_A_STEP if touches_c else 0):
                    _prefetch(b, row, width)
                    row = v.advance(b, row, ldc)
                step(a, panel)
                return [v.advance(b, a, named["a_step"]), v.advance(b, panel, ROWS * width), line, row]

            return v.loop(b, iterations, state, iteration)

        tiles_of_c = [
            (i * columns + j, v.advance(b, v.advance(b, c, b.mul(ldc, v.size(i * ROWS))), j * ROW_BYTES))
            for i in range(rows)
            for j in range(columns)
        ]

        def begin(is_adding: bool) -> None:
            for tile, corner in tiles_of_c:
                tiles.load(tile, corner, ldc) if is_adding else tiles.zero(tile)

        v.in_both_forms(b, named["accumulate"], begin)
        touching = v.smaller(b, steps, v.size(rows * ROWS // C_ROWS_A_STEP))
        state = run(touching, [a, panel, ahead, next_c], touches_c=True)
        run(b.sub(steps, touching), state, touches_c=False)
        for tile, corner in tiles_of_c:
            tiles.store(tile, corner, ldc)

    return v.own_function(module, f"tiles_{rows}x{columns}", [v.SIZE] * len(ARGUMENTS), emit)


def _prefetch(b: Builder, pointer: Value, size_bytes: int) -> None:
    """Prefetch the cache lines that `size_bytes` bytes touch."""
    for offset in touched_lines(size_bytes):
        v.prefetch(b, v.advance(b, pointer, offset), INTO_L2)


def emit_merge(key: MixedKey, vectors: int) -> Emit:
    """Return the emitter of ``merge(rows, tile, c, ldc, accumulate, lanes)`` for tiles of some vectors.

    It copies a part of a computed tile to C, or adds it if `accumulate` is not 0. Rows of the tile are whole vectors
    side by side; `lanes` exist of the last vector.
    """
    code, operations = key.kernel.code(), key.kernel.operations

    def emit(b: Builder, rows: Value, tile: Value, c: Value, ldc: Value, accumulate: Value, lanes: Value) -> None:
        edges = [None] * (vectors - 1) + [code.edge(b, lanes)]

        def row(state: list[Value], is_adding: bool) -> list[Value]:
            source, target = state
            for j, edge in enumerate(edges):
                value = code.load(b, v.advance(b, source, j * code.size_bytes))
                address = v.advance(b, target, j * code.size_bytes)
                if is_adding:
                    value = operations.combine(code, b, code.load(b, address, edge), value)
                code.store(b, value, address, edge)
            return [v.advance(b, source, vectors * code.size_bytes), v.advance(b, target, ldc)]

        begin = [b.inttoptr(tile, v.POINTER), b.inttoptr(c, v.POINTER)]
        v.in_both_forms(b, accumulate, lambda is_adding: v.loop(b, rows, begin, lambda state: row(state, is_adding)))

    return emit
