"""CuPy's current stream as the harness times it: events for stamps, and a kernel that waits for a flag."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import load_kernel
from backends.gpu._cuda.nvml import Telemetry

# A flush writes twice the size of L2, which evicts everything under any replacement policy.
_FLUSHES = 2


class CudaQueue:
    """A `harness.interface.DeviceQueue` over the current stream of one GPU.

    Parameters
    ----------
    index : int
        Number of the GPU, which is the current one.

    Attributes
    ----------
    name : str
    nominal_mhz : float
        Highest clock of the multiprocessors [MHz]; 0 without NVML.
    """

    name = "CUDA events"

    def __init__(self, index: int) -> None:
        cupy = device.cupy()
        self._cuda = cupy.cuda
        self._kernel = load_kernel("hold", (), "hold")
        self._memory = cupy.cuda.alloc_pinned_memory(8)  # the GPU reads it in place
        self._flags = np.frombuffer(self._memory, np.int32, 2)
        self._flags[:] = 0
        self._filler = cupy.empty(max(_FLUSHES * device.device(index).l2, 1), np.uint8)
        self._telemetry = Telemetry(cupy.cuda.runtime.deviceGetPCIBusId(index))
        self.nominal_mhz = self._telemetry.nominal_mhz

    def stamp(self) -> Any:
        """Record an event."""
        event = self._cuda.Event()
        event.record()
        return event

    def between_ns(self, start: Any, stop: Any) -> float:
        """Return the time between two events."""
        return 1e6 * float(self._cuda.get_elapsed_time(start, stop))

    def block(self, most_s: float) -> None:
        """Launch the kernel that holds up the queue (hold.cu)."""
        self._flags[:] = 0
        self._kernel((1,), (1,), (np.uint64(self._memory.ptr), np.int64(1e9 * most_s)))

    def release(self) -> None:
        """Set its flag."""
        self._flags[0] = 1

    def gave_up(self) -> bool:
        """Return whether it waited for too long."""
        return bool(self._flags[1])

    def flush(self) -> None:
        """Overwrite L2."""
        self._filler.fill(1)

    def synchronize(self) -> None:
        """Wait for the device: other streams too."""
        self._cuda.runtime.deviceSynchronize()

    def read(self) -> Mapping[str, float]:
        """Return NVML's readings of clock and power."""
        return self._telemetry.read()

    def joules(self) -> float | None:
        """Return NVML's count of the GPU's energy [J], or None."""
        return self._telemetry.joules()


def current_queue() -> CudaQueue:
    """Return the queue of the current GPU."""
    return _queue_of(device.current_index())


@functools.cache
def _queue_of(index: int) -> CudaQueue:
    return CudaQueue(index)
