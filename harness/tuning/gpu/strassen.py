"""Bases of Strassen's recursion on a GPU, and from which size on one more level pays."""

from __future__ import annotations

from typing import Any

import numpy as np

# Bases of gpu-strassen, fastest first, and the smallest half for which one more level pays: by base, bytes of an
# element. Time of 1, 2 and 3 levels over that of the base alone (H200, 2026-11-23, experiments/gpu_strassen.py):
#   n                      4096          4097   6144   8191          8192          12288         16384
#   gpu-cublas float32     0.944, 1.272  1.083  1.027  0.855, 0.818  0.895, 0.849  0.885, 0.896  0.939, 0.841, 0.802
#              float64     1.011, 1.232  0.934  0.998  0.665, 0.669  0.948, 0.952  0.905, 0.877  0.950, 0.822, 0.800
#   gpu-tuned  float32     0.994, 1.181  1.096  0.929  0.901, 0.885  0.910, 0.893  0.903, 0.836
#              float64     0.987, 1.082  1.022  0.924  0.922, 0.887  0.911, 0.872  0.977, 0.857
#   gpu-tensor-core float32  1.277                                   1.051, 1.306                0.957, 0.908, 1.024
#                   float64  1.028                                   0.944, 0.940                0.991, 0.852, 0.809
# Where a half of 2048 gains, it loses one below: 2049 fills another wave.
STRASSEN_BASES = ("gpu-tensor-core", "gpu-cublas", "gpu-tuned")
STRASSEN_CROSSOVER = {
    ("gpu-tensor-core", 4): 8192,
    ("gpu-tensor-core", 8): 4096,
    ("gpu-cublas", 4): 4096,
    ("gpu-cublas", 8): 4096,
    ("gpu-tuned", 4): 3072,
    ("gpu-tuned", 8): 3072,
}
STRASSEN_CROSSOVER_OTHERWISE = 4096


def strassen_crossover(base: str, dtype: np.dtype[Any]) -> int:
    """Return the smallest half, in elements, for which Strassen's recursion adds a level over `base` on a GPU."""
    return STRASSEN_CROSSOVER.get((base, dtype.itemsize), STRASSEN_CROSSOVER_OTHERWISE)
