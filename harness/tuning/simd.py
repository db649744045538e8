"""Numbers of generated kernels: the cache model of cpu-simd, or the values that `tune` stored.

The machine of a measurement is that of `harness.tuning.cpu`, unless it says otherwise.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from harness.machine import Machine
from harness.plan import Blocking
from harness.problem import Problem
from harness.tuning import stored as tuning_stored
from harness.tuning.cpu import KIB, cache_sizes, split_evenly

# Blocks of the generated kernels (cpu-simd), by bytes of an element. kc is long enough that the update of C, once per
# kc, costs little: 384 and 512 are within 1 % of the best for float64 and float32 (8 x 24 and 8 x 48 tiles, two
# machines with AVX-512, L2 1 and 2 MiB). 16 steps more avoid an extra block at sizes just beyond these. Speed over the
# shorter blocks: float64 385 and 769 1.01, 1.01, float32 513 and 1025 1.00, 1.01, plus_times 1.02, 1.01. Integers do
# two pairs in the time of one, so C counts double: int32 520, 776 and 1032 steps at n = 513, 1537 and 1025 1.02, 1.01,
# 1.03; int64 688 and 1032 steps at 1025 1.01, 1.02, but the longer ones read B from L3 at 15 GB/s; int16 1.03, int8
# 1.01. Measured 2026-11-21, interleaved, on the EPYC above, min_plus unless said, one thread.
# nc: a row-panel of B of 4.5 MiB, whatever L3 is. Half of it and two thirds of it are as good. Twice it, at
# m, n, k = 512, 6144, 384, gives 0.89 of the speed in float64, 0.98 in float32, 0.94 for min_plus; 0.94 to 1.00 at
# n = 2048 and 3072. Measured as SIMD_SMALL.
SIMD_KC_OF_FLOATS = {8: 400, 4: 528, 2: 784}
SIMD_KC_OF_INTEGERS = {8: 704, 4: 1056, 2: 1056, 1: 1056}
SIMD_NC_BYTES = 1536 * 8

# Shares of L2: for a block of A that every panel of B reuses, beside those panels; and for a block of A that is all of
# m. In the latter case one panel of B is packed, used once and overwritten.
SIMD_A_SHARE, SIMD_ALL_OF_M_SHARE = 1 / 4, 0.6

# Up to this m and n nothing is packed, if B takes no more than this share of L2 with as many terms. Speed over packing
# B: n = 48 to 256 0.99 to 1.08 for float64 and float32, 1.00 to 1.04 for min_plus; 257 to 424 0.97 to 1.02. Measured
# 2026-11-21, one thread, processor time, on the EPYC above. On an Intel machine with L2 2 MiB the limit was 128; sizes
# between were not measured.
SIMD_SMALL, SIMD_SMALL_SHARE = 256, 1 / 2

# More terms too are multiplied in place up to so many rows of A, if rows of B are less than so many bytes apart. A is,
# whatever the distance of its rows, up to SIMD_SMALL columns. Speed over packing, float64 and float32: 32 x 32 x 5000
# 1.20, 1.30; 16 x 16 x 20000 1.22, 1.35; 64 x 64 x 9000 1.14, 1.11; 128 x 128 x 5000 1.04, 1.07; 24 x 64 x 1000 1.38,
# 1.40. With rows of A at a bad distance 32 x 32 x 16384 1.46, 1.57; 128 x 128 x 4096 1.16, 1.19; 400 x 32 x 4096 1.47,
# 1.59, with A alone in place 1.45, 1.58; 32 x 200 x 8192 with A alone 1.04, 1.08. 64 x 64 x 3000 with rows of B 1200
# bytes apart 1.02, 2400 1.02, 4000 0.98. Measured 2026-11-23, one thread of a Xeon (Granite Rapids).
SIMD_FEW_ROWS_OF_A, SIMD_NEAR_ROWS_OF_B = 128, 2560

# Most rows of a packed panel of B, where the rows of B are at a bad distance, and a column of A has no more bytes (of
# elements of 4 or more). Speed of 256 over 512, float32, n = 2048, k = 512, m = 16, 32, 49, 64, 96, 128, 192, 256:
# 1.16, 1.12, 1.09, 1.10, 1.08, 1.08, 1.06, 1.04; 2048 terms 1.11. At other distances 0.96 to 1.02. Of 256 over 344,
# float64, 1024 columns and terms, 100 rows 1.03, 200 rows 0.98. Measured as above.
SIMD_ROWS_AT_BAD_DISTANCE, SIMD_LOW_BYTES = 256, 1024

# Up to this m, n and k a plain product is computed directly, without a plan, on one thread.
SIMD_AT_ONCE = 128

# Up to so many pairs, 10 us, a product on one thread keeps the GIL. Releasing it costs 0.05 to 0.1 us.
SIMD_MOST_PAIRS_WITH_GIL = 1 << 19

# Fewest pairs for each of several threads: waking one costs about 10 us. (Called again at once, a thread still spins
# and costs about 3 us: then a quarter of this, or less, would be better.)
SIMD_FEWEST_PAIRS_PER_THREAD = 1 << 20

# The same of a matrix by a vector, whose pairs take as long as reading them. Speed of two threads over one, called
# again at once: 520 x 520 1.49 (float32), 1.55 (float64), 700 x 700 1.44, 1.69, 1000 x 1000 1.4, 1.3, 30 x 10000 1.59,
# 1.59, 10 x 100000 1.68, 1.89. Measured 2026-11-23, medians in turns, 2 cores of an EPYC (Zen 4).
SIMD_FEWEST_STREAMED_PAIRS_PER_THREAD = 1 << 17

# Fewest pairs of a part where a thread has several, and most parts of a thread. Smaller parts pack more and have more
# edges. With two threads, n = 500, four parts took 1.04 times as long as two, eight 1.15 times. Where threads of
# another library spin beside (docs/embedding.md), n = 1000 ran at 0.52 of its speed with two parts, 0.69 with four.
# Measured 2026-11-22, float64, on the EPYC above.
SIMD_FEWEST_PAIRS_PER_PART, SIMD_MOST_PARTS_PER_THREAD = 1 << 27, 4

# A is packed if the distance of its rows is near a multiple of this, since such rows share cache sets. In place,
# n = 2048 ran at 0.74 of the speed on the Intel machine; on the EPYC at 0.99 to 1.04, at distances of 1 to 64 KiB.
SIMD_BAD_STRIDE, SIMD_NEAR = 16 * KIB, 64

# The same for B. Its micro-panel has more rows than a set has ways, and one way of L1 holds 4 KiB. In place, at
# distances of 4, 8 and 16 KiB and n = 64 to 256: 0.90 to 0.98 for float64, 0.79 to 0.95 for float32. At other
# distances, 2, 6 and 10 KiB among them, above 1. Measured as SIMD_SMALL.
SIMD_BAD_STRIDE_B = 4 * KIB
SIMD_FEW_ROWS = 32

# Columns left over after whole vectors are computed as dot products along k if that is cheaper than one more vector of
# a tile. That vector takes k steps; a dot product so many for each of its vectors of k, and for its end. Time with the
# vector over that with 1 column of dot products (256 rows, 11 vectors in place of 10, k = 16, 64, 257, 512): min_plus
# float32 1.05, 1.08, 1.09, 1.09; float64 1.03, 1.04, 1.04, 1.05; int32 1.01, 1.03, 1.04, 1.06; int8 1.00, 1.04, 1.08,
# 1.08; plus_times float32 1.07, 1.08 at 64, 257. As many columns as the rule allows: 0.99 to 1.06; the same from 9 rows
# on. Measured 2026-11-21, one thread, interleaved, on the EPYC above.
SIMD_DOT_VECTOR, SIMD_DOT_END = 3, 12

# Parts of a matrix that is read once by several threads.
SIMD_FEWEST_BYTES_PER_PART, SIMD_MOST_STREAMED_PARTS = 4 << 20, 8

# A matrix that meets a vector: bytes of the shortest rows that are taken one by one, and of the longest ones, of A and
# of B, if there are no gaps between them. Others are taken eight at a time, and prefetched into L2 so many bytes ahead.
# A x (x A) by one row, and by eight, of the rate of a sum, float64, one thread: rows of 64 bytes 0.44, 0.80 (0.31,
# 0.83), 128 0.86, 1.04 (0.63, 0.99), 200 1.17, 0.85 (0.95, 0.89), 800 1.12, 0.41 (0.95, 0.41), 4096 1.16, 0.84 (1.02,
# 0.79), 12800 0.98, 0.88 (0.89, 0.89), 24000 0.77, 1.04 (0.67, 1.05), 65536 0.77, 1.11 (0.64, 1.07). Rows of 4000
# bytes, 24000 apart: 0.36, 0.61 (0.34, 0.66). Prefetches into L1, 1 KiB ahead, as before: 0.96 (0.79) at 65536. Eight
# rows of 8192, 8193, 3000, 8001 float32, two threads, without prefetches: 0.96, 0.96, 0.93, 0.99 (0.97, 0.93, 0.89,
# 1.02); into L2 1.06, 1.01, 0.97, 1.00 (1.06, 0.96, 0.95, 1.02). Measured 2026-11-23 with intrinsics in C, on the EPYC
# of docs/lab/2026-11-23-matrix-vector.md. On its Xeon rows taken one by one want prefetches too, of the rows behind:
# 2 KiB ahead over none, 100 columns, float64 and float32, plus_times A x 1.18, 1.24, x A 1.33, 1.37, min_plus 1.34,
# 1.26, and 1.04, 1.06; 3000 columns 1.0 to 1.1.
SIMD_ROWS_ALONE = 192, 16 * KIB, 8 * KIB
SIMD_ROWS_AHEAD = 2 * KIB

# Fewest rows of B of a part of k that has a sum of its own, which is written and read once more.
SIMD_FEWEST_ROWS_PER_SUM = 64

# Bytes of the longest sum of a part of k. It is read and written once every eight rows, so it must stay in L2. Threads
# share the columns of wider matrices: 128 x 10^6 in two parts of k ran at 0.6 of NumPy, two threads, 2026-11-22.
SIMD_LONGEST_SUM = 512 * KIB

# Up to so many terms memory bounds a product whose C is larger than L2: then C is walked by rows, a strip of A at a
# time. By micro-panels of B each row of C is met once a panel, a few cache lines at a time. Speed over that order,
# n = 3000, float64, one thread of a busy machine: 2.5 to 3 (k = 1 and 16).
SIMD_FEW_TERMS = 64

# Up to so many terms, from so many bytes of C and of a row of it, and while all rows of B take no more than this, each
# row of C passes through once, in one run, and is prefetched into L2 so many bytes ahead. Speed over the register tile
# with a C, one thread, 300, 1000, 4000 or 6000 rows and columns: k = 1 float64 1.21, 1.03, 1.18, float32 1.32, 1.06,
# 1.22; k = 2 1.10, 1.06, 1.16, and 1.11, 1.11, 1.05; k = 4 0.85, 0.58 (1500), 1.05. Without a C 1.2 to 1.7. B beyond
# L2, 20 x 200000: 0.57. Prefetches over none, 8191 rows, two threads: 1 KiB ahead 1.18 (float64 and float32), 2 KiB
# 1.21, 4 KiB 1.24; at 1500 rows the same. Measured 2026-11-23 on the Xeon of docs/lab/2026-11-23-matrix-vector.md.
SIMD_UPDATE_TERMS, SIMD_UPDATE_AHEAD = 2, 4 * KIB
SIMD_FEWEST_BYTES_TO_UPDATE, SIMD_SHORTEST_UPDATE, SIMD_LONGEST_UPDATE = 512 * KIB, 128, 256 * KIB

# From so many threads, and pairs for each, the threads share panels of B. C is cut into so many parts for each, of at
# least so many strips of rows. The panels of a range take no more memory than this for each thread. Speed over parts
# that pack for themselves, 16 threads, n = 1000, 1500, 2048, 3000, 4096: float64 1.12, 1.20, 1.19, 0.96, 1.20, float32
# 1.04, 1.21, 1.13, 0.97, 1.09 (2026-11-22). Sharing at n = 300 and 500: 0.65, 0.95. Parts of the same columns one after
# the other, on the processor whose L2 has their panels: 1.21 and 1.26 of the speed of parts in any order at n = 1000,
# 1.03 at 2048. With 8 parts a thread, threads waited for the last part for 7 to 9 % of the time. Speed of 16 over 8,
# two runs, n = 1000, 1500, 2048, 3000: float64 1.02 and 1.04, 1.03 and 1.02, 1.14 and 1.16, 1.03 and 1.04, float32
# 1.04 and 1.00, 1.02 and 1.04, 1.04 and 1.05, 1.01 and 1.03; min_plus, n = 1000, 2000: 1.02 and 1.01, 1.04 and 1.02.
# Measured on the Xeon of docs/lab/2026-11-23-scaling.md.
SIMD_FEWEST_THREADS_TO_SHARE, SIMD_FEWEST_PAIRS_TO_SHARE, SIMD_SHARED_PARTS = 4, 1 << 25, 16
SIMD_MOST_SHARED_BYTES, SIMD_SHARED_STRIPS = 1 << 23, 4

# A matrix by its own transpose: from so many rows on, beyond `SIMD_FEW_TERMS`, half of the result is mirrored. The half
# is cut into so many strips of columns, and for several threads into so many parts a thread. Blocks of so many rows are
# mirrored at once. Speed over numpy.matmul (SYRK), n = 300, 12, 16, 24, 32 strips: float64 1.2, 1.28, 1.28, 1.28; at
# n = 1500 1.00, 0.99, 0.95, 0.93, float32 0.99, 1.04, 1.03, 1.00. Measured 2026-11-22, one thread of a busy EPYC. Since
# tiles above the diagonal are left out, 6, 10 and 16 strips are alike, and 4 or 8 parts a thread no better than 2
# (docs/lab/2026-11-23-batches-cpu.md).
SIMD_FEWEST_ROWS_TO_MIRROR, SIMD_MIRRORED_STRIPS, SIMD_MIRRORED_PARTS, SIMD_MIRRORED_ROWS = 96, 16, 2, 256

# Packing B for a part costs about as much as so many more rows, and reading A as so many more columns. Rows of a part
# are a multiple of the step by which dot products take rows together, so their bits are those of one thread. Speed of
# 2 x 8, 8 x 2, 4 x 4, 1 x 16 parts on 16 threads, n = 300: 1, 0.90, 0.88, 0.87, n = 500: 1.12, 1.10, 1.14, 1.
# Measured 2026-11-23 on the Xeon of docs/lab/2026-11-23-scaling.md.
SIMD_PACKING_ROWS, SIMD_READING_COLUMNS, SIMD_ROW_STEP = 16, 8, 4

# Semirings whose pair is one instruction over floats; logaddexp_plus is computed as a real product.
FUSED = ("plus_times", "logaddexp_plus")


class SimdNumbers(NamedTuple):
    """Numbers of cpu-simd for products of one kind (`simd_kind`), from the cache model or from `tune`."""

    kc: int  # longest block of k [elements]
    a_bytes: int  # largest block of A
    all_of_m_bytes: int  # largest block of A that is all of m
    in_place_up_to: int  # up to this m and n nothing is packed
    nc_bytes: int = SIMD_NC_BYTES  # largest row of a row-panel of B
    bad_stride_a: int = SIMD_BAD_STRIDE  # A is packed if its rows are near a multiple of so many bytes apart
    bad_stride_b: int = SIMD_BAD_STRIDE_B  # the same for B
    pairs_per_thread: int = SIMD_FEWEST_PAIRS_PER_THREAD  # fewest that a thread is worth
    mr: int = 0  # rows of the register tile; 0: those of the vector unit
    nv: int = 0  # vectors side by side in the register tile; 0: those of the vector unit


def simd_model(problem: Problem, machine: Machine) -> SimdNumbers:
    """Return the numbers that follow from the sizes of the caches."""
    return _simd_model(problem.dtype.kind == "f", problem.dtype.itemsize, cache_sizes(machine)[1])


@functools.cache
def _simd_model(is_float: bool, size: int, l2: int) -> SimdNumbers:
    return SimdNumbers(
        kc=(SIMD_KC_OF_FLOATS if is_float else SIMD_KC_OF_INTEGERS)[size],
        a_bytes=int(l2 * SIMD_A_SHARE),
        all_of_m_bytes=int(l2 * SIMD_ALL_OF_M_SHARE),
        in_place_up_to=min(SIMD_SMALL, math.isqrt(int(l2 * SIMD_SMALL_SHARE) // size)),
    )


def simd_kind(problem: Problem, unit: str) -> str:
    """Return the kind of product that shares its tuned numbers with `problem` on a vector unit.

    The kind names the unit, the bytes of an element, and whether a pair is one fused instruction or two. Bools, packed
    into words, are a kind of their own.
    """
    is_fused = problem.dtype.kind == "f" and problem.semiring.name in FUSED
    size = "bits" if problem.dtype.kind == "b" else f"{8 * problem.dtype.itemsize}-bit"
    return f"{unit} {size} {'fused' if is_fused else 'two-step'}"


def simd_numbers(problem: Problem, machine: Machine, unit: str) -> SimdNumbers:
    """Return the numbers for `problem`: those that `tune` stored for this machine, the model's for the rest."""
    stored = tuning_stored.values(machine)
    model = simd_model(problem, machine)
    changed = stored.get(simd_kind(problem, unit)) if stored else None
    return model._replace(**changed) if changed else model


