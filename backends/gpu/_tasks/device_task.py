"""Common part of the tasks of GPU experiments: they run on the current stream, timed by the clock of the GPU."""

from __future__ import annotations

from typing import Any

from backends.gpu._cuda import device
from backends.gpu._cuda.queue import current_queue
from harness.errors import Declined
from harness.interface import DeviceQueue


class DeviceTask:
    """A task whose work is launched on the current stream."""

    @property
    def queue(self) -> DeviceQueue:
        """Where `run` launches."""
        return current_queue()

    def wait(self) -> None:
        """Return when it is done."""
        device.synchronize()

    def clock(self) -> Any:
        """Return the clock of the GPU."""
        from harness.timing.device_clock import CudaEventClock

        return CudaEventClock(self.queue)


def require_gpu() -> None:
    """Raise Declined, with the reason, where there is no GPU."""
    reason = device.missing()
    if reason:
        raise Declined("missing", reason)
