"""Reachability with 64 edges a word: Warshall's algorithm by the method of the four Russians.

    for each group of 8 pivots
        their rows are closed by each other     row i |= row k  where i reaches k
        a table of all 256 unions of their rows
        every other row |= the union of the pivots that it reaches, by one look-up of its 8 bits

So a row takes one pass for 8 pivots, with 64 pairs an operation of a word. Threads share the other rows.

Source: Warshall (1962); Arlazarov, Dinic, Kronrod and Faradzev (1970), as in Albrecht, Bard and Hart (2010), section 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit
from backends.cpu._threads.limits import limit_threads, restore_threads
from harness.interface import BitClosure

WORD_BITS = 64
_GROUP = 8  # pivots of a table, one byte of a row
_ROWS = 64  # that a thread takes at once

_WORDS = types.Array(types.uint64, 2, "C")


@kernel_builder
def build_close_words() -> Any:
    """Compile ``close_words(rows, unions, threads)``: rows of bits, the lowest first, and room for 256 of them."""

    def close_words(rows: np.ndarray, unions: np.ndarray, threads: int) -> None:
        n, words = rows.shape
        before, strips = limit_threads(threads), (n + _ROWS - 1) // _ROWS
        for first in range(0, n, _GROUP):
            last = min(first + _GROUP, n)
            word, shift = first >> 6, np.uint64(first & 63)
            for k in range(first, last):
                bit = np.uint64(1) << np.uint64(k & 63)
                for i in range(first, last):
                    if rows[i, word] & bit:
                        for w in range(words):
                            rows[i, w] |= rows[k, w]
            for w in range(words):
                unions[0, w] = 0
            for k in range(last - first):
                for union in range(1 << k):
                    for w in range(words):
                        unions[(1 << k) + union, w] = unions[union, w] | rows[first + k, w]
            for strip in prange(strips):
                for i in range(strip * _ROWS, min((strip + 1) * _ROWS, n)):
                    union = np.intp((rows[i, word] >> shift) & np.uint64(255))
                    if union:
                        for w in range(words):
                            rows[i, w] |= unions[union, w]
        restore_threads(before)

    return jit(None, _WORDS, _WORDS, types.intp)(close_words)


class WordClosure(BitClosure):
    """Close graphs of bools, or of bits of bytes, on the host.

    Parameters
    ----------
    n, threads : int
    """

    def __init__(self, n: int, threads: int) -> None:
        self._n, self._threads = n, threads
        build_close_words()

    def close(self, edges: np.ndarray, best: np.ndarray) -> None:
        """Write the closure of `edges` to `best`, as `BitClosure.close`."""
        n, is_packed = self._n, best.dtype == np.uint8
        words = np.zeros((n, -(-n // WORD_BITS)), np.uint64)
        unions, octets = np.empty((1 << _GROUP, words.shape[1]), np.uint64), words.view(np.uint8)
        graphs = (x.reshape(-1, *best.shape[-2:]) for x in (edges, best))
        for graph, closed in zip(*graphs, strict=True):
            bits = graph if is_packed else np.packbits(graph, axis=-1, bitorder="little")
            octets[:, : bits.shape[1]] = bits
            if n & 7:
                octets[:, n >> 3] &= np.uint8((1 << (n & 7)) - 1)
            octets[np.arange(n), np.arange(n) >> 3] |= np.uint8(1) << (np.arange(n) & 7).astype(np.uint8)
            build_close_words()(words, unions, self._threads)
            if is_packed:
                closed[...] = octets[:, : bits.shape[1]]
            else:
                closed[...] = np.unpackbits(octets, axis=-1, count=n, bitorder="little").view(bool)
