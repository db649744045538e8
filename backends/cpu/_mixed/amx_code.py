"""A processor's tiles (AMX): eight registers of 16 rows of 64 bytes, and an instruction that multiplies two.

    total[i, j] += sum over w of x[i, w] . y[w, j]        x, y of 16 x 16 words, total of 16 x 16 sums

where x . y is the dot product of the parts of two words, as in `_mixed.methods`. A tile of A is 16 rows of words along
k, a tile of B 16 rows of words side by side. Instructions name tiles by number. A thread configures tiles before their
first use and releases them at the end; then a context switch need not save them.

Only `TileCode` emits the instructions. The process must have been permitted to use them (`harness.machine`).

Source: Intel, "Architecture Instruction Set Extensions" (2020), chapter on AMX.
"""

from __future__ import annotations

from llvmlite import ir

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value

TILES, ROWS, ROW_BYTES = 8, 16, 64
TILE_BYTES = ROWS * ROW_BYTES
PALETTE = 1  # the only one of the architecture

# Operand of LDTILECFG: palette, 15 bytes of zeros, bytes of a row of each tile (16 bits each), rows of each (8 bits).
CONFIGURATION = bytes([PALETTE, *[0] * 15, *[ROW_BYTES, 0] * TILES, *[0, 0] * TILES, *[ROWS] * TILES, *[0] * TILES])


class TileCode:
    """Emitter of the instructions, for tiles of full size."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def configure(self) -> None:
        """Make every tile one of 16 rows of 64 bytes, for this thread."""
        array = ir.ArrayType(v.BYTE, len(CONFIGURATION))
        variable = ir.GlobalVariable(self._builder.module, array, "tile_configuration")
        variable.linkage, variable.global_constant, variable.align = "internal", True, len(CONFIGURATION)
        variable.initializer = ir.Constant(array, bytearray(CONFIGURATION))
        self._call("ldtilecfg", variable)

    def release(self) -> None:
        """Give the tiles back."""
        self._call("tilerelease")

    def zero(self, tile: int) -> None:
        """Clear a tile."""
        self._call("tilezero", _number(tile))

    def load(self, tile: int, pointer: Value, stride: Value) -> None:
        """Load 16 rows that are `stride` bytes apart."""
        self._call("tileloadd64", _number(tile), pointer, stride)

    def load_passing(self, tile: int, pointer: Value, stride: Value) -> None:
        """As `load`, of rows that are not needed again soon: they take less room in L1."""
        self._call("tileloaddt164", _number(tile), pointer, stride)

    def store(self, tile: int, pointer: Value, stride: Value) -> None:
        """Store 16 rows `stride` bytes apart."""
        self._call("tilestored64", _number(tile), pointer, stride)

    def dot(self, name: str, total: int, x: int, y: int) -> None:
        """Add the dot products of tiles `x` and `y` to tile `total`, by the instruction of that name."""
        self._call(name, *map(_number, (total, x, y)))

    def _call(self, name: str, *values: Value) -> None:
        function = v.declare(self._builder, f"llvm.x86.{name}", v.VOID, [value.type for value in values])
        self._builder.call(function, values)


def _number(tile: int) -> ir.Constant:
    return ir.Constant(v.BYTE, tile)
