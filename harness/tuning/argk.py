"""Numbers of `gemm_argk`: blocks of k, tiles, and panels of the search."""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.machine import Machine
from harness.problem import Problem
from harness.tuning.cpu import cache_sizes, split_evenly

# Blocks of whole cache lines that k is cut into for gemm_argk (harness/api/argk/), by backends that number blocks
# themselves. More blocks slow down the product, which compares once a block. Fewer slow down the search, which reads
# one for each element. Where k is long, blocks keep 32 terms, up to 128 blocks: the number of one is a byte, and -1 is
# none. Beyond that the terms in a block are a power of two, since each number of them is compiled. A longer k than
# ARGK_LONGEST is cut into slices. ARGK_TILE_STEPS: terms in a block by any other backend, enough for products at full
# speed.
ARGK_BLOCKS, ARGK_MOST_BLOCKS, ARGK_BLOCK_STEPS, ARGK_BLOCK_BYTES = 64, 128, 32, 64
ARGK_LONGEST = 128 * ARGK_MOST_BLOCKS
ARGK_TILE_STEPS = 256

# Fewest terms of k (or all, if k has fewer) for which an integer product carries k beside its values. A part of k costs
# some 2 ns an element beside its product, which must be a small share of it.
ARGK_PACKED_STEPS = 512

# Shares of the caches for the search: of L2 for a panel of columns of B transposed, of L3 for the rows of A that stream
# past it. Panels are never narrow, and row ranges never short: A is read once a panel, and B transposed once a range.
# At k = 4096 that saves more than a panel within L2.
ARGK_PANEL_SHARE, ARGK_ROWS_SHARE, ARGK_LEAST_COLUMNS, ARGK_LEAST_ROWS = 3 / 4, 1 / 4, 192, 2048

# Columns of a tile of C for any other backend, and the share of L2 that the tile has.
ARGK_COLUMNS, ARGK_SHARE = 128, 1 / 4


# Most pairs of a product for which cpu-simd tracks every single term of k, without a search.
ARGK_TRACKED_PAIRS = 1 << 20


def tracks_every_term(problem: Problem) -> bool:
    """Return whether blocks are single terms, whose numbers fit a byte: the product itself yields k."""
    return 0 < problem.k <= ARGK_MOST_BLOCKS and problem.of_one().pairs <= ARGK_TRACKED_PAIRS


def argk_steps(problem: Problem) -> int:
    """Return the terms in a block of k for backends that number blocks themselves."""
    line = ARGK_BLOCK_BYTES // problem.dtype.itemsize
    steps = math.ceil(max(min(problem.k / ARGK_BLOCKS, ARGK_BLOCK_STEPS), 1) / line) * line
    while steps * ARGK_MOST_BLOCKS < problem.k:
        steps *= 2
    return steps


def argk_slices(problem: Problem) -> int:
    """Return how many slices k is cut into; 1: blocks of all of k are numbered at once."""
    return -(-problem.k // ARGK_LONGEST)


def argk_blocks(problem: Problem, machine: Machine) -> tuple[int, int, int]:
    """Return rows and columns of a tile of C, and steps of a block of k, for `gemm_argk` by any backend."""
    rows = int(cache_sizes(machine)[1] * ARGK_SHARE) // (ARGK_COLUMNS * problem.dtype.itemsize)
    return split_evenly(problem.m, rows, 1), split_evenly(problem.n, ARGK_COLUMNS, 1), ARGK_TILE_STEPS


class Searched(NamedTuple):
    """Parts of C and panels of B for the search of `gemm_argk`."""

    across: int  # parts of the columns of C, which threads share
    down: int  # parts of the rows of C, which threads share
    rows: int  # of A that stream past a panel
    columns: int  # of B, transposed, in a panel


def argk_searched(problem: Problem, machine: Machine) -> Searched:
    """Return how the search of `gemm_argk` divides C: by columns as far as panels stay wide, then by rows.

    A thread transposes the columns of B that it searches. Threads that share only rows would all transpose all of B.
    """
    (_, l2, l3), threads = cache_sizes(machine), machine.threads
    column = problem.k * problem.dtype.itemsize
    most = min(max(problem.n // ARGK_LEAST_COLUMNS, 1), threads)
    across = max(parts for parts in range(1, most + 1) if threads % parts == 0)
    rows = max(int(l3 * ARGK_ROWS_SHARE) // column, ARGK_LEAST_ROWS)
    columns = max(int(l2 * ARGK_PANEL_SHARE) // column, ARGK_LEAST_COLUMNS)
    return Searched(across, threads // across, rows, columns)
