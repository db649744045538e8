"""The block of pivots of shortest paths; the machine is that of `harness.tuning.cpu`."""

# Vertices in a block of pivots (harness/api/paths.py). Time over that of 128, cpu-simd, one thread, float64 and
# float32: 64 vertices 1.1 to 1.5 at n = 256 and 512, 0.89 to 0.95 at 1024 and 2048; 256 vertices 0.9 to 1.2 and 1.16 to
# 1.28. Measured 2026-11-21, interleaved, on that machine.
PATHS_BLOCK = 128
