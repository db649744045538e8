"""Numbers of `gemm_argk`: blocks of k, tiles, and panels of the search."""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.machine import Machine
from harness.problem import Problem
from harness.tuning.cpu import cache_sizes, split_evenly

# Blocks, of whole cache lines, that k is cut into for gemm_argk (harness/api/argk.py) by backends that number blocks
# themselves: more make the product slower, which compares once a block, and fewer the search, which reads one for each
# element. Blocks of long k have this many terms rather than more of them. At most: the number of one is a byte, and -1
# is none. And terms in a block by any other backend, whose products of so many must run at full speed.
ARGK_BLOCKS, ARGK_MOST_BLOCKS, ARGK_BLOCK_STEPS, ARGK_BLOCK_BYTES = 64, 128, 32, 64
ARGK_TILE_STEPS = 256

# Fewest terms of k, unless there are fewer, that a product over integers is to carry beside its values: what a part of
# k costs beside its product, some 2 ns an element, must be little to it.
ARGK_PACKED_STEPS = 512

# Shares of the caches for the search: of L2 for a panel of columns of B transposed, and of L3 for the rows of A that
# stream past each panel. But a panel is never narrow, nor are there few rows: all of A is read once a panel, and all of
# B transposed once for these rows. At k = 4096 that is worth more than a panel in L2.
ARGK_PANEL_SHARE, ARGK_ROWS_SHARE, ARGK_LEAST_COLUMNS, ARGK_LEAST_ROWS = 3 / 4, 1 / 4, 192, 2048

# Columns of its tile of C, and the share of L2 that a tile has.
ARGK_COLUMNS, ARGK_SHARE = 128, 1 / 4


def argk_steps(problem: Problem) -> int:
    """Return the terms in a block of k for backends that number blocks themselves."""
    line = ARGK_BLOCK_BYTES // problem.dtype.itemsize
    steps = max(min(problem.k / ARGK_BLOCKS, ARGK_BLOCK_STEPS), problem.k / ARGK_MOST_BLOCKS, 1)
    return math.ceil(steps / line) * line


def argk_blocks(problem: Problem, machine: Machine) -> tuple[int, int, int]:
    """Return rows and columns of a tile of C, and steps of a block of k, for `gemm_argk` by any backend."""
    steps = max(ARGK_TILE_STEPS, -(-problem.k // ARGK_MOST_BLOCKS))
    rows = int(cache_sizes(machine)[1] * ARGK_SHARE) // (ARGK_COLUMNS * problem.dtype.itemsize)
    return split_evenly(problem.m, rows, 1), split_evenly(problem.n, ARGK_COLUMNS, 1), steps


class Searched(NamedTuple):
    """Parts of C and panels of B for the search of `gemm_argk`."""

    across: int  # parts of the columns of C, which threads share
    down: int  # parts of the rows of C, which threads share
    rows: int  # of A that stream past a panel
    columns: int  # of B, transposed, in a panel


def argk_searched(problem: Problem, machine: Machine) -> Searched:
    """Return how the search of `gemm_argk` goes over C: by columns as far as panels stay wide, else by rows.

    A thread transposes the columns of B that it has: threads that share the rows of C would all transpose all of B.
    """
    (_, l2, l3), threads = cache_sizes(machine), machine.threads
    column = problem.k * problem.dtype.itemsize
    most = min(max(problem.n // ARGK_LEAST_COLUMNS, 1), threads)
    across = max(parts for parts in range(1, most + 1) if threads % parts == 0)
    rows = max(int(l3 * ARGK_ROWS_SHARE) // column, ARGK_LEAST_ROWS)
    columns = max(int(l2 * ARGK_PANEL_SHARE) // column, ARGK_LEAST_COLUMNS)
    return Searched(across, threads // across, rows, columns)
