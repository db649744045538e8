"""Take samples of one task, in the hot or in the cold series, which are never mixed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from harness.experiment import COLD, HOT
from harness.timing.clock import Action, Clock, CpuClock, Sample

# A call this long has refilled the caches and woken its threads long before it ends: it needs no untimed call before.
WARMS_ITSELF_NS = 50e6


class Sampler(Protocol):
    """Something that can be timed, here or in another process."""

    def sample(self, loops: int, count: int) -> list[Sample]:
        """Return `count` samples, each the mean of `loops` calls in a row."""
        ...


@dataclass
class ClockSampler:
    """Times a task in this process. A call is `run` and then `wait`.

    In the hot series an untimed call precedes each sample but the first. The caches are then as they are when the call
    is repeated, whatever ran on the machine since the last sample. A long call needs none. In the cold series the
    caches are emptied before each sample, which is one call.
    """

    run: Action
    wait: Action
    clock: Clock = field(default_factory=CpuClock)
    series: str = HOT  # or COLD
    _last_ns: float = math.inf

    def sample(self, loops: int, count: int) -> list[Sample]:
        """Return `count` samples, each the mean of `loops` calls in a row."""
        assert loops == 1 or self.series != COLD, "only the first call finds the caches cold"
        samples = []
        for _ in range(count):
            if self.series == COLD:
                self.clock.flush()
            elif self._last_ns < WARMS_ITSELF_NS:
                self.run()
                self.wait()
            sample = self.clock.sample(self.run, self.wait, loops)
            self._last_ns = sample.ns
            samples.append(sample)
        return samples
