"""Bytes that a nest of loops moves into a fast memory, by formula. Pure.

A fast memory holds what the loops from some depth on work on: of a cache the outermost depth whose data fit, of
registers and shared memory the depth that the program chose. Each iteration of the loops outside loads its part of A,
B and C, but for what it shares with the one before: an operand stays while the loops next to that depth do not index
it. So A is loaded once for each iteration of the other loops over j, B for each over i, C for each over p:

    loads of A = m k x blocks of n,   of B = k n x blocks of m,   of C = m n x (blocks of k - 1), one more store

For tiles of T x T that is 2 n^3 / T of A and B, for three plain loops 2 n^3, with a column of B in it n^3 + n^2.

Source: lecture notes on dense matrix algorithms (arithmetic intensity of the triple loop, of a row a thread, of tiles);
Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.interface.nest import Nest

Sizes = Mapping[str, int]  # of i, j and p: m, n and k

LINE_BYTES = 64  # of a cache of the host; of a GPU a sector, and a row of its shared memory
SECTOR_BYTES, WAVEFRONT_BYTES = 32, 128


class Loads(NamedTuple):
    """Bytes that pass into and out of a fast memory: loads of A, B and C, stores of C."""

    a: float
    b: float
    c: float
    stores: float

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self)


NOTHING = Loads(0.0, 0.0, 0.0, 0.0)


def depth_of(nest: Nest, memory: str) -> int | None:
    """Return the depth whose data lie in a memory that the program fills, or None if it fills no such memory."""
    return next((depth + 1 for depth, loop in enumerate(nest.loops) if loop.into == memory), None)


def depth_in(nest: Nest, sizes: Sizes, itemsize: int, capacity: float, line: int = LINE_BYTES) -> int:
    """Return the outermost depth whose data a cache of `capacity` bytes holds; 0: it holds all operands."""
    depths = range(len(nest.loops) + 1)
    return next((depth for depth in depths if footprint(nest, depth, sizes, itemsize, line) <= capacity), depths[-1])


def loads(nest: Nest, sizes: Sizes, itemsize: int, depth: int, line: int = 0, *, is_packed: bool = False) -> Loads:
    """Return the bytes that one product moves into a memory that holds the data of the loops from `depth` on.

    Parameters
    ----------
    nest : Nest
    sizes : mapping
        Of i, j and p.
    itemsize : int
        Bytes of an element.
    depth : int
    line : int
        Bytes of the least transfer; 0: an element.
    is_packed : bool
        Whether an operand's part lies in one piece, as in shared memory: then a line holds parts of several rows.
    """
    span = _span(nest, depth, sizes)
    parts = {}
    for name, order in _orders(nest).items():
        (other,) = set("ijp") - set(order)
        repeats = _blocks(sizes[other], _steps(nest, depth, other, order))
        elements = sizes[order[0]] * sizes[order[1]] * repeats
        is_apart = is_packed and name in nest.scattered
        waste = line / itemsize if is_apart else _waste(nest, depth, order, span, itemsize, line, is_packed)
        parts[name] = elements * itemsize * waste
    passes = 1 if nest.keeps_sums else _blocks(sizes["p"], _steps(nest, depth, "p", "ij"))
    of_c = parts["c"] / _blocks(sizes["p"], _steps(nest, depth, "p", "ij"))
    return Loads(parts["a"], parts["b"], of_c * (passes - 1), of_c * passes)


def _orders(nest: Nest) -> dict[str, str]:
    return {"a": nest.order_a, "b": nest.order_b, "c": "ij"}


def _span(nest: Nest, depth: int, sizes: Sizes) -> dict[str, int]:
    """Return how many elements of each index the loops from `depth` on go over."""
    span = dict(sizes)
    for loop in nest.loops[:depth]:
        span[loop.over] = min(span[loop.over], loop.step)
    return span


def footprint(nest: Nest, depth: int, sizes: Sizes, itemsize: int, line: int) -> int:
    """Return the bytes of the lines that the loops from `depth` on touch."""
    span = _span(nest, depth, sizes)
    return sum(span[order[0]] * _lines(span[order[1]], itemsize, line) for order in _orders(nest).values())


def _lines(elements: int, itemsize: int, line: int) -> int:
    """Return the bytes of the lines that so many neighbouring elements lie in, the first on a line's begin."""
    return -(-elements * itemsize // line) * line


def _steps(nest: Nest, depth: int, index: str, order: str) -> list[int]:
    """Return the steps of the loops over `index` outside `depth`, but for those that an operand outlasts.

    The operand, which has the indices `order`, stays while the loops next to `depth` do not index it.
    """
    outside = list(nest.loops[:depth])
    while outside and outside[-1].over not in order:
        outside.pop()
    return [loop.step for loop in outside if loop.over == index]


def _blocks(extent: int, steps: Sequence[int]) -> int:
    """Return the number of innermost blocks, where each of `steps` splits the blocks of the one before."""
    if not steps:
        return 1
    whole, rest = divmod(extent, steps[0])
    return whole * _blocks(steps[0], steps[1:]) + (_blocks(rest, steps[1:]) if rest else 0)


def _waste(nest: Nest, depth: int, order: str, span: Sizes, itemsize: int, line: int, is_packed: bool) -> float:
    """Return the bytes of the lines that are loaded over those that are asked for.

    1 where the next iteration continues along the rows of the operand: it finds the rest of the lines.
    """
    if not line:
        return 1.0
    rows, columns = (span[index] for index in order)
    if is_packed:
        return _lines(rows * columns, itemsize, line) / (rows * columns * itemsize)
    nearest = next((loop.over for loop in reversed(nest.loops[:depth]) if loop.over in order), order[1])
    return 1.0 if nearest == order[1] else _lines(columns, itemsize, line) / (columns * itemsize)
