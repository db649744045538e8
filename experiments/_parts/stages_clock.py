"""The clock of tasks that know where the time of their last call went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.timing.clock import Action, CpuClock, Sample


class StagesClock(CpuClock):
    """The host's clock, which also reads where the time of the last call went, in ns: ``"gather A"``, ``"compute"``.

    Parameters
    ----------
    stages : callable
        Takes the seconds of the call, and returns those of each stage.
    unit : str
        What the readings are.
    """

    def __init__(self, stages: Callable[[float], Mapping[str, float]], unit: str) -> None:
        super().__init__()
        self._stages, self._unit = stages, unit

    def sample(self, run: Action, wait: Action, loops: int) -> Sample:
        """Time `loops` calls."""
        ns = super().sample(run, wait, loops).ns
        return Sample(ns, {stage: round(1e9 * s, 1) for stage, s in self._stages(ns * 1e-9).items()})

    def facts(self) -> dict[str, Any]:
        """Return its name, and the unit of its readings."""
        return {**super().facts(), "stages": self._unit}
