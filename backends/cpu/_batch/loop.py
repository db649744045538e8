"""The loop over the products of a batch, for products that one thread computes each.

    facts of the batch        products, products that a thread takes at once, dimensions, the address of `tile_facts`
                              or 0, and for each dimension, the slowest first: its size, and the strides of a, b, c and
                              block in bytes
    row                       where a product is more than tiles, of its table (`_simd.argument_table`): the loops, and
                              a `Part` with offsets for addresses
    addresses                 where a, b, c, block and the scratch begin

Threads take the next products until none is left, so a late or slow one computes fewer.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange, types

from backends.cpu._batch.tiles import compute_tiles
from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.call_by_address import call
from backends.cpu._compile.jit import jit
from backends.cpu._simd.run_parts import LOOPS_AND_PART, OPERANDS, PACKED, SCRATCH, loops_and_part, read_row
from backends.cpu._threads.atomics import add
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import emits, word_at

WORD = 8
FACTS, FACTS_OF_DIMENSION = 4, 1 + len(OPERANDS)


@emits(LOOPS_AND_PART, *[types.intp] * (2 + len(OPERANDS)))
def _row_for(b: Builder, row: Value, x: Value, y: Value, z: Value, block: Value, scratch: Value) -> Value:
    """Return the loops and the part of one product, whose operands begin at these addresses."""
    loops, _, part = read_row(b, row)
    begins = dict(zip(OPERANDS, (x, y, z, block), strict=True)) | dict.fromkeys(PACKED, scratch)
    return loops_and_part(b, loops, part, begins)


@numba.njit
def _begins(facts: int, addresses: int, product: int) -> tuple[int, int, int, int]:
    """Return where the operands of a product begin."""
    dimensions = word_at(facts + 16)
    rest, here = product, facts + WORD * FACTS + WORD * FACTS_OF_DIMENSION * (dimensions - 1)
    a, b, c, block = word_at(addresses), word_at(addresses + 8), word_at(addresses + 16), word_at(addresses + 24)
    for dimension in range(dimensions):
        index = rest
        if dimension < dimensions - 1:  # of the slowest one the rest is the index
            size = word_at(here)
            rest, index = rest // size, rest % size
        a, b = a + index * word_at(here + 8), b + index * word_at(here + 16)
        c, block = c + index * word_at(here + 24), block + index * word_at(here + 32)
        here -= WORD * FACTS_OF_DIMENSION
    return a, b, c, block


@kernel_builder
def build_products() -> Any:
    """Compile ``compute(row, facts, addresses, first, end, offset)``: the products `first` to `end`, by one thread.

    The same for every kernel. Its scratch begins `offset` bytes after where that of the batch does.
    """

    def compute(row: int, facts: int, addresses: int, first: int, end: int, offset: int) -> None:
        tiles, scratch = word_at(facts + 24), word_at(addresses + 8 * SCRATCH) + offset
        a, b, c, block = _begins(facts, addresses, first)
        for product in range(first, end):
            next_a, next_b, next_c, next_block = _begins(facts, addresses, min(product + 1, end - 1))
            if tiles:
                compute_tiles(tiles, a, b, c, next_a, next_b, next_c)
            else:
                loops, part = _row_for(row, a, b, c, block, scratch)
                call(loops, (part,))
            a, b, c, block = next_a, next_b, next_c, next_block

    return jit(None, *[types.intp] * 6, parallel=False)(compute)


@kernel_builder
def build_shared() -> Any:
    """Compile ``compute(row, facts, addresses, taken, threads, size, products)``: by threads that take the next ones.

    `taken` is a word to count the products that threads have taken; each has `size` bytes of scratch. `products` is the
    address of `build_products`: in the body of a parallel loop Numba would compile that twice more.
    """

    def compute(
        row: int, facts: int, addresses: int, taken: np.ndarray, threads: int, size: int, products: Any
    ) -> None:
        taken[0] = 0
        for thread in prange(threads):
            count, step = word_at(facts), word_at(facts + 8)
            while True:
                first = add(taken.ctypes.data, step)
                if first >= count:
                    break
                call(products, (row, facts, addresses, first, min(first + step, count), np.intp(thread) * size))

    words = types.Array(types.int64, 1, "C")
    return jit(None, *[types.intp] * 3, words, *[types.intp] * 3)(compute)
