"""Tiles that any processor has: what `TileCode` emits, as plain vector code over memory.

So the kernels and loops over tiles, with all their addresses, strides and edges, run and are proven on every machine.
Where the processor's own tiles are defined otherwise than here, only a test on such a processor can tell.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from llvmlite import ir

from backends.cpu._mixed import amx_code, amx_loops, methods
from backends.cpu._mixed.amx_code import ROW_BYTES, ROWS, TILE_BYTES, TILES
from backends.cpu._mixed.amx_loops import compile_amx_product
from backends.cpu._mixed.methods import METHODS
from backends.cpu._vector import code as v
from backends.cpu._vector import unit
from tests._support.mixed_products import NARROW, Way
from tests._support.vector_functions import compile_anew

WORDS = ir.VectorType(v.INDEX, 16)
FLOATS = ir.VectorType(ir.FloatType(), 16)
WAYS = [Way(x, unit.UNITS[0]) for x in METHODS if x.is_tiled and x.operands in NARROW]
FEATURES = frozenset({*unit.features(), *unit.UNITS[0].features}.union(*(w.method.needs for w in WAYS)))


def _all(value: int) -> Any:
    return ir.Constant(WORDS, [value] * 16)


class EmulatedTiles:
    """`TileCode` over eight tiles on the stack of the function that is being emitted."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._b = builder
        memory = builder.alloca(ir.ArrayType(v.BYTE, TILES * TILE_BYTES))
        self._memory = builder.inttoptr(builder.ptrtoint(memory, v.SIZE), v.POINTER)

    def configure(self) -> None:
        """There is nothing to configure."""

    def release(self) -> None:
        """There is nothing to release."""

    def zero(self, tile: int) -> None:
        """Clear a tile."""
        self._call("zero_tile", _zero, self._place(tile))

    def load(self, tile: int, pointer: Any, stride: Any) -> None:
        """Copy 16 rows."""
        self._call("copy_tile", _copy, pointer, stride, self._place(tile), v.size(ROW_BYTES))

    load_passing = load

    def store(self, tile: int, pointer: Any, stride: Any) -> None:
        """Copy 16 rows."""
        self._call("copy_tile", _copy, self._place(tile), v.size(ROW_BYTES), pointer, stride)

    def dot(self, name: str, total: int, x: int, y: int) -> None:
        """Add the products of all parts, word by word."""
        self._call(f"emulated_{name}", functools.partial(_dot, _DOTS[name]), *map(self._place, (total, x, y)))

    def _place(self, tile: int) -> Any:
        return v.advance(self._b, self._memory, tile * TILE_BYTES)

    def _call(self, name: str, emit: Any, *values: Any) -> None:
        kinds = [value.type for value in values]
        self._b.call(v.own_function(self._b.module, name, kinds, emit), values)


def _zero(b: Any, tile: Any) -> None:
    for i in range(ROWS):
        b.store(_all(0), v.advance(b, tile, i * ROW_BYTES), align=1)


def _copy(b: Any, source: Any, source_stride: Any, target: Any, target_stride: Any) -> None:
    def row(state: list[Any]) -> list[Any]:
        b.store(b.load(state[0], typ=WORDS, align=1), state[1], align=1)
        return [v.advance(b, state[0], source_stride), v.advance(b, state[1], target_stride)]

    v.loop(b, v.size(ROWS), [source, target], row)


def _dot(extend: Any, b: Any, total: Any, x: Any, y: Any) -> None:
    def row(state: list[Any]) -> list[Any]:
        total, x = state

        def word(state: list[Any]) -> list[Any]:
            x, y, sums = state
            one = b.insert_element(ir.Constant(WORDS, ir.Undefined), b.load(x, typ=v.INDEX), v.index(0))
            sums = extend(b, sums, b.shuffle_vector(one, one, _all(0)), b.load(y, typ=WORDS, align=1))
            return [v.advance(b, x, 4), v.advance(b, y, ROW_BYTES), sums]

        *_, sums = v.loop(b, v.size(ROW_BYTES // 4), [x, y, b.load(total, typ=WORDS, align=1)], word)
        b.store(sums, total, align=1)
        return [v.advance(b, total, ROW_BYTES), v.advance(b, x, ROW_BYTES)]

    v.loop(b, v.size(ROWS), [total, x], row)


def _dot_i8(b: Any, sums: Any, x: Any, y: Any) -> Any:
    for t in range(4):
        parts = [b.ashr(b.shl(words, _all(24 - 8 * t)), _all(24)) for words in (x, y)]
        sums = b.add(sums, b.mul(*parts))
    return sums


def _dot_halves(to_float: Any, exponent: int) -> Any:
    """Return the dot product of two halves of a word, of which those that are subnormal count as zero."""

    def dot(b: Any, sums: Any, x: Any, y: Any) -> Any:
        total = b.bitcast(sums, FLOATS)
        for shift in (0, 16):
            factors = []
            for words in (x, y):
                half = b.and_(b.lshr(words, _all(shift)), _all(0xFFFF))
                is_small = b.icmp_unsigned("==", b.and_(half, _all(exponent)), _all(0))
                factors.append(b.bitcast(to_float(b, b.select(is_small, _all(0), half)), FLOATS))
            total = b.fadd(total, b.fmul(*factors))
        return b.bitcast(total, WORDS)

    return dot


def _float16(b: Any, half: Any) -> Any:
    narrow = b.trunc(half, ir.VectorType(ir.IntType(16), 16))
    return methods._WIDEN["float16 to float32"](b, narrow)


_DOTS = {
    "tdpbssd": _dot_i8,
    "tdpbf16ps": _dot_halves(lambda b, half: b.shl(half, _all(16)), 0x7F80),
    "tdpfp16ps": _dot_halves(_float16, 0x7C00),
}


@contextmanager
def emulated() -> Iterator[pytest.MonkeyPatch]:
    """Let this process take the methods over tiles for usable, and emulate them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amx_code, "TileCode", EmulatedTiles)
        patch.setattr(amx_loops, "compile_functions", compile_anew)
        if not unit.features().issuperset(unit.UNITS[0].features):  # its vectors fit no register: assembly has none
            patch.setattr(v, "_VECTOR_REGISTERS", {})
        permit(patch)
        compile_amx_product.cache_clear()
        try:
            yield patch
        finally:
            compile_amx_product.cache_clear()
            methods.usable_methods.cache_clear()


def permit(patch: pytest.MonkeyPatch, refusal: str | None = None, features: frozenset[str] = FEATURES) -> None:
    """Let the processor have `features`, and the system permit tiles or refuse them."""
    for module in (methods, unit):
        patch.setattr(module, "features", lambda: features)
    patch.setattr(methods, "tiles_refused", lambda: refusal)
    methods.usable_methods.cache_clear()
