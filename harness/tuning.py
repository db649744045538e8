"""The only place with numbers: block sizes for a problem on a machine, from the sizes of its caches.

The cache model is the one of Low et al., "Analytical Modeling Is Enough for High-Performance BLIS" (2016), simplified:
a micro-panel of B stays in L1, the block of A in L2, the row-panel of B in L3, each in a share of the cache that leaves
room for what streams past.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from harness import tuned
from harness.machine import Machine
from harness.plan import Blocking
from harness.problem import Problem

KIB = 1 << 10

# Assumed where the system does not tell: the smallest caches of any x86-64 or AArch64 server of the last ten years.
ASSUMED_L1D, ASSUMED_L2, ASSUMED_L3 = 32 * KIB, 256 * KIB, 2048 * KIB

# Shares of the caches for what is used again; the rest is for what streams past. Half of L2 and L3 after Goto and van
# de Geijn (2008), section 4.2. Two thirds of L1, since kc = 512 beat 342 (half of it) by 5 to 10 % in float64 at
# n = 1024: measured 2026-11-20 with cpu-packed on an AMD EPYC (Zen 5), L1d 48 KiB, L2 1 MiB.
L1_SHARE, L2_SHARE, L3_SHARE = 2 / 3, 1 / 2, 1 / 2

# Register block of the packed rung: 16 accumulators, as the course builds it.
PACKED_MR, PACKED_NR = 4, 4

# Longest k block: beyond it the cost of updating C (one load and store per kc pairs) no longer shows.
LONGEST_KC = 1024

# Vertices in a block of pivots (harness/paths.py). With cpu-simd, one thread, float64 and float32: 64 took 1.1 to 1.5
# times as long at n = 256 and 512, 0.89 to 0.95 times at 1024 and 2048; 256 took 0.9 to 1.2 and 1.16 to 1.28 times.
# Measured 2026-11-21, in turns, on the machine above.
PATHS_BLOCK = 128

# Which backend gemm(..., backend="auto") tries first; then any other by falling step.
AUTO_FIRST = "cpu-simd"


# Bases of cpu-strassen, best first, with the smallest half that is worth a further level with that base. Time of one
# level to that of the base alone: cpu-simd float64 0.99, 0.94, 0.89 at n = 1536, 2048, 3000, float32 1.04, 0.98 at
# 2048, 3000; cpu-packed float64 1.03, 0.99 at 1536, 2048, float32 1.04, 0.97 to 1.01. Two levels were no better.
# Measured 2026-11-21, one thread, processor time on the machine above while others used it; `experiments/strassen.py`.
STRASSEN_CROSSOVER = {"cpu-simd": 1024, "cpu-packed": 1024}
STRASSEN_CROSSOVER_OTHERWISE = 1024


def strassen_crossover(base: str) -> int:
    """Return the smallest half that Strassen's recursion goes on to with `base`, in elements."""
    return STRASSEN_CROSSOVER.get(base, STRASSEN_CROSSOVER_OTHERWISE)


