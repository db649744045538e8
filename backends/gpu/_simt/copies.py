"""Copies of tiles to shared memory: how wide they may be, and the distances that they meet."""

from __future__ import annotations

from backends.gpu._passes.padding import WIDE, width_of_loads
from backends.gpu._program.program import Matrix
from harness.plan import Launch

_LARGEST_INT = 2**31 - 1


def group_size(itemsize: int, size_bytes: int = WIDE) -> int:
    """Return how many elements a thread reads at once from shared memory: of small types as many as of 4 bytes."""
    return max(size_bytes // max(itemsize, 4), 1)


def width_of_copies(x: Matrix, side: int, launch: Launch, itemsize: int, most_bytes: int = WIDE) -> int:
    """Return how many elements of a line a copy moves: at most `most_bytes`, less for whole passes of the threads.

    `x` is B by rows, `side` the columns of a tile, or A by columns, and its rows.
    """
    widest = width_of_loads(x, itemsize, most_bytes)
    cutting = [width for width in (widest >> i for i in range(widest.bit_length())) if side % width == 0]
    return next((width for width in cutting if has_whole_passes(launch, side // width)), cutting[0])


def has_whole_passes(launch: Launch, vectors: int) -> bool:
    """Return whether the threads of a block cover the `vectors` of a line in whole passes."""
    return vectors % min(launch.threads, vectors) == 0


def offset_type(launch: Launch, a: Matrix, b: Matrix) -> str:
    """Return the C integer type that holds every distance within a tile of A or of B."""
    farthest = max(launch.bm * a.ld, launch.bk * b.ld) + launch.bn
    return "int" if farthest <= _LARGEST_INT else "long long"
