"""One routine that moves a matrix from one layout to another: every rank sends what others are to hold.

A layout is a rectangle for each rank. Two ranks exchange what their rectangles have in common, in one message. So the
same lines scatter from rank 0, gather to it, and change rows into blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from harness.distributed.arrays import copy
from harness.distributed.grid import Rectangle
from harness.distributed.transport.mpi import Fibre

NOTHING = Rectangle(0, 0, 0, 0)


def redistribute(
    fibre: Fibre, held: np.ndarray, source: Sequence[Rectangle], target: Sequence[Rectangle], out: np.ndarray
) -> None:
    """Fill `out`, which is ``target[rank]`` of a matrix, from what all ranks hold of it; all ranks must call it.

    Parameters
    ----------
    fibre : Fibre
        All ranks.
    held : array
        The rectangle ``source[rank]``, any strides.
    source, target : sequence of Rectangle
        One for each rank. Sources cover the matrix and do not overlap.
    out : array
        Any strides.
    """
    mine, wanted = source[fibre.rank], target[fibre.rank]
    sent, received, places = [], [], []
    for rank in range(fibre.size):
        leaving, arriving = mine.common(target[rank]), source[rank].common(wanted)
        if rank == fibre.rank:
            copy(out[arriving.within(wanted)], held[leaving.within(mine)])
            continue
        if leaving.words:
            sent.append((rank, np.ascontiguousarray(held[leaving.within(mine)])))
        if arriving.words:
            buffer = np.empty(arriving.shape, out.dtype)
            received.append((rank, buffer))
            places.append((arriving.within(wanted), buffer))
    fibre.exchange(sent, received)
    for place, buffer in places:
        copy(out[place], buffer)


def rows_of(row_counts: Sequence[int], columns: int) -> list[Rectangle]:
    """Return the layout in which rank r holds ``row_counts[r]`` rows, in the order of ranks."""
    ends = np.cumsum([0, *row_counts]).tolist()
    return [Rectangle(begin, end, 0, columns) for begin, end in itertools.pairwise(ends)]


def columns_of(rows: int, column_counts: Sequence[int]) -> list[Rectangle]:
    """Return the layout in which rank r holds ``column_counts[r]`` columns, in the order of ranks."""
    ends = np.cumsum([0, *column_counts]).tolist()
    return [Rectangle(0, rows, begin, end) for begin, end in itertools.pairwise(ends)]


def at_root(rows: int, columns: int, ranks: int) -> list[Rectangle]:
    """Return the layout in which rank 0 holds everything."""
    return [Rectangle(0, rows, 0, columns), *(NOTHING for _ in range(ranks - 1))]
