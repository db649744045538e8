"""Work memory of the passes: the thread's scratch for one product, or memory of its own for one that is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._compile.scratch import scratch
from harness.operands import aligned_empty

# work(shape, dtype, purpose) -> an uninitialised array
Work = Callable[[tuple[int, ...], np.dtype[Any], str], np.ndarray]


def scratch_of_thread(shape: tuple[int, ...], dtype: np.dtype[Any], purpose: str) -> np.ndarray:
    """Return the thread's block for a purpose: later products in this thread use it too."""
    return scratch(math.prod(shape) * dtype.itemsize, purpose).array(shape, dtype)


def memory_of_its_own(shape: tuple[int, ...], dtype: np.dtype[Any], purpose: str) -> np.ndarray:
    """Return a new array, which any thread may use later."""
    return aligned_empty(shape, dtype)
