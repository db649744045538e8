"""Row panels of A for a tall, narrow C by gpu-tuned: when, and by which panels."""

from __future__ import annotations

from harness.plan import WARP, Launch
from harness.problem import Problem
from harness.tuning.device import Device, odd_granules

# Bytes that a copy takes at once, and of the elements that panels are for.
GRANULE_BYTES, SIZES = 16, (4, 8)

# C and k that panels are for.
MOST_COLUMNS, FEWEST_ROWS, MOST_TERMS = 12, 3000, 600

# By these panels are chosen.
LONG, MIDDLE, MANY_ROWS, SOME_ROWS = 200, 24, 40_000, 20_000

# Bytes of the sums of a thread, its registers beside them, and most blocks of a multiprocessor.
MOST_SUMS_BYTES, BESIDE_SUMS, MOST_BLOCKS = 520, 48, 16


def shared_bytes(launch: Launch, k: int, apart: int, slices: int, itemsize: int) -> int:
    """Return the shared memory of a block: B, and a panel of A or the sums of its slices."""
    granule = GRANULE_BYTES // itemsize
    panel = (launch.bm - 1) * apart + k + 2 * granule
    elements = k * launch.bn + max(panel, slices * WARP * launch.tm * (launch.bn + 1))
    return -(-elements // granule) * GRANULE_BYTES


def choose(problem: Problem, device: Device) -> tuple[Launch, int, int] | None:
    """Return the panels of a product, the warps that share k, and blocks of a multiprocessor; None: tiles suit it."""
    m, n, k, itemsize = problem.m, problem.n, problem.k, problem.dtype.itemsize
    is_tall = 0 < n <= MOST_COLUMNS and m >= FEWEST_ROWS and 0 < k <= MOST_TERMS
    if not is_tall or itemsize not in SIZES or problem.is_mixed or problem.triangle or problem.layout[0] == "F":
        return None
    granule = GRANULE_BYTES // itemsize
    columns = -(-n // granule) * granule
    is_spread = k % granule or k // granule % 2
    for rows, slices in _panels(m, k):
        launch = Launch(bm=WARP * rows, bn=columns, tm=rows, tn=columns)
        shared = shared_bytes(launch, k, k if is_spread else odd_granules(k, granule), slices, itemsize)
        if shared <= device.shared_memory and rows * columns * itemsize <= MOST_SUMS_BYTES:
            registers = rows * columns * itemsize // 4 + BESIDE_SUMS
            return launch, slices, device.blocks_at_once(WARP * slices, registers, shared, MOST_BLOCKS)
    return None


def _panels(m: int, k: int) -> tuple[tuple[int, int], ...]:
    """Return rows of a thread, and warps that share k, the preferred ones first."""
    if k >= LONG:
        return (1, 8), (1, 4)
    if k >= MIDDLE and m > MANY_ROWS:
        return (2, 4), (1, 4), (1, 8)
    if k >= MIDDLE or m < SOME_ROWS:
        return (1, 4), (1, 8)
    return (2, 2), (1, 2)
