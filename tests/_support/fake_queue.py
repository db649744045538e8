"""A device that is not there: a queue with a timeline of its own, which obeys `harness.interface.DeviceQueue`.

Host and device have one time, in ns. The host spends some on each launch; the device does what is queued in order, each
thing no earlier than it was queued. A blocked queue moves on when it is released, or after a while by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from harness.timing.clock import Clock
from harness.timing.device_clock import CudaEventClock
from tests._support.planted_tasks import Planted

LAUNCH_NS, STAMP_NS = 8_000.0, 500.0
TOLD = {"mhz": 1500.0, "watts": 700.0, "power_capped": 1.0}


@dataclass
class Stamp:
    reached_ns: float = float("nan")


@dataclass
class FakeQueue:
    """Holds at most `depth` things: who queues more waits, as on a real device."""

    name: str = "fake events"
    nominal_mhz: float = 0.0
    depth: int = 1000
    told: Callable[[float], dict[str, float]] = lambda now: {}
    host_ns: float = 0.0
    device_ns: float = 0.0
    is_cold: bool = False
    log: list[str] = field(default_factory=list)
    _queued: list[tuple[float, Callable[[], bool]]] = field(default_factory=list)
    _released_ns: float | None = None
    _gave_up: bool = False
    _is_patient: bool = True

    def launch(self, call_ns: float, cold_ns: float | None = None) -> None:
        """Queue a kernel: after a flush it takes `cold_ns`."""

        def compute() -> bool:
            self.device_ns += cold_ns if self.is_cold and cold_ns is not None else call_ns
            self.is_cold = False
            return True

        self.host_ns += LAUNCH_NS
        self.log.append("launch")
        self._queue(compute)

    def stamp(self) -> Stamp:
        stamp = Stamp()

        def reach() -> bool:
            stamp.reached_ns = self.device_ns
            return True

        self.host_ns += STAMP_NS
        self.log.append("stamp")
        self._queue(reach)
        return stamp

    def between_ns(self, start: Stamp, stop: Stamp) -> float:
        return stop.reached_ns - start.reached_ns

    def block(self, most_s: float) -> None:
        began: list[float] = []

        def spin() -> bool:
            began.append(self.device_ns)
            end = began[0] + 1e9 * most_s
            if self._released_ns is None and self._is_patient:
                return False
            self._gave_up = self._released_ns is None or self._released_ns > end
            self.device_ns = end if self._gave_up else max(self.device_ns, self._released_ns)
            return True

        self._released_ns, self._gave_up = None, False
        self.log.append("block")
        self._queue(spin)

    def release(self) -> None:
        self.log.append("release")
        self._released_ns = self.host_ns
        self._advance()

    def gave_up(self) -> bool:
        return self._gave_up

    def flush(self) -> None:
        def write() -> bool:
            self.device_ns += 100_000.0
            self.is_cold = True
            return True

        self.log.append("flush")
        self._queue(write)

    def synchronize(self) -> None:
        """Wait until the queue is empty: a blocked one that nobody releases meanwhile runs into its time-out."""
        self._is_patient = False
        self._advance()
        self._is_patient = True
        self.host_ns = max(self.host_ns, self.device_ns)

    def read(self) -> dict[str, float]:
        self.log.append("read")
        return self.told(self.host_ns)

    def _queue(self, do: Callable[[], bool]) -> None:
        if len(self._queued) >= self.depth:
            self.synchronize()
        self._queued.append((self.host_ns, do))
        self._advance()

    def _advance(self) -> None:
        while self._queued:
            queued_ns, do = self._queued[0]
            self.device_ns = max(self.device_ns, queued_ns)
            if not do():
                return
            self._queued.pop(0)


class OnDevice(Planted):
    """Fills its array when it is run, and keeps a fake device busy for `call_ns`."""

    def __init__(self, call_ns: float) -> None:
        super().__init__()
        self.call_ns, self.queue = call_ns, FakeQueue(nominal_mhz=1980.0, told=lambda now: TOLD)

    def run(self) -> None:
        super().run()
        self.queue.launch(self.call_ns, 3 * self.call_ns)

    def wait(self) -> None:
        self.queue.synchronize()

    def clock(self) -> Clock:
        return CudaEventClock(self.queue, lambda: self.queue.host_ns)

    def facts(self) -> dict[str, object]:
        return {"operations": np.int64(8)}


def on_device(threads: int, call_ns: float = 3000.0, **arguments: object) -> OnDevice:
    return OnDevice(call_ns)


class Elsewhere(OnDevice):
    """Computes where its queue does not look: that is empty at once, and the device works on."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.queue.synchronize = lambda: time.sleep(0.02)  # type: ignore[method-assign] # of the whole device

    def wait(self) -> None:
        """Return at once."""

    def renew(self) -> None:
        """Have the same operands."""


def elsewhere(threads: int, **arguments: object) -> Elsewhere:
    return Elsewhere()