def simd_blocking(problem: Problem, machine: Machine, mr: int, nr: int, numbers: SimdNumbers | None = None) -> Blocking:
    """Choose the cache blocks around a generated kernel of mr x nr elements; by the model if no numbers are given."""
    size, chosen = problem.dtype.itemsize, numbers or simd_model(problem, machine)
    kc = split_evenly(problem.k, chosen.kc, 8)
    rows, threads = problem.m, simd_threads(problem, machine.threads, chosen.pairs_per_thread)
    if shares_panels(problem.m, problem.n, problem.k, threads):  # a block of A is then all rows of a part
        rows = -(-problem.m // shared_grid(problem.m, problem.n, threads, mr, nr)[0])
    is_one_block = rows * kc * size <= chosen.all_of_m_bytes
    largest = rows + mr if is_one_block else chosen.a_bytes // (kc * size)
    if problem.k <= SIMD_FEW_TERMS and problem.m * problem.n * size > cache_sizes(machine)[1]:
        largest = mr
    nc = split_evenly(problem.n, chosen.nc_bytes // size, nr)
    return Blocking(mc=split_evenly(problem.m, largest, mr), nc=nc, kc=kc, mr=mr, nr=nr)


def kc_at_bad_distance(m: int, k: int, itemsize: int) -> int:
    """Return the longest block of k where the rows of B are at a bad distance."""
    is_low = m * max(itemsize, 4) <= SIMD_LOW_BYTES
    return split_evenly(k, SIMD_ROWS_AT_BAD_DISTANCE, 8) if is_low else k


def simd_threads(problem: Problem, threads: int, pairs_per_thread: int = SIMD_FEWEST_PAIRS_PER_THREAD) -> int:
    """Return how many of `threads` pay for a product of this size."""
    if 1 in (problem.m, problem.n) or updates_rows(problem.m, problem.n, problem.k, problem.dtype.itemsize):
        pairs_per_thread = min(pairs_per_thread, SIMD_FEWEST_STREAMED_PAIRS_PER_THREAD)
    return max(min(threads, problem.pairs // pairs_per_thread), 1)


def simd_parts(pairs: int, threads: int) -> int:
    """Return the number of parts of a product: as many for each thread, none with fewer pairs than a part should have.

    With more parts than threads, a thread whose core is shared with other work computes fewer of them.
    """
    each = min(max(pairs // (threads * SIMD_FEWEST_PAIRS_PER_PART), 1), SIMD_MOST_PARTS_PER_THREAD)
    return threads * each if threads > 1 else 1


def stream_parts(size_bytes: int, threads: int) -> int:
    """Return the number of parts of a matrix that is read once: more than threads, so that a late one reads fewer."""
    each = min(max(size_bytes // (threads * SIMD_FEWEST_BYTES_PER_PART), 1), SIMD_MOST_STREAMED_PARTS)
    return threads * each if threads > 1 else 1


def updates_rows(m: int, n: int, k: int, itemsize: int) -> bool:
    """Return whether each row of C passes through once, for all terms."""
    is_large = m * n * itemsize >= SIMD_FEWEST_BYTES_TO_UPDATE
    is_cached = n * itemsize >= SIMD_SHORTEST_UPDATE and k * n * itemsize <= SIMD_LONGEST_UPDATE
    return min(m, n) > 1 and k <= SIMD_UPDATE_TERMS and is_large and is_cached


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
    is_large = m * n * k >= SIMD_FEWEST_PAIRS_TO_SHARE * threads and k > SIMD_FEW_TERMS
    return threads >= SIMD_FEWEST_THREADS_TO_SHARE and is_large


def most_shared_bytes(threads: int) -> int:
    """Return the bytes of the largest panels that so many threads share: a little less than their memory holds."""
    return max(threads, 8) * SIMD_MOST_SHARED_BYTES * 15 // 16


def mirrored_strips(n: int, nr: int) -> int:
    """Return the number of strips of columns that one triangle of n columns is computed by."""
    return min(-(-n // nr), SIMD_MIRRORED_STRIPS)


def reads_in_place(stride_bytes: int, rows: int, bad_stride: int = SIMD_BAD_STRIDE) -> bool:
    """Return whether rows `stride_bytes` apart are read in place: of A, or of B with its own `bad_stride`."""
    multiple = round(abs(stride_bytes) / bad_stride) * bad_stride
    return rows < SIMD_FEW_ROWS or multiple == 0 or abs(abs(stride_bytes) - multiple) > SIMD_NEAR
