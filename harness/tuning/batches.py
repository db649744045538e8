"""Numbers of batches: where threads share the products of a batch, and where each product.

Numbers without a source are choices that were not measured.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.machine import detect
from harness.tuning import simd_parts as tuning_parts
from harness.tuning.cpu import cache_sizes

# A call of the loops of cpu-simd takes about as long as this many pairs.
CALL_PAIRS = 1 << 11

# Pairs of the products that a thread takes at once, and fewest turns of a thread. Products side by side in memory go to
# one thread, since its core prefetches beyond the end of a product.
TURN_PAIRS, TURNS = 1 << 20, 8

# Fewest products for each thread with which threads share the batch, if they could share each product too: a late
# thread leaves the others waiting for one product at most.
PRODUCTS_PER_THREAD = 4

# Products of so many pairs are shared by all threads, which then read the same blocks of A and B.
SHARED_FROM = 1 << 30


# Most pairs of a product whose argk is found by the definition, in one pass over all of a batch: 1 ns a pair over
# float32.
ARGK_PAIRS = 1 << 15


def prefetches(product_bytes: int, products: int) -> bool:
    """Return whether a thread prefetches the next product while it computes one, by the bytes of its operands.

    The processor fetches products below L1 well enough by itself: of 32 x 32 x 32 in float64 it ran at 0.92 of its
    speed with prefetches, of 8 x 8 x 8 at 0.67. 64 products of 128 x 128 x 128 gained 1.15. Two products must fit L2.
    Measured 2026-11-23, one thread of an AMD EPYC (Zen 4, L2 1 MiB).
    """
    l1, l2, _ = cache_sizes(detect())
    return fits_ahead(product_bytes, products, l1, l2)


def fits_ahead(product_bytes: int, products: int, l1: int, l2: int) -> bool:
    """Return `prefetches` for caches of so many bytes."""
    return l1 < product_bytes <= l2 // 2 < product_bytes * products


# Rows of the register tile that is as wide as a row of C, by unit and vectors in the row, for products of a batch.
_WIDE_TILE_ROWS = {("avx512", 4): 6, ("avx512", 5): 4}


def wide_tile_rows(unit: str, vectors: int) -> int:
    """Return the rows of the register tile for products whose rows of C have so many vectors; 0: the usual tile."""
    return _WIDE_TILE_ROWS.get((unit, vectors), 0)


class Sharing(NamedTuple):
    """How threads share a batch.

    Attributes
    ----------
    threads : int
        That take products; 1: the calling thread computes one product after the other.
    inside : int
        That share each product. One of the two is 1.
    at_once : int
        Products that a thread takes at once.
    """

    threads: int
    inside: int
    at_once: int


def sharing(products: int, pairs: int, threads: int) -> Sharing:
    """Return how threads share a batch.

    Parameters
    ----------
    products : int
        1 or more.
    pairs : int
        Of one product.
    threads : int
        At most so many.
    """
    each = tuning_parts.SIMD_FEWEST_PAIRS_PER_THREAD
    inside = max(min(threads, pairs // each), 1)
    is_large = pairs >= SHARED_FROM or products < PRODUCTS_PER_THREAD * threads
    if inside > 1 and is_large:
        return Sharing(1, inside, 1)
    across = max(min(threads, products, products * (pairs + CALL_PAIRS) // each), 1)
    at_once = min(max(TURN_PAIRS // (pairs + CALL_PAIRS), 1), -(-products // (TURNS * across)))
    return Sharing(across, 1, at_once)
