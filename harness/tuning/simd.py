"""Numbers of generated kernels: the cache model of cpu-simd, or the values that `tune` stored.

The machine of a measurement is that of `harness.tuning.cpu`, unless it says otherwise.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from harness.dtypes import is_bool, is_complex, is_exact, is_float, parts_dtype
from harness.machine import Machine
from harness.plan import Blocking
from harness.problem import Problem
from harness.tuning import stored as tuning_stored
from harness.tuning.cpu import KIB, cache_sizes, split_evenly
from harness.tuning.simd_parts import (
    SIMD_FEW_TERMS,
    SIMD_FEWEST_PAIRS_PER_THREAD,
    shared_grid,
    shares_panels,
    simd_threads,
)

# Bytes of the vectors that most limits were measured with. Those of shorter ones are given apart.
SIMD_LONG_VECTOR = 64

# Blocks of the generated kernels (cpu-simd), by bytes of an element. kc is long enough that the update of C, once per
# kc, costs little; 16 steps more avoid an extra block at sizes just beyond. nc: a row-panel of B of 4.5 MiB, whatever
# L3 is.
SIMD_KC_OF_FLOATS = {8: 400, 4: 528, 2: 784}
SIMD_KC_OF_INTEGERS = {8: 704, 4: 1056, 2: 1056, 1: 1056}
SIMD_NC_BYTES = 1536 * 8

# Shares of L2: for a block of A that every panel of B reuses, beside those panels; and for a block of A that is all of
# m. In the latter case one panel of B is packed, used once and overwritten.
SIMD_A_SHARE, SIMD_ALL_OF_M_SHARE = 1 / 4, 0.6

# Up to this m and n nothing is packed, if B takes no more than this share of L2 with as many terms.
SIMD_SMALL, SIMD_SMALL_SHARE = 256, 1 / 2

# More terms too are multiplied in place up to so many rows of A, if rows of B are less than so many bytes apart. A is,
# whatever the distance of its rows, up to SIMD_SMALL columns.
SIMD_FEW_ROWS_OF_A, SIMD_NEAR_ROWS_OF_B = 128, 2560

# Few strips of A do not repay packing B: two if a row of B has at least so many bytes, four if it has the second
# number, one always. A tile meets B in pieces of a few cache lines, each in another page: so of a B larger than this
# share of L2 as many rows are taken at a time as the processor's prefetchers follow. By vectors of 32 bytes all but one
# strip repay it, unless rows meet in one set of L2.
SIMD_ROWS_FOR_TWO_STRIPS, SIMD_ROWS_FOR_FOUR = 4 * KIB, 16 * KIB
SIMD_ROWS_IN_ONE_SET = 64 * KIB
SIMD_STREAMED_ROWS, SIMD_NEAR_B_SHARE = 32, 3 / 4

# Up to so many rows of A, with so many times as many terms and columns, B by columns is read in place as the first
# operand of the transposed product, and the result copied.
SIMD_TURNED_ROWS, SIMD_TURNED_TERMS, SIMD_TURNED_COLUMNS = 64, 16, 4

# Most rows of a packed panel of B, where the rows of B are at a bad distance, and a column of A has no more bytes (of
# elements of 4 or more).
SIMD_ROWS_AT_BAD_DISTANCE, SIMD_LOW_BYTES = 256, 1024

# Up to this m, n and k a plain product is computed directly, without a plan, on one thread. Where several threads may
# be used, up to the second: 40 us in float64, as waking them takes 20 to 30 (docs/lab/2026-11-26-many-threads.md).
SIMD_AT_ONCE, SIMD_AT_ONCE_BESIDE_THREADS = 128, 104

# Up to so many pairs, 10 us, a product on one thread keeps the GIL.
SIMD_MOST_PAIRS_WITH_GIL = 1 << 19

# A is packed if the distance of its rows is near a multiple of this, since such rows share cache sets.
SIMD_BAD_STRIDE, SIMD_NEAR = 16 * KIB, 64

# The same for B. Its micro-panel has more rows than a set has ways, and one way of L1 holds 4 KiB.
SIMD_BAD_STRIDE_B = 4 * KIB
SIMD_FEW_ROWS = 32

# Columns left over after whole vectors are computed as dot products along k if that is cheaper than one more vector of
# a tile. That vector takes k steps; a dot product so many for each of its vectors of k, and for its end.
SIMD_DOT_VECTOR, SIMD_DOT_END = 3, 12


class Streams(NamedTuple):
    """How the rows of a matrix that meets a vector are read."""

    longest_of_a: int  # longest rows of A that are taken one by one [bytes]
    longest_of_b: int  # the same of B
    ahead: int  # what is prefetched, so far behind what is read [bytes]; 0: nothing


# A matrix that meets a vector: bytes of the shortest rows that are taken one by one, and of the longest ones, of A and
# of B, if there are no gaps between them. Others are taken eight at a time, and prefetched into L2 so many bytes ahead.
# A processor of 256-bit vectors wants no prefetch, and fewer rows alone.
SIMD_SHORTEST_ALONE = 192
SIMD_STREAMS = Streams(16 * KIB, 8 * KIB, 2 * KIB)
SIMD_STREAMS_OF_SHORT_VECTORS = Streams(3 * KIB, 3 * KIB, 0)


def streams(vector_bytes: int) -> Streams:
    """Return how rows are read by vectors of so many bytes."""
    return SIMD_STREAMS if vector_bytes >= SIMD_LONG_VECTOR else SIMD_STREAMS_OF_SHORT_VECTORS


# Bytes of the longest sum of a part of k. It is read and written once every eight rows, so it must stay in L2.
SIMD_LONGEST_SUM = 512 * KIB

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
    near_b_bytes: int = 1 << 40  # largest B that is read in place by blocks of kc, else few rows at a time
    pairs_per_thread: int = SIMD_FEWEST_PAIRS_PER_THREAD  # fewest that a thread is worth
    mr: int = 0  # rows of the register tile; 0: those of the vector unit
    nv: int = 0  # vectors side by side in the register tile; 0: those of the vector unit


def simd_model(problem: Problem, machine: Machine) -> SimdNumbers:
    """Return the numbers that follow from the sizes of the caches."""
    part = parts_dtype(problem.dtype)
    return _simd_model(is_float(part), part.itemsize, problem.dtype.itemsize, cache_sizes(machine)[1])


@functools.cache
def _simd_model(has_floats: bool, part: int, size: int, l2: int) -> SimdNumbers:
    return SimdNumbers(
        kc=(SIMD_KC_OF_FLOATS if has_floats else SIMD_KC_OF_INTEGERS)[part],
        a_bytes=int(l2 * SIMD_A_SHARE),
        all_of_m_bytes=int(l2 * SIMD_ALL_OF_M_SHARE),
        in_place_up_to=min(SIMD_SMALL, math.isqrt(int(l2 * SIMD_SMALL_SHARE) // size)),
        near_b_bytes=int(l2 * SIMD_NEAR_B_SHARE),
    )


def simd_kind(problem: Problem, unit: str) -> str:
    """Return the kind of product that shares its tuned numbers with `problem` on a vector unit.

    The kind names the unit, the bytes of an element, and whether a pair is one fused instruction or two. Bools, packed
    into words, are a kind of their own.
    """
    is_fused = not is_exact(problem.dtype) and problem.semiring.name in FUSED
    size = "bits" if is_bool(problem.dtype) else f"{8 * problem.dtype.itemsize}-bit"
    size += " complex" if is_complex(problem.dtype) else ""
    return f"{unit} {size} {'fused' if is_fused else 'two-step'}"


def simd_numbers(problem: Problem, machine: Machine, unit: str) -> SimdNumbers:
    """Return the numbers for `problem`: those that `tune` stored for this machine, the model's for the rest."""
    stored = tuning_stored.values(machine)
    model = simd_model(problem, machine)
    changed = stored.get(simd_kind(problem, unit)) if stored else None
    return model._replace(**changed) if changed else model


