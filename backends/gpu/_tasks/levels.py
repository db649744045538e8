"""Measured rates of reading L2 and shared memory of a GPU, as tasks: roofs between registers and memory.

A launch reads its buffer many times over: one pass would take less time than a launch.

Source: Williams, Waterman and Patterson, "Roofline" (2009), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines, load_kernel
from backends.gpu._tasks.device_task import DeviceTask, require_gpu
from harness.errors import Declined, VerificationError

STEM, LEVELS = "read_levels", ("L2", "shared")
THREADS, LOADS, BLOCKS, GRANULE = 512, 4, 4, 16  # of a block; of a thread in flight; of a multiprocessor; bytes
DEFINES = as_defines({"THREADS": THREADS, "LOADS": LOADS, "BLOCKS": BLOCKS})
# Part of L2 that its buffer fills: H100 and H200 have two halves, and a line may be in both.
L2_SHARE, PASSES = 1 / 4, {"L2": 64, "shared": 4096}


class Level(DeviceTask):
    """Sums of a buffer in L2, or of one in the shared memory of each multiprocessor."""

    def __init__(self, level: str) -> None:
        cupy, multiprocessors = device.cupy(), device.device().multiprocessors
        attributes = cupy.cuda.Device().attributes
        self._level, self._passes, self._blocks = level, PASSES[level], BLOCKS * multiprocessors
        self._totals = device.empty((self._blocks * THREADS,), np.dtype(np.uint32))
        self._kernel = load_kernel(STEM, DEFINES, level.lower())
        self._capacity = attributes["L2CacheSize" if level == "L2" else "MaxSharedMemoryPerMultiprocessor"]
        self._words = cupy.arange(int(self._capacity * L2_SHARE) // GRANULE * GRANULE // 4, dtype=np.uint32)
        granules = np.uint32(self._words.nbytes // GRANULE)
        buffer = (np.uint64(self._words.data.ptr),) if level == "L2" else ()
        counts = (granules, np.int32(self._passes)) if level == "L2" else (np.int32(self._passes),)
        self._arguments = *buffer, np.uint64(self._totals.data.ptr), *counts

    def run(self) -> None:
        """Launch the sums."""
        self._kernel((self._blocks,), (THREADS,), self._arguments)

    def spoil(self) -> None:
        """Forget the totals."""
        self._totals.fill(17)

    def verify(self) -> str:
        """Compare the sum of all totals, modulo 2^32, with that of what was to be read."""
        got = int(self._totals.get().sum(dtype=np.uint64)) % (1 << 32)
        expected = self._passes * self._sum_of_a_pass() % (1 << 32)
        if got != expected:
            raise VerificationError(f"{self._level}: the sum is wrong", expected=str(expected), got=str(got))
        return f"the sum of {self._passes} passes, exactly"

    def _sum_of_a_pass(self) -> int:
        if self._level == "L2":
            return self._words.size * (self._words.size - 1) // 2
        return self._blocks * LOADS * (6 * THREADS + THREADS * (THREADS - 1) // 2)

    def facts(self) -> Mapping[str, Any]:
        """Return the bytes that are read, and those that the memory holds (shared: of one multiprocessor)."""
        of_pass = self._words.nbytes if self._level == "L2" else self._blocks * LOADS * THREADS * GRANULE
        return {"bytes_moved": self._passes * of_pass, "capacity_bytes": int(self._capacity)}


def level(*, level: str, threads: int) -> Level:
    """Prepare the sums of a level, ``"L2"`` or ``"shared"``; raise Declined without a GPU."""
    require_gpu()
    if level not in LEVELS:
        raise Declined("declined", f"no such level: {level}; there are {', '.join(LEVELS)}")
    return Level(level)
