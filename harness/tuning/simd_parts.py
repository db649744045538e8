"""How cpu-simd divides a product: parts for threads, what these share, and how C is walked where there are few terms.

The machine of a measurement is that of `harness.tuning.cpu`, unless it says otherwise.
"""

from __future__ import annotations

import math

from harness.problem import Problem
from harness.tuning.cpu import KIB

# Fewest pairs for each of several threads, 5 to 10 us: waking one costs about 10 us, and one that still spins 3.
SIMD_FEWEST_PAIRS_PER_THREAD = 1 << 18

# The same of a matrix by a vector, whose pairs take as long as reading them.
SIMD_FEWEST_STREAMED_PAIRS_PER_THREAD = 1 << 17

# Fewest pairs of a part where a thread has several, and most parts of a thread. Smaller parts pack more and have more
# edges.
SIMD_FEWEST_PAIRS_PER_PART, SIMD_MOST_PARTS_PER_THREAD = 1 << 27, 4

# Parts of a matrix that is read once by several threads.
SIMD_FEWEST_BYTES_PER_PART, SIMD_MOST_STREAMED_PARTS = 4 << 20, 8

# Fewest rows of B of a part of k that has a sum of its own, which is written and read once more.
SIMD_FEWEST_ROWS_PER_SUM = 64

# Up to so many terms memory bounds a product whose C is larger than L2: then C is walked by rows, a strip of A at a
# time. By micro-panels of B each row of C is met once a panel, a few cache lines at a time.
SIMD_FEW_TERMS = 64

# Up to so many terms, from so many bytes of C and of a row of it, and while all rows of B take no more than this, each
# row of C passes through once, in one run, and is prefetched into L2 so many bytes ahead.
SIMD_UPDATE_TERMS, SIMD_UPDATE_AHEAD = 2, 4 * KIB
SIMD_FEWEST_BYTES_TO_UPDATE, SIMD_SHORTEST_UPDATE, SIMD_LONGEST_UPDATE = 512 * KIB, 128, 256 * KIB

# From so many threads, and pairs for each, the threads share panels of B, unless A has fewer rows: panels pass through
# memory, and without them each thread packs for its own columns.
SIMD_FEWEST_THREADS_TO_SHARE, SIMD_FEWEST_PAIRS_TO_SHARE, SIMD_FEWEST_ROWS_TO_SHARE = 4, 1 << 25, 640
SIMD_MANY_THREADS, SIMD_FEWEST_PAIRS_OF_MANY, SIMD_FEWEST_ROWS_OF_MANY = 16, 6_000_000, 192

# Then C is cut into so many parts for each thread, of at least so many strips of rows. The panels of a range take no
# more memory than this for each thread.
SIMD_SHARED_PARTS, SIMD_MOST_SHARED_BYTES, SIMD_SHARED_STRIPS = 16, 1 << 23, 4

# A matrix by its own transpose: from so many rows on, beyond `SIMD_FEW_TERMS`, half of the result is mirrored. The half
# is cut into so many strips of columns, and for several threads into so many parts a thread.
SIMD_FEWEST_ROWS_TO_MIRROR, SIMD_MIRRORED_STRIPS, SIMD_MIRRORED_PARTS = 96, 16, 2

# Bytes of a row, and rows, that are mirrored at once: as many runs as a processor fetches ahead, and long ones. Time of
# all of a triangle, one thread, in us, float64, n = 300, 1500, 2000, 3000: 128 bytes by 512 rows 34, 1518, 2320, 9766;
# 256 by 512 38, 1656, 4122, 17190; a strip by 256 37, 2037, 13400, 34654. Measured 2026-11-26 on the Xeon of
# docs/lab/2026-11-23-scaling.md.
SIMD_MIRRORED_BYTES, SIMD_MIRRORED_ROWS = 128, 512

# Packing B for a part costs about as much as so many more rows, and reading A as so many more columns. Rows of a part
# are a multiple of the step by which dot products take rows together.
SIMD_PACKING_ROWS, SIMD_READING_COLUMNS, SIMD_ROW_STEP = 16, 8, 4


def simd_threads(problem: Problem, threads: int, pairs_per_thread: int = SIMD_FEWEST_PAIRS_PER_THREAD) -> int:
    """Return how many of `threads` pay for a product of this size."""
    sizes = problem.m, problem.n, problem.k
    return threads_that_pay(sizes, problem.dtype.itemsize, problem.pairs, threads, pairs_per_thread)


