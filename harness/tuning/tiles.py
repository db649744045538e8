"""The number of tiles that cover a matrix, or its lower triangle: the blocks that a plan shares out."""

from __future__ import annotations


def count_tiles(m: int, n: int, bm: int, bn: int, *, triangle: bool = False) -> int:
    """Return how many tiles of `bm` x `bn` cover an `m` x `n` matrix; of a triangle, those that reach its diagonal."""
    if not triangle:
        return -(-m // bm) * -(-n // bn)
    return sum(-(-min(last, m) // bn) for last in range(bm, m + bm, bm))