def simd_blocking(problem: Problem, machine: Machine, mr: int, nr: int, numbers: SimdNumbers | None = None) -> Blocking:
    """Choose the cache blocks around a generated kernel of mr x nr elements; by the model if no numbers are given."""
    chosen = numbers or simd_model(problem, machine)
    threads, l2 = simd_threads(problem, machine.threads, chosen.pairs_per_thread), cache_sizes(machine)[1]
    tile = Blocking(mc=mr, nc=nr, kc=1, mr=mr, nr=nr)
    return blocks_around(tile, (problem.m, problem.n, problem.k), problem.dtype.itemsize, threads, l2, chosen)


def blocks_around(
    tile: Blocking, sizes: tuple[int, int, int], itemsize: int, threads: int, l2: int, numbers: SimdNumbers
) -> Blocking:
    """Return the cache blocks of a product of those m, n and k around the register tile of `tile`.

    `threads`: those that compute it (`simd_threads`); `l2`: bytes of the cache.
    """
    (m, n, k), mr, nr = sizes, tile.mr, tile.nr
    kc, rows = split_evenly(k, numbers.kc, 8), m
    if shares_panels(m, n, k, threads):  # a block of A is then all rows of a part
        rows = -(-m // shared_grid(m, n, threads, mr, nr)[0])
    row_bytes = kc * itemsize
    largest = rows + mr if rows * row_bytes <= numbers.all_of_m_bytes else numbers.a_bytes // row_bytes
    if k <= SIMD_FEW_TERMS and m * n * itemsize > l2:
        largest = mr
    nc = split_evenly(n, numbers.nc_bytes // itemsize, nr)
    return tile.resized(mc=split_evenly(m, largest, mr), nc=nc, kc=kc)


def largest_at_once(threads: int) -> int:
    """Return up to which m, n and k a plain product is computed directly, where it may use so many threads."""
    return SIMD_AT_ONCE if threads == 1 else SIMD_AT_ONCE_BESIDE_THREADS


def flat_strips(row_bytes: int, apart: int, vector_bytes: int) -> int:
    """Return up to how many strips of A do not repay packing a B whose rows have so many bytes, so far apart.

    A strip of short vectors has few rows and columns, and meets B more often.
    """
    is_short = vector_bytes < SIMD_LONG_VECTOR and apart % SIMD_ROWS_IN_ONE_SET != 0
    if row_bytes < SIMD_ROWS_FOR_TWO_STRIPS or is_short:
        return 1
    return 2 if row_bytes < SIMD_ROWS_FOR_FOUR else 4


def turns_product(m: int, n: int, k: int) -> bool:
    """Return whether few rows of A by a B with contiguous columns are computed as the transposed product."""
    return 1 < m <= SIMD_TURNED_ROWS and k >= SIMD_TURNED_TERMS * m and n >= SIMD_TURNED_COLUMNS * m


def kc_at_bad_distance(m: int, k: int, itemsize: int) -> int:
    """Return the longest block of k where the rows of B are at a bad distance."""
    is_low = m * max(itemsize, 4) <= SIMD_LOW_BYTES
    return split_evenly(k, SIMD_ROWS_AT_BAD_DISTANCE, 8) if is_low else k


def reads_in_place(stride_bytes: int, rows: int, bad_stride: int = SIMD_BAD_STRIDE) -> bool:
    """Return whether rows `stride_bytes` apart are read in place: of A, or of B with its own `bad_stride`."""
    multiple = round(abs(stride_bytes) / bad_stride) * bad_stride
    return rows < SIMD_FEW_ROWS or multiple == 0 or abs(abs(stride_bytes) - multiple) > SIMD_NEAR
