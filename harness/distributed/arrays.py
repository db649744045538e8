"""The memory that the pieces of a product lie in: the host's, or that of the rank's GPU.

Panels of k must travel without packing. On the host A lies transposed, so that they are contiguous in A as they are in
B. On a GPU rows are contiguous in both, which is how kernels read them: a copy engine takes the columns of a panel out
of rows by itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from harness.operands import aligned_empty

# CUDA exports whole pages of memory to other processes: what is smaller would be exported with its neighbours.
EXPORTED_STEP = 2 << 20  # bytes

# From rows to columns NumPy copies column by column: each element is in another line of memory, and the next one needs
# the same lines again. A cache holds few of them if they lie a power of two apart. So some rows are copied at a time.
# Time of the whole at once, and by 64 rows, float64: n = 1024 7.55 ms, 1.15; 1290 2.60, 1.34; 2048 40.4, 8.1. 32 to 128
# rows are alike. Measured 2026-11-23 on a Xeon with 2 MiB of L2.
TURNED_ROWS = 64
TURNED_ELEMENTS = 1 << 16  # at a time, of short rows: a step takes a microsecond by itself


class HostArrays:
    """Arrays of NumPy. Those on a GPU override every method."""

    on_device = False

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised C-ordered array."""
        return aligned_empty(shape, dtype)

    def empty_a(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised array for a piece of A, in the order in which its panels travel."""
        return aligned_empty(shape[::-1], dtype).T

    def to_host(self, x: Any) -> np.ndarray:
        """Return the values of `x` in an array on the host: itself, if it lies there."""
        return np.asarray(x)

    def fill(self, target: Any, source: Any) -> None:
        """Copy `source`, an array on the host or one of these, to `target`, one of these."""
        copy(target, source)


class GpuArrays(HostArrays):
    """Arrays of CuPy on the current GPU, each in an allocation of its own, which other processes can open."""

    on_device = True

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised C-ordered array."""
        size = max(1, math.prod(shape)) * dtype.itemsize
        memory = self._cupy.cuda.Memory(-(-size // EXPORTED_STEP) * EXPORTED_STEP)
        return self._cupy.ndarray(shape, dtype, self._cupy.cuda.MemoryPointer(memory, 0))

    def empty_a(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised C-ordered array."""
        return self.empty(shape, dtype)

    def to_host(self, x: Any) -> np.ndarray:
        """Return a copy on the host; an array on the host is returned itself."""
        return x.get() if isinstance(x, self._cupy.ndarray) else np.asarray(x)

    def fill(self, target: Any, source: Any) -> None:
        """Copy `source` to `target`, each on the host or on this GPU, and return when that is done."""
        if isinstance(target, np.ndarray):
            target[...] = self.to_host(source)
            return
        target[...] = self._cupy.asarray(source)
        self._cupy.cuda.get_current_stream().synchronize()


HOST = HostArrays()


def copy(target: np.ndarray, source: np.ndarray) -> None:
    """Copy the elements of `source` to `target`, in any memory order of each.

    Parameters
    ----------
    target, source : (rows, columns) arrays
    """
    if not _are_turned(target, source):
        target[...] = source
        return
    if _by_rows(target):
        target, source = target.T, source.T
    rows, columns = source.shape
    step = max(TURNED_ROWS, TURNED_ELEMENTS // columns)
    for row in range(0, rows, step):
        target[row : row + step] = source[row : row + step]


def _are_turned(target: np.ndarray, source: np.ndarray) -> bool:
    """Return whether neighbours of one are not those of the other."""
    return target.ndim == 2 and min(target.shape) > 1 and _by_rows(target) != _by_rows(source)


def _by_rows(x: np.ndarray) -> bool:
    """Return whether the elements of a row are nearer to each other than those of a column."""
    return abs(x.strides[1]) <= abs(x.strides[0])
