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

import functools
from collections.abc import Callable

from backends.cpu._batch.tiles import compute_tiles
from backends.cpu._compile.pieces import compiled_for_threads
from backends.cpu._ir.call_by_address import call
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._simd.part import Part
from backends.cpu._simd.run_parts import OPERANDS, PACKED, SCRATCH, part_at, read_row
from backends.cpu._threads.atomics import add
from backends.cpu._threads.pool import for_each
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers, on_stack, word_at

WORD = 8
FACTS, FACTS_OF_DIMENSION = 4, 1 + len(OPERANDS)


@OfIntegers
def _row_for(b: Builder, row: Value, x: Value, y: Value, z: Value, block: Value, scratch: Value) -> tuple[Value, Part]:
    """Return the loops and the part of one product, whose operands begin at these addresses."""
    loops, _, part = read_row(b, row)
    begins = dict(zip(OPERANDS, (x, y, z, block), strict=True)) | dict.fromkeys(PACKED, scratch)
    return loops, part_at(b, part, begins)


def _begins(facts: int, addresses: int, product: int) -> tuple[int, int, int, int]:
    """Return where the operands of a product begin."""
    dimensions = word_at(facts + 16)
    rest, here = product, facts + WORD * FACTS + WORD * FACTS_OF_DIMENSION * (dimensions - 1)
    a, b, c, block = word_at(addresses), word_at(addresses + 8), word_at(addresses + 16), word_at(addresses + 24)
    for _ in range(1, dimensions):
        size = word_at(here)
        rest, index = rest // size, rest % size
        a, b = a + index * word_at(here + 8), b + index * word_at(here + 16)
        c, block = c + index * word_at(here + 24), block + index * word_at(here + 32)
        here -= WORD * FACTS_OF_DIMENSION
    # of the slowest one the rest is the index
    a, b = a + rest * word_at(here + 8), b + rest * word_at(here + 16)
    return a, b, c + rest * word_at(here + 24), block + rest * word_at(here + 32)


def compute_products(row: int, facts: int, addresses: int, first: int, end: int, offset: int) -> None:
    """Compute the products `first` to `end`, by one thread, whose scratch begins `offset` bytes after the batch's."""
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


def take_products(run: int, thread: int) -> None:
    """Compute products until none is left, by the words of a run."""
    row, facts, addresses, size = word_at(run), word_at(run + 8), word_at(run + 16), word_at(run + 24)
    count, step = word_at(facts), word_at(facts + 8)
    while True:
        first = add(run + 32, step)
        if first >= count:
            break
        compute_products(row, facts, addresses, first, min(first + step, count), thread * size)


@functools.cache
def build_products() -> Callable[..., None]:
    """Compile `compute_products`, the same for every kernel."""
    return compiled_for_python(compute_products, releases_gil=True)


@functools.cache
def build_shared() -> Callable[..., None]:
    """Compile ``compute(row, facts, addresses, threads, size)``: all products, by threads that take the next ones.

    Each has `size` bytes of scratch.
    """

    def compute(take: int, row: int, facts: int, addresses: int, threads: int, size: int) -> None:
        """Compute all products."""
        taken = 0
        for_each(take, on_stack((row, facts, addresses, size, taken)), threads)

    return compiled_for_threads(take_products, compute)
