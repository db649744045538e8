"""The tiles of a small product whose operands are read in place, as a table, which all products of a batch share.

A product is then one pass over the table: no panel is packed, and nothing is split anew. Where a row of C is a little
wider than the register tile, the tile becomes as wide and less high. B and C are then read and written in the order of
memory, which processors fetch best. Where that pays, a share of the rows of the next product is prefetched before each
tile, so that these arrive while the tile is computed.

    row of a tile     its function; offsets of its rows of A, its columns of B and its part of C [bytes]; the lanes of
                      its last vector; of A, B and C the first row to prefetch, and the row after the last
    facts             the table and its length; k, the strides of rows, whether C is combined; bytes of a row to
                      prefetch
"""

from __future__ import annotations

import numpy as np

from backends.cpu._ir.call_by_address import call_function
from backends.cpu._simd.argument_table import Loops, Shape
from backends.cpu._simd.kernel import KernelKey, tile_number
from backends.cpu._simd.kernel_table import tile_addresses
from backends.cpu._simd.macro_kernel import even_split
from backends.cpu._simd.prefetch import INTO_L2
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers, words_at
from harness.operands import CACHE_LINE, data_address
from harness.tuning import batches as tuning_batches

WORD = 8
TILE = "function a b c lanes from_a end_a from_b end_b from_c end_c".split()
TILE_FACTS = "tiles count k lda ldb ldc accumulate width_a width_b width_c".split()

TILE_BYTES, TILE_WORDS, FACT_WORDS = WORD * len(TILE), len(TILE), len(TILE_FACTS)
_FIRST_SHARE = TILE.index("from_a")


class TileTable:
    """The tiles of one product of a batch, if it is tiles alone.

    Parameters
    ----------
    loops : Loops
    shape : Shape
        Of one product.
    accumulate : bool
    prefetched : tuple of bool
        Of A, B and C whether it is prefetched for the next product.

    Attributes
    ----------
    address : int
        Of the facts, which live as long as this object; 0: a product is more than tiles.
    rows : (tiles, words) array of int64
    """

    def __init__(self, loops: Loops, shape: Shape, accumulate: bool, prefetched: tuple[bool, ...]) -> None:
        self.address, self.rows = 0, np.zeros((0, TILE_WORDS), np.int64)
        if not is_tiles_alone(loops, shape):
            return
        itemsize = loops.key.itemsize
        tiles = _tiles(loops.key, shape)
        self.rows = np.zeros((len(tiles), TILE_WORDS), np.int64)
        self.rows[:, :_FIRST_SHARE] = tiles
        for number, rows in enumerate((shape.m, shape.k, shape.m)):
            if prefetched[number]:
                first = _FIRST_SHARE + 2 * number
                cuts = np.arange(len(tiles) + 1) * rows // len(tiles)
                self.rows[:, first], self.rows[:, first + 1] = cuts[:-1], cuts[1:]
        strides = shape.strides_a[0], shape.strides_b[0], shape.row_stride_out
        widths = [n * itemsize * is_ahead for n, is_ahead in zip((shape.k, shape.n, shape.n), prefetched, strict=True)]
        facts = data_address(self.rows), len(tiles), shape.k, *strides, accumulate, *widths
        self._facts = np.array(facts, np.int64)
        self.address = data_address(self._facts)


def is_tiles_alone(loops: Loops, shape: Shape) -> bool:
    """Return whether a product is one part and one block of k, nothing is packed, and no blocks are tracked."""
    is_plain = not (loops.packs_a or loops.packs_b or loops.triangle or loops.key.block_steps)
    return type(loops) is Loops and is_plain and loops.grid == (1, 1) and shape.k <= loops.blocking.kc


def tile_of(key: KernelKey, shape: Shape) -> KernelKey:
    """Return the kernel with the register tile that products of a batch take: as wide as a row of C, if that pays."""
    vectors = -(-shape.n // key.lanes)
    rows = tuning_batches.wide_tile_rows(key.unit, vectors)
    return key._replace(mr=rows, nv=vectors) if rows else key


def _tiles(key: KernelKey, shape: Shape) -> list[tuple[int, ...]]:
    """Return of each tile its function, the offsets of its rows of A, columns of B and part of C, and its lanes."""
    wanted = tile_of(key, shape)
    functions = tile_addresses(key) if wanted is key else tile_addresses(wanted, fewest_vectors=wanted.nv)
    itemsize, mr, nv, lanes = key.itemsize, wanted.mr, wanted.nv, key.lanes
    whole = mr + (not key.operations.is_careful)
    tiles = []
    for panel, vectors in _cuts(-(-shape.n // lanes), nv):
        j = panel * lanes
        present = min(lanes, shape.n - j - (vectors - 1) * lanes)
        for i, rows in _cuts(shape.m, mr):
            number = tile_number(whole if (rows, present) == (mr, lanes) else rows, vectors, nv)
            of_c = i * shape.row_stride_out + j * itemsize
            tiles.append((functions[number], i * shape.strides_a[0], j * itemsize, of_c, present))
    return tiles


def _cuts(extent: int, largest: int) -> list[tuple[int, int]]:
    """Return where the parts of an even split begin, and their sizes."""
    parts, size, longer = even_split(extent, largest)
    return [(part * size + min(part, longer), size + (part < longer)) for part in range(parts)]


_facts_at, _tile_at = words_at(FACT_WORDS), words_at(TILE_WORDS)


@OfIntegers
def _prefetch(b: Builder, address: Value) -> None:
    v.prefetch(b, b.inttoptr(address, v.POINTER), INTO_L2)


def _prefetch_rows(begin: int, stride: int, width: int, first: int, end: int) -> None:
    for row in range(first, end):
        for offset in range(0, width, CACHE_LINE):
            _prefetch(begin + row * stride + offset)


def compute_tiles(facts: int, a: int, b: int, c: int, next_a: int, next_b: int, next_c: int) -> None:
    """Compute one product, whose operands begin at these addresses, and prefetch those of the next one.

    `facts` is the address of `tile_facts`.
    """
    tile, count, k, lda, ldb, ldc, accumulate, width_a, width_b, width_c = _facts_at(facts)
    prefetches = width_a | width_b | width_c
    for _ in range(count):
        function, of_a, of_b, of_c, lanes, from_a, end_a, from_b, end_b, from_c, end_c = _tile_at(tile)
        if prefetches:
            _prefetch_rows(next_a, lda, width_a, from_a, end_a)
            _prefetch_rows(next_b, ldb, width_b, from_b, end_b)
            _prefetch_rows(next_c, ldc, width_c, from_c, end_c)
        call_function(function, (
            k, a + of_a, lda, b + of_b, ldb, c + of_c, ldc, accumulate, lanes, 0, 0, 0, 0, 0, 0
        ))  # fmt: skip
        tile += TILE_BYTES