def packed_blocking(problem: Problem, machine: Machine) -> Blocking:
    """Choose Goto's five block sizes for `problem`: kc by L1, mc by L2, nc by L3, each split evenly over its size."""
    size = problem.dtype.itemsize
    l1d, l2, l3 = cache_sizes(machine)
    kc = split_evenly(problem.k, min(LONGEST_KC, int(l1d * L1_SHARE) // (size * (PACKED_MR + PACKED_NR))), 1)
    mc = split_evenly(problem.m, int(l2 * L2_SHARE) // (size * kc), PACKED_MR, machine.threads)
    nc = split_evenly(problem.n, int(l3 * L3_SHARE) // (size * kc), PACKED_NR)
    return Blocking(mc=mc, nc=nc, kc=kc, mr=PACKED_MR, nr=PACKED_NR)


# Blocks of the generated kernels (cpu-simd), by bytes of an element. kc: long enough that the update of C, once per kc,
# costs little; measured with 8 x 24 and 8 x 48 tiles on two machines with AVX-512 (L2 1 and 2 MiB): 384 and 512 are
# within 1 % of the best for float64 and float32. 16 more, so that sizes just beyond them have no block more: speed over
# that of the shorter blocks, float64 385 and 769 1.01, 1.01, float32 513 and 1025 1.00, 1.01, plus_times 1.02, 1.01.
# Over integers, where two pairs are done in the time of one, C counts double: int32 520, 776 and 1032 steps at n = 513,
# 1537 and 1025 1.02, 1.01, 1.03; int64 688 and 1032 steps at 1025 1.01, 1.02, but the longer ones read B from L3 at
# 15 GB/s; int16 1.03, int8 1.01. Measured 2026-11-21 in turns on the EPYC above, min_plus unless said, one thread.
# nc: a row-panel of B of 4.5 MiB, whatever L3 is: half of it and two thirds of it are as good; twice it, at
# m, n, k = 512, 6144, 384, gives 0.89 of the speed in float64, 0.98 in float32, 0.94 for min_plus, and 0.94 to 1.00 at
# n = 2048 and 3072. Measured as SIMD_SMALL.
SIMD_KC_OF_FLOATS = {8: 400, 4: 528, 2: 784}
SIMD_KC_OF_INTEGERS = {8: 704, 4: 1056, 2: 1056, 1: 1056}
SIMD_NC_BYTES = 1536 * 8

# Shares of L2: a block of A that is used by every panel of B, beside those; and a block of A that is all of m, so that
# one panel of B is packed, used and forgotten.
SIMD_A_SHARE, SIMD_ALL_OF_M_SHARE = 1 / 4, 0.6

# Up to this m, n and k, if B takes no more than this share of L2, nothing is packed. Against packing B, n = 48 to 256:
# 0.99 to 1.08 for float64 and float32, 1.00 to 1.04 for min_plus; from 257 to 424 0.97 to 1.02, about even. Measured
# 2026-11-21, one thread, processor time, on the EPYC above. On an Intel machine with L2 2 MiB the limit was 128, and
# sizes between were not measured.
SIMD_SMALL, SIMD_SMALL_SHARE = 256, 1 / 2

# Up to this m, n and k a plain product is computed at once, without a plan, on one thread.
SIMD_AT_ONCE = 128

# Fewest pairs for each of several threads: waking one costs about 10 us. (Called again at once it still spins, which
# costs about 3 us: then a quarter of this, or less, would be better.)
SIMD_FEWEST_PAIRS_PER_THREAD = 1 << 20

# Rows of A whose distance is near a multiple of this share cache sets: then A is packed. In place, n = 2048 ran at 0.74
# of the speed on the Intel machine; on the EPYC, at distances from 1 to 64 KiB, at 0.99 to 1.04 of it.
SIMD_BAD_STRIDE, SIMD_NEAR = 16 * KIB, 64

# The same for B, whose micro-panel has more rows than a set has ways, and 4 KiB is what one way of L1 holds. In place,
# at distances of 4, 8 and 16 KiB and n = 64 to 256: 0.90 to 0.98 for float64, 0.79 to 0.95 for float32; at others, 2, 6
# and 10 KiB among them, above 1. Measured as SIMD_SMALL.
SIMD_BAD_STRIDE_B = 4 * KIB
SIMD_FEW_ROWS = 32


# Columns left over after whole vectors are computed as dot products along k if that is cheaper than one more vector of
# a tile, which takes k steps: a dot product takes so many for each of its vectors of k, and for its end. Time with the
# vector over that with 1 column of dot products, 256 rows, 11 vectors in place of 10, k = 16, 64, 257, 512: min_plus
# float32 1.05, 1.08, 1.09, 1.09; float64 1.03, 1.04, 1.04, 1.05; int32 1.01, 1.03, 1.04, 1.06; int8 1.00, 1.04, 1.08,
# 1.08; plus_times float32 1.07, 1.08 at 64, 257. As many columns as the rule allows: 0.99 to 1.06. From 9 rows on it is
# the same. Measured 2026-11-21, one thread, in turns, on the EPYC above.
SIMD_DOT_VECTOR, SIMD_DOT_END = 3, 12


# Semirings whose pair is one instruction over floats; logaddexp_plus is computed as a real product.
FUSED = ("plus_times", "logaddexp_plus")


class SimdNumbers(NamedTuple):
    """What decides how cpu-simd goes about products of one kind (`simd_kind`): the model's, or what `tune` found.

    Attributes
    ----------
    kc : int
        Longest block of k, in elements.
    a_bytes, all_of_m_bytes : int
        Largest block of A; and the largest that is all of m.
    in_place_up_to : int
        Up to this m, n and k nothing is packed.
    nc_bytes : int
        Largest row of a row-panel of B.
    bad_stride_a, bad_stride_b : int
        A, and B, is packed if its rows are near a multiple of so many bytes apart.
    pairs_per_thread : int
        Fewest that a thread is worth.
    mr, nv : int
        Rows, and vectors side by side, of the register tile; 0: those of the vector unit.
    """

    kc: int
    a_bytes: int
    all_of_m_bytes: int
    in_place_up_to: int
    nc_bytes: int = SIMD_NC_BYTES
    bad_stride_a: int = SIMD_BAD_STRIDE
    bad_stride_b: int = SIMD_BAD_STRIDE_B
    pairs_per_thread: int = SIMD_FEWEST_PAIRS_PER_THREAD
    mr: int = 0
    nv: int = 0


def simd_model(problem: Problem, machine: Machine) -> SimdNumbers:
    """Return what the sizes of the caches suggest."""
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

    The unit, the bytes of an element, and whether a pair is one fused instruction or two; bools are packed into words,
    and of a kind of their own.
    """
    is_fused = problem.dtype.kind == "f" and problem.semiring.name in FUSED
    size = "bits" if problem.dtype.kind == "b" else f"{8 * problem.dtype.itemsize}-bit"
    return f"{unit} {size} {'fused' if is_fused else 'two-step'}"


def simd_numbers(problem: Problem, machine: Machine, unit: str) -> SimdNumbers:
    """Return the numbers for `problem`: those that `tune` stored for this machine, the model's for the rest."""
    found = tuned.values(machine)
    model = simd_model(problem, machine)
    changed = found.get(simd_kind(problem, unit)) if found else None
    return model._replace(**changed) if changed else model


def simd_blocking(problem: Problem, machine: Machine, mr: int, nr: int, numbers: SimdNumbers | None = None) -> Blocking:
    """Choose the cache blocks around a generated kernel of mr x nr elements; by the model if no numbers are given."""
    size, chosen = problem.dtype.itemsize, numbers or simd_model(problem, machine)
    kc = split_evenly(problem.k, chosen.kc, 8)
    is_one_block = problem.m * kc * size <= chosen.all_of_m_bytes
    largest = problem.m + mr if is_one_block else chosen.a_bytes // (kc * size)
    nc = split_evenly(problem.n, chosen.nc_bytes // size, nr)
    return Blocking(mc=split_evenly(problem.m, largest, mr), nc=nc, kc=kc, mr=mr, nr=nr)


# Blocks of products over tiles (AMX). Moving operands bounds them: C moves less often with a longer kc, and B
# with more rows of A, which must stay in L2 beside what streams. Measured 2026-11-21 on an Intel Xeon (Emerald Rapids,
# 16 cores, L2 2 MiB), one thread: docs/mixed.md.
AMX_TILE = 32
AMX_K_STEP_BYTES = 64
AMX_ROWS, AMX_LARGEST_SHARE, AMX_A_SHARE, AMX_NC = 256, 1 / 2, 1 / 4, 4096

# The largest share with several threads: with kc of 2 KiB in place of 3.6 or 4, 16 threads were 1.3 times as fast at
# n = 1800 and 2048; one thread loses 5 % by it.
AMX_LARGEST_SHARE_OF_THREADS = 1 / 4

# Waking a thread takes as long as this many pairs; not measured over tiles.
AMX_FEWEST_PAIRS = 1 << 24

# A is packed if its rows are no whole cache lines, or near a multiple of so many bytes apart. On that machine 2 KiB
# apart made no difference, 1 KiB apart packing costs 10 to 20 %, and 4 KiB apart not packing costs 6 %.
AMX_BAD_STRIDE = 4 * KIB

# Parts of a product share what they pack of an operand if a thread's share of it is not in its L2 anyway, and the whole
# takes no more memory than this. Lines that another core has packed cost some 11 ns each: to share always cost 30 % at
# n = 512, 8 to 11 % at 1000, and to share never 11 % at 1800, 12 to 16 % at 2048.
AMX_LEAST_SHARED, AMX_MOST_SHARED = 1 << 20, 1 << 28

# A thread's columns are cut into up to so many parts, which others may take over, each of no less than so many columns.
# Beside other work, over one part a thread: n = 512 1.37 (8 threads), 1024 1.19 (16) and 1.29 (8), 2048 1.02 and 1.14.
# Parts of 128 columns or more: 0.97, 1.03, 1.19, 1.06, 1.06; of 256: 0.99, 1.00, 0.99, 1.00, 0.99.
AMX_PARTS_A_THREAD, AMX_LEAST_COLUMNS = 4, 64


def amx_blocking(problem: Problem, machine: Machine) -> Blocking:
    """Choose the cache blocks around 2 x 2 tiles of C: a block of A in L2, a quarter of it unless rows are too few."""
    size, l2 = problem.input_dtype.itemsize, cache_sizes(machine)[1]
    is_one = simd_threads(problem, machine.threads, AMX_FEWEST_PAIRS) == 1
    largest = int(l2 * (AMX_LARGEST_SHARE if is_one else AMX_LARGEST_SHARE_OF_THREADS))
    kc = split_evenly(problem.k, largest // (AMX_ROWS * size), AMX_K_STEP_BYTES // size)
    rows = max(int(l2 * AMX_A_SHARE) // (kc * size), AMX_ROWS)
    mc, nc = split_evenly(problem.m, rows, AMX_TILE), split_evenly(problem.n, AMX_NC, AMX_TILE)
    return Blocking(mc=mc, nc=nc, kc=kc, mr=AMX_TILE, nr=AMX_TILE)


def amx_shares(size_bytes: int, parts: int) -> bool:
    """Whether parts of a product share what they pack of an operand of that size, which is cut in so many parts."""
    return AMX_LEAST_SHARED * parts <= size_bytes <= AMX_MOST_SHARED


def amx_finer(n: int, parts: int) -> int:
    """Return into how many parts each of `parts` parts of the columns is cut."""
    return min(max(n // (parts * AMX_LEAST_COLUMNS), 1), AMX_PARTS_A_THREAD)


def amx_reads_in_place(address: int, stride_bytes: int, rows: int) -> bool:
    """Whether rows of A that begin at `address`, `stride_bytes` apart, are read where they lie."""
    lines = AMX_K_STEP_BYTES
    return (address | stride_bytes) % lines == 0 and reads_in_place(stride_bytes, rows, AMX_BAD_STRIDE)


def simd_threads(problem: Problem, threads: int, pairs_per_thread: int = SIMD_FEWEST_PAIRS_PER_THREAD) -> int:
    """Return how many of `threads` a product is worth."""
    return max(min(threads, problem.pairs // pairs_per_thread), 1)


def thread_grid(m: int, n: int, threads: int, mr: int, nr: int) -> tuple[int, int]:
    """Return into how many parts m and n are cut: the largest part as small as can be, and then as square as can be."""

    def cost(rows: int) -> tuple[int, int]:
        columns = threads // rows
        height, width = -(-m // (mr * rows)) * mr, -(-n // (nr * columns)) * nr
        return height * width, height + width

    rows = min(range(1, threads + 1), key=cost)
    return rows, threads // rows


def reads_in_place(stride_bytes: int, rows: int, bad_stride: int = SIMD_BAD_STRIDE) -> bool:
    """Whether rows of A, or with its own `bad_stride` of B, `stride_bytes` apart, are read where they lie."""
    multiple = round(abs(stride_bytes) / bad_stride) * bad_stride
    return rows < SIMD_FEW_ROWS or multiple == 0 or abs(abs(stride_bytes) - multiple) > SIMD_NEAR


def tile_blocking(problem: Problem, machine: Machine) -> Blocking:
    """Choose the tiles of the tiled rung: a tile of A and one of B transposed share L2, and two rows of each L1."""
    size = problem.dtype.itemsize
    l1d, l2, _ = cache_sizes(machine)
    kc = split_evenly(problem.k, min(LONGEST_KC, int(l1d * L1_SHARE) // (4 * size)), 1)
    rows = int(l2 * L2_SHARE) // (2 * size * kc)
    return Blocking(mc=split_evenly(problem.m, rows, 2, machine.threads), nc=split_evenly(problem.n, rows, 2), kc=kc)


def numpy_blocking(problem: Problem, machine: Machine) -> Blocking:
    """Choose the block of C for rank-1 updates by ufuncs: it and the block of terms share L2."""
    elements = int(cache_sizes(machine)[1] * L2_SHARE) // (2 * problem.dtype.itemsize)
    nc = split_evenly(problem.n, elements, 1)
    return Blocking(mc=split_evenly(problem.m, elements // nc, 1), nc=nc, kc=1)


def cache_sizes(machine: Machine) -> tuple[int, int, int]:
    """Return L1d, L2 and L3 in bytes, assumed where the machine does not tell."""
    return machine.l1d or ASSUMED_L1D, machine.l2 or ASSUMED_L2, machine.l3 or ASSUMED_L3


def split_evenly(extent: int, largest: int, step: int, parts_of: int = 1) -> int:
    """Return a block size, a multiple of `step`, that cuts `extent` into equal blocks no larger than `largest`.

    The number of blocks is a multiple of `parts_of` (threads) where the extent is long enough, so that none waits.
    """
    largest = max(largest // step, 1) * step
    blocks = -(-extent // largest)
    blocks = max(-(-blocks // parts_of) * parts_of, 1)
    return max(-(-extent // (blocks * step)), 1) * step


# Blocks, of whole cache lines, that k is cut into for gemm_argk (harness/argk.py) by backends that number blocks
# themselves: more make the product slower, which compares once a block, and fewer the search, which reads one for each
# element. And terms in a block by any other backend, whose products of so many must run at full speed.
ARGK_BLOCKS, ARGK_BLOCK_BYTES = 64, 64
ARGK_TILE_STEPS = 256

# Blocks of k at most: the number of one is a byte, and -1 is none.
ARGK_MOST_BLOCKS = 127

# Fewest terms of k, unless there are fewer, that a product over integers is to carry beside its values: what a part of
# k costs beside its product, some 2 ns an element, must be little to it.
ARGK_PACKED_STEPS = 512

# Shares of the caches for the search: of L2 for a panel of columns of B transposed, and of L3 for the rows of A that
# stream past each panel.
ARGK_PANEL_SHARE, ARGK_ROWS_SHARE, ARGK_LEAST_COLUMNS, ARGK_LEAST_ROWS = 3 / 4, 1 / 4, 16, 64

# Columns of its tile of C, and the share of L2 that a tile has.
ARGK_COLUMNS, ARGK_SHARE = 128, 1 / 4


def argk_steps(problem: Problem) -> int:
    """Return the terms in a block of k for backends that number blocks themselves."""
    line = ARGK_BLOCK_BYTES // problem.dtype.itemsize
    return max(-(-problem.k // (line * ARGK_BLOCKS)), 1) * line


def argk_blocks(problem: Problem, machine: Machine) -> tuple[int, int, int]:
    """Return rows and columns of a tile of C, and steps of a block of k, for `gemm_argk` by any backend."""
    steps = max(ARGK_TILE_STEPS, -(-problem.k // ARGK_MOST_BLOCKS))
    rows = int(cache_sizes(machine)[1] * ARGK_SHARE) // (ARGK_COLUMNS * problem.dtype.itemsize)
    return split_evenly(problem.m, rows, 1), split_evenly(problem.n, ARGK_COLUMNS, 1), steps


def argk_searched(problem: Problem, machine: Machine) -> tuple[int, int]:
    """Return the parts of rows of C that the search of `gemm_argk` goes through, and the columns of its panels of B."""
    _, l2, l3 = cache_sizes(machine)
    column = problem.k * problem.dtype.itemsize
    largest = max(int(l3 * ARGK_ROWS_SHARE) // column, ARGK_LEAST_ROWS)
    rows = split_evenly(problem.m, largest, 1, machine.threads)
    return -(-problem.m // rows), max(int(l2 * ARGK_PANEL_SHARE) // column, ARGK_LEAST_COLUMNS)