def threads_that_pay(
    sizes: tuple[int, int, int], itemsize: int, pairs: int, threads: int, pairs_per_thread: int
) -> int:
    """Return the same for those m, n and k, and so many pairs."""
    if threads == 1:
        return 1
    m, n, k = sizes
    if m == 1 or n == 1 or updates_rows(m, n, k, itemsize):
        pairs_per_thread = min(pairs_per_thread, SIMD_FEWEST_STREAMED_PAIRS_PER_THREAD)
    return max(min(threads, pairs // pairs_per_thread), 1)


def simd_parts(pairs: int, threads: int) -> int:
    """Return the number of parts of a product: as many for each thread, none with fewer pairs than a part should have.

    With more parts than threads, a thread whose core is shared with other work computes fewer of them.
    """
    if threads == 1:
        return 1
    return threads * min(max(pairs // (threads * SIMD_FEWEST_PAIRS_PER_PART), 1), SIMD_MOST_PARTS_PER_THREAD)


def stream_parts(size_bytes: int, threads: int) -> int:
    """Return the number of parts of a matrix that is read once: more than threads, so that a late one reads fewer."""
    each = min(max(size_bytes // (threads * SIMD_FEWEST_BYTES_PER_PART), 1), SIMD_MOST_STREAMED_PARTS)
    return threads * each if threads > 1 else 1


def updates_rows(m: int, n: int, k: int, itemsize: int) -> bool:
    """Return whether each row of C passes through once, for all terms."""
    if k > SIMD_UPDATE_TERMS or min(m, n) == 1:
        return False
    is_large = m * n * itemsize >= SIMD_FEWEST_BYTES_TO_UPDATE
    is_cached = n * itemsize >= SIMD_SHORTEST_UPDATE and k * n * itemsize <= SIMD_LONGEST_UPDATE
    return is_large and is_cached


def parts_of_k(k: int, parts: int) -> int:
    """Return the number of parts of k of a vector by a matrix; 1 if combining their sums would cost too much."""
    parts = min(parts, k // SIMD_FEWEST_ROWS_PER_SUM)
    return max(parts, 1)


def thread_grid(
    m: int, n: int, parts: int, row_step: int, lanes: int, packing_rows: int = 0, reading_columns: int = 0
) -> tuple[int, int]:
    """Return the numbers of parts of m and of n that make the dearest part cheapest, and then squarest.

    Parts are multiples of `row_step` rows and of vectors of `lanes` columns. Packing its columns of B costs a part as
    much as `packing_rows` more rows, and reading its rows of A as much as `reading_columns` more columns.
    """
    if parts == 1:
        return 1, 1

    def cost(rows: int) -> tuple[int, int]:
        columns = parts // rows
        height, width = -(-m // (row_step * rows)) * row_step, -(-n // (lanes * columns)) * lanes
        return height * width + packing_rows * width + reading_columns * height, height + width

    rows = min(range(1, parts + 1), key=cost)
    return rows, parts // rows


def shared_grid(m: int, n: int, threads: int, mr: int, nr: int) -> tuple[int, int]:
    """Return the numbers of parts of m and of n where all threads share one packed B, or a range of its columns.

    Each thread has columns of its own, whose panels stay in its L2, and computes them from the top down. Where there
    are too few columns, or rows, there are more parts of the others.
    """
    parts, most_rows, most_columns = threads * SIMD_SHARED_PARTS, m // (SIMD_SHARED_STRIPS * mr), max(n // nr, 1)
    rows = max(min(parts // min(threads, most_columns), most_rows), 1)
    return rows, min(max(parts // rows, 1), most_columns) if rows < SIMD_SHARED_PARTS else min(threads, most_columns)


def triangle_grid(m: int, threads: int, parts: int) -> int:
    """Return the number of parts of each side of a triangle of m rows: equal squares, and halves on the diagonal.

    Small squares share it evenly, but each packs the rows of its columns of B. There are about `parts` or more.
    """

    def cost(side: int) -> float:
        halves = max(-(-side * side // threads), 2 * -(-side * (side - 1) // 2 // threads))
        return halves / side**2 * (1 + SIMD_PACKING_ROWS * side / m)

    least = math.isqrt(2 * parts)
    return min(range(max(least, 2), 2 * max(least, threads) + 1), key=cost) if threads > 1 else 1


def shares_panels(m: int, n: int, k: int, threads: int) -> bool:
    """Return whether all threads share one packed B."""
    if threads < SIMD_FEWEST_THREADS_TO_SHARE:
        return False
    pairs, rows = SIMD_FEWEST_PAIRS_TO_SHARE, SIMD_FEWEST_ROWS_TO_SHARE
    if threads >= SIMD_MANY_THREADS:
        pairs, rows = SIMD_FEWEST_PAIRS_OF_MANY, SIMD_FEWEST_ROWS_OF_MANY
    return m * n * k >= pairs * threads and m >= rows and k > SIMD_FEW_TERMS


def most_shared_bytes(threads: int) -> int:
    """Return the bytes of the largest panels that so many threads share: a little less than their memory holds."""
    return max(threads, 8) * SIMD_MOST_SHARED_BYTES * 15 // 16


def mirrored_strips(n: int, nr: int) -> int:
    """Return the number of strips of columns that one triangle of n columns is computed by."""
    return min(-(-n // nr), SIMD_MIRRORED_STRIPS)
