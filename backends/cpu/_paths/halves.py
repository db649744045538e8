"""A closure by halves, in place: products of halves of halves, down to blocks that are closed by three loops.

    close(A11)    A12 := A12 (+) A11 A12    A21 := A21 (+) A21 A11    A22 := A22 (+) A21 A12
    close(A22)    A21 := A21 (+) A22 A21    A12 := A12 (+) A12 A22    A11 := A11 (+) A12 A21

Three quarters of all n^3 pairs are in products of whole halves. A product that is written over its own A packs it
first, and so for B. What a later block of k or of columns then reads may be improved already. That is a path too, so
the result is right for any (+) that selects. Threads of a product never write what another of them reads.

Of a symmetric matrix A12 is the transpose of A21. The triangle on and below the diagonal is computed alone, with half
of the pairs, and mirrored where a product reads a whole square::

    close(A11)    A21 := A21 (+) A21 A11    A22 := A22 (+) A21 A21^T
    close(A22)    A21 := A21 (+) A22 A21    A11 := A11 (+) A21^T A21

Source: D'Alberto and Nicolau, "R-Kleene" (2007). The symmetric form is this project's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backends.cpu._simd.argument_table import Loops, Shape, Stage
from backends.cpu._simd.part import Part
from harness.tuning import simd_parts as tuning_parts
from harness.tuning.paths import PARALLEL_FROM

# loops_of(shape, triangle, packs_a, packs_b): the loops of one thread.
LoopsOf = Callable[[Shape, str, bool, bool], Loops]


# Blocks that are no product have none.
NO_KERNEL = np.zeros(1, np.int64)


class Square(NamedTuple):
    """What closes, and what mirrors, a small square: stages of the block at `c` without products."""

    close: Any
    mirror: Any


class Halves:
    """The stages that close a matrix, of which each begins after the one before; operands are parts of the matrix.

    Parameters
    ----------
    n, itemsize : int
    leaf : int
        Most vertices that are closed by three loops.
    threads : int
    loops_of : callable
    square : Square
    symmetric : bool

    Attributes
    ----------
    stages : list of Stage
    scratch_bytes : int
        Of each thread.
    """

    def __init__(
        self, n: int, itemsize: int, leaf: int, threads: int, loops_of: LoopsOf, square: Square, *, symmetric: bool
    ) -> None:
        self.stages: list[Stage] = []
        self.scratch_bytes = 0
        self._row, self._itemsize, self._leaf, self._threads = n * itemsize, itemsize, leaf, threads
        self._loops_of, self._square = loops_of, square
        (self._close_symmetric if symmetric else self._close)(0, n)

    def _close(self, o: int, size: int) -> None:
        if size <= self._leaf:
            self._of_square(self._square.close, o, size)
            return
        p = o + self._half(size)
        halves = (o, p - o), (p, o + size - p)
        for (i, m), (j, n) in (halves, halves[::-1]):  # pivots i
            self._close(i, m)
            self._product((i, m), (j, n), (i, m), packs_b=True)
            self._product((j, n), (i, m), (i, m), packs_a=True)
            self._product((j, n), (j, n), (i, m))

    def _close_symmetric(self, o: int, size: int) -> None:
        if size <= self._leaf:
            self._of_square(self._square.mirror, o, size)
            self._of_square(self._square.close, o, size)
            return
        p = o + self._half(size)
        first, last = (o, p - o), (p, o + size - p)
        self._close_symmetric(*first)
        self._product(last, first, first, packs_a=True)
        self._product(last, last, first, triangle="d", swaps_b=True)
        self._close_symmetric(*last)
        self._product(last, first, last, packs_b=True)
        self._product(first, first, last, triangle="d", swaps_a=True)
        self._of_square(self._square.mirror, o, size)

    def _half(self, size: int) -> int:
        """Return about half of `size`, in whole blocks."""
        return -(-size // (2 * self._leaf)) * self._leaf

    def _at(self, i: int, j: int) -> int:
        return i * self._row + j * self._itemsize

    def _of_square(self, function: Any, o: int, size: int) -> None:
        part = Part(size, size, size, c=self._at(o, o), rs_c=self._row)
        self.stages.append(Stage(function, [part], NO_KERNEL))

    def _product(
        self,
        rows: tuple[int, int],
        columns: tuple[int, int],
        pivots: tuple[int, int],
        *,
        packs_a: bool = False,
        packs_b: bool = False,
        triangle: str = "",
        swaps_a: bool = False,
        swaps_b: bool = False,
    ) -> None:
        """Improve ``D[rows, columns]`` by ``D[rows, pivots] (x) D[pivots, columns]``; swapped: by its transpose."""
        (i, m), (j, n), (p, k) = rows, columns, pivots
        along, across = (self._row, self._itemsize), (self._itemsize, self._row)
        shape = Shape(m, n, k, across if swaps_a else along, across if swaps_b else along, self._row)
        loops = self._shared(self._loops_of(shape, triangle, packs_a, packs_b), shape, packs_a, packs_b)
        self.scratch_bytes = max(self.scratch_bytes, sum(loops.scratch_bytes(m, n, k)))
        a, b = self._at(p, i) if swaps_a else self._at(i, p), self._at(j, p) if swaps_b else self._at(p, j)
        (stage,) = loops.stages(shape, accumulate=True)
        c = self._at(i, j)
        moved = [part._replace(a=part.a + a, b=part.b + b, c=part.c + c) for part in stage.parts]
        self.stages.append(stage._replace(parts=moved))

    def _shared(self, loops: Loops, shape: Shape, over_a: bool, over_b: bool) -> Loops:
        """Return the loops with a grid of parts for threads, none of which writes what another reads."""
        m, n, k, threads = shape.m, shape.n, shape.k, self._threads
        if threads == 1 or min(m, n, k) < PARALLEL_FROM:
            return loops
        parts = tuning_parts.simd_parts(m * n * k // (1 + bool(loops.triangle)), threads)
        if loops.triangle:
            side = tuning_parts.triangle_grid(m, threads, parts)
            grid = side, side
        elif over_a or over_b:
            grid = (threads, 1) if over_a else (1, threads)
        else:
            costs = tuning_parts.SIMD_PACKING_ROWS, tuning_parts.SIMD_READING_COLUMNS
            grid = tuning_parts.thread_grid(m, n, parts, tuning_parts.SIMD_ROW_STEP, loops.key.lanes, *costs)
        return loops._replace(grid=grid, threads=threads)
