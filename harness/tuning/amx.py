"""Numbers of products over AMX tiles: blocks, parts, and what is packed once for all threads."""

from __future__ import annotations

from harness.machine import Machine
from harness.plan import Blocking
from harness.problem import Problem
from harness.tuning.cpu import KIB, cache_sizes, split_evenly
from harness.tuning.simd import reads_in_place, simd_threads

# Blocks of products over tiles (AMX). Moving operands bounds them: C moves less often with a longer kc, and B
# with more rows of A, which must stay in L2 beside what streams. Measured 2026-11-21 on an Intel Xeon (Emerald Rapids,
# 16 cores, L2 2 MiB), one thread: docs/lab/2026-11-21-mixed.md.
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
    """Return whether parts of a product share the packing of an operand of that size, which is cut in so many parts."""
    return AMX_LEAST_SHARED * parts <= size_bytes <= AMX_MOST_SHARED


def amx_finer(n: int, parts: int) -> int:
    """Return into how many parts each of `parts` parts of the columns is cut."""
    return min(max(n // (parts * AMX_LEAST_COLUMNS), 1), AMX_PARTS_A_THREAD)


def amx_reads_in_place(address: int, stride_bytes: int, rows: int) -> bool:
    """Return whether rows of A that begin at `address`, `stride_bytes` apart, are read where they lie."""
    lines = AMX_K_STEP_BYTES
    return (address | stride_bytes) % lines == 0 and reads_in_place(stride_bytes, rows, AMX_BAD_STRIDE)
