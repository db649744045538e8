"""The memory that the pieces of a product lie in: the host's, or that of the rank's GPU.

Panels of k must travel without packing. On the host A lies transposed, so that they are contiguous in A as they are in
B. On a GPU rows are contiguous in both, which is how kernels read them: a copy engine takes the columns of a panel out
of rows by itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from harness.distributed.copying import copy
from harness.operands import aligned_empty

# CUDA exports whole pages of memory to other processes: what is smaller would be exported with its neighbours.
EXPORTED_STEP = 2 << 20  # bytes


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
