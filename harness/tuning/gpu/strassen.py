"""Bases of Strassen's recursion on a GPU, and from which size on one more level pays."""

from __future__ import annotations

from typing import Any

import numpy as np

# Bases of gpu-strassen, fastest first, and the smallest half for which one more level pays: by base, bytes of an
# element.
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
