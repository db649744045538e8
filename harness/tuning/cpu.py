"""Block sizes of the CPU ladder from the sizes of the caches, and numbers of all CPU backends.

The cache model simplifies Low et al., "Analytical Modeling Is Enough for High-Performance BLIS" (2016). A micro-panel
of B stays in L1, the block of A in L2, and the row-panel of B in L3. The two last have a share of their cache that
leaves room for the data that stream past.
"""

from __future__ import annotations

from harness.machine import Machine
from harness.plan import Blocking
from harness.problem import Problem

KIB = 1 << 10

# Assumed where the system reports none: the smallest caches of any x86-64 or AArch64 server of the last ten years.
ASSUMED_L1D, ASSUMED_L2, ASSUMED_L3 = 32 * KIB, 256 * KIB, 2048 * KIB

# Shares of the caches for data that are reused; the rest is for data that stream past.
L1_SHARE, L2_SHARE, L3_SHARE = 2 / 3, 1 / 2, 1 / 2

# Rows of the register block of the packed rung, as the course builds it.
PACKED_MR = 4

# Longest block of A by the rule of the course.
COURSE_MC = 64

# Pieces for each thread of a loop over micro-panels of B that threads share, where there are so many micro-panels.
PACKED_PIECES = 4

# Longest k block: beyond it the cost of updating C (one load and store per kc pairs) is negligible.
LONGEST_KC = 1024

# Bases of cpu-strassen, best first, with the smallest half for which one more level pays.
STRASSEN_CROSSOVER = {"cpu-simd": 1024, "cpu-packed": 1024}
STRASSEN_CROSSOVER_OTHERWISE = 1024


def strassen_crossover(base: str) -> int:
    """Return the smallest half, in elements, for which Strassen's recursion adds a level over `base`."""
    return STRASSEN_CROSSOVER.get(base, STRASSEN_CROSSOVER_OTHERWISE)


def packed_blocking(problem: Problem, machine: Machine, nr: int) -> Blocking:
    """Choose Goto's block sizes for micro-tiles of `nr` columns: kc by L1, mc by L2, nc by L3, each split evenly."""
    size = problem.dtype.itemsize
    l1d, l2, l3 = cache_sizes(machine)
    kc = split_evenly(problem.k, min(LONGEST_KC, l1d // (size * nr)), 1)
    mc = split_evenly(problem.m, int(l2 * L2_SHARE) // (size * kc), PACKED_MR, machine.threads)
    nc = split_evenly(problem.n, int(l3 * L3_SHARE) // (size * kc), nr)
    return Blocking(mc=mc, nc=nc, kc=kc, mr=PACKED_MR, nr=nr)


def course_mc(m: int, threads: int) -> int:
    """Return mc by a rule that knows no caches: the rows of a thread, in whole micro-panels, at most `COURSE_MC`.

    Source: course work on DGEMM by OpenMP, ``min(4 ceil(m / (4 threads)), 64)``.
    """
    return min(PACKED_MR * max(-(-m // (PACKED_MR * threads)), 1), COURSE_MC)


def tile_blocking(problem: Problem, machine: Machine) -> Blocking:
    """Choose the tiles of the tiled rung: one of A and one of B transposed share L2, and two rows of each share L1."""
    size = problem.dtype.itemsize
    l1d, l2, _ = cache_sizes(machine)
    kc = split_evenly(problem.k, min(LONGEST_KC, int(l1d * L1_SHARE) // (4 * size)), 1)
    rows = int(l2 * L2_SHARE) // (2 * size * kc)
    return Blocking(mc=split_evenly(problem.m, rows, 2, machine.threads), nc=split_evenly(problem.n, rows, 2), kc=kc)


def numpy_blocking(problem: Problem, machine: Machine) -> Blocking:
    """Choose the block of C for rank-1 updates by ufuncs: the block of C and the block of terms share L2."""
    elements = int(cache_sizes(machine)[1] * L2_SHARE) // (2 * problem.dtype.itemsize)
    nc = split_evenly(problem.n, elements, 1)
    return Blocking(mc=split_evenly(problem.m, elements // nc, 1), nc=nc, kc=1)


def cache_sizes(machine: Machine) -> tuple[int, int, int]:
    """Return L1d, L2 and L3 in bytes; assumed sizes where the machine reports none."""
    return machine.l1d or ASSUMED_L1D, machine.l2 or ASSUMED_L2, machine.l3 or ASSUMED_L3


def split_evenly(extent: int, largest: int, step: int, parts_of: int = 1) -> int:
    """Return a block size, a multiple of `step`, that cuts `extent` into equal blocks no larger than `largest`.

    The number of blocks is a multiple of `parts_of` (threads) where the extent is long enough, so that no thread idles.
    """
    largest = max(largest // step, 1) * step
    if extent <= largest and parts_of == 1:
        return max(-(-extent // step), 1) * step
    blocks = -(-extent // largest)
    blocks = max(-(-blocks // parts_of) * parts_of, 1)
    return max(-(-extent // (blocks * step)), 1) * step
