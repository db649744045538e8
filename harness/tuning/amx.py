"""Numbers of products over AMX tiles: block sizes, parts, and which operands are packed once for all threads."""

from __future__ import annotations

from harness.machine import Machine
from harness.plan import Blocking
from harness.problem import Problem
from harness.tuning.cpu import KIB, cache_sizes, split_evenly
from harness.tuning.simd import reads_in_place
from harness.tuning.simd_parts import simd_threads

# Blocks of products over AMX tiles. Traffic bounds them: a longer kc moves C less often, and more rows of A move B less
# often. Those rows must stay in L2 beside the operands that stream past. Measured 2026-11-21 on an Intel Xeon (Emerald
# Rapids, 16 cores, L2 2 MiB), one thread: docs/lab/2026-11-21-mixed.md.
AMX_TILE = 32
AMX_K_STEP_BYTES = 64
AMX_ROWS, AMX_LARGEST_SHARE, AMX_A_SHARE, AMX_NC = 256, 1 / 2, 1 / 4, 4096

# The largest share with several threads.
AMX_LARGEST_SHARE_OF_THREADS = 1 / 4

# Fewest pairs for each of several threads. At n = 512, bfloat16, 16 threads took 140 to 149 us, 8 took 183 us. Measured
# 2026-11-22 on the Xeon of docs/lab/2026-11-22-many-cores.md.
AMX_FEWEST_PAIRS = 1 << 23

# A is packed if its rows are no whole cache lines, or if their distance is near a multiple of this. On that machine:
# 2 KiB apart no difference; 1 KiB apart packing costs 10 to 20 %; 4 KiB apart reading in place costs 6 %.
AMX_BAD_STRIDE = 4 * KIB

# Parts of a product share one packed copy of an operand if a thread's share of it does not fit its L2 anyway. The whole
# copy takes no more memory than the second number. A line that another core packed costs some 11 ns. Always sharing
# cost 30 % at n = 512, 8 to 11 % at 1000. Never sharing cost 11 % at 1800, 12 to 16 % at 2048.
AMX_LEAST_SHARED, AMX_MOST_SHARED = 1 << 20, 1 << 28

# A thread's columns are cut into up to so many parts of at least so many columns, which other threads may take over.
AMX_PARTS_A_THREAD, AMX_LEAST_COLUMNS = 4, 64


# Up to so many columns of C, two panels of B, nothing is gained by an A that is packed, or by a block of A that stays
# in L2: each strip passes through once or twice.
AMX_FEW_COLUMNS, AMX_ROWS_OF_FEW = 64, 64

# Up to so many rows of A, one strip, a B of int8 by columns of so many bytes stays where it lies: the transposed
# product reads it in place.
AMX_ROWS_OF_ONE, AMX_LARGE_B = 32, 1 << 25


def amx_blocking(problem: Problem, machine: Machine) -> Blocking:
    """Choose cache blocks around 2 x 2 tiles of C: a block of A has a quarter of L2, or `AMX_ROWS` if that is more."""
    size, l2 = problem.input_dtype.itemsize, cache_sizes(machine)[1]
    is_one = simd_threads(problem, machine.threads, AMX_FEWEST_PAIRS) == 1
    largest = int(l2 * (AMX_LARGEST_SHARE if is_one else AMX_LARGEST_SHARE_OF_THREADS))
    step, is_narrow = AMX_K_STEP_BYTES // size, problem.n <= AMX_FEW_COLUMNS
    kc = split_evenly(problem.k, largest // ((AMX_ROWS_OF_FEW if is_narrow else AMX_ROWS) * size), step)
    if is_narrow and kc > problem.k > step:
        kc = problem.k // step * step  # what is left of k is packed by itself, and the rest read in place
    rows = max(int(l2 * AMX_A_SHARE) // (kc * size), AMX_ROWS)
    mc, nc = split_evenly(problem.m, rows, AMX_TILE), split_evenly(problem.n, AMX_NC, AMX_TILE)
    return Blocking(mc=mc, nc=nc, kc=kc, mr=AMX_TILE, nr=AMX_TILE)


def amx_shares(size_bytes: int, parts: int) -> bool:
    """Return whether `parts` parts of a product share one packed copy of an operand of `size_bytes`."""
    return AMX_LEAST_SHARED * parts <= size_bytes <= AMX_MOST_SHARED


def amx_finer(n: int, parts: int) -> int:
    """Return the number of parts that each of `parts` ranges of columns is cut into."""
    return min(max(n // (parts * AMX_LEAST_COLUMNS), 1), AMX_PARTS_A_THREAD)


def amx_leaves_b(rows: int, columns: int, k: int, size: int) -> bool:
    """Return whether `rows` rows of A leave a B by columns, of `size` bytes an element, where it lies."""
    return rows <= AMX_ROWS_OF_ONE and size == 1 and columns * k * size >= AMX_LARGE_B


def amx_reads_in_place(address: int, stride_bytes: int, rows: int, columns: int) -> bool:
    """Return whether rows of A that begin at `address`, `stride_bytes` apart, are read in place, without packing.

    `columns` are those of C.
    """
    is_aligned = (address | stride_bytes) % AMX_K_STEP_BYTES == 0
    return columns <= AMX_FEW_COLUMNS or (is_aligned and reads_in_place(stride_bytes, rows, AMX_BAD_STRIDE))
