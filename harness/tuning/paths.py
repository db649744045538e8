"""Sizes of closures on a CPU; the machine is that of `harness.tuning.cpu`."""

# Vertices in a block of pivots, where steps are calls of products (harness/api/paths/steps.py).
PATHS_BLOCK = 128
# Vertices that are closed by three loops, where all steps are one table (docs/lab/2026-11-28-paths.md).
PATHS_LEAF = 32
# From this m, n and k on a product of such a table is shared by threads.
PARALLEL_FROM = 128
