"""The block of pivots of shortest paths; the machine is that of `harness.tuning.cpu`."""

# Vertices in a block of pivots (harness/api/paths.py).
PATHS_BLOCK = 128
