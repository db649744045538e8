"""Processes that live on from case to case, each in the role of one contender, as far as number and memory allow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from harness.run import descendants
from harness.run.memory import available_memory
from harness.run.process import WorkerProcess

# Processes kept although the current case does not need them: three of each of a dozen contenders. And the part of
# memory that they may hold, with all that they have started. One holds some 150 MB; one with a job of 16 ranks 3 GB.
IDLE_PROCESSES, IDLE_PART = 36, 1 / 4
# Of those that compute on a device: the context of each takes half a gigabyte there, however idle it is.
IDLE_ON_DEVICE = 8


class Slot(NamedTuple):
    """The role of a process in case after case: contender `number` of a backend, of one source and environment."""

    task: str  # or backend
    number: int = 0
    source: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()  # sorted
    replicate: int = 0  # of the processes that a contender is measured in, one after the other
    is_on_device: bool = False  # holds some of the memory of a device for as long as it lives


class Pool:
    """Processes that live on from case to case, so that they start and their kernels are compiled once.

    Parameters
    ----------
    idle_processes : int
        Most processes that are kept although the current case does not need them.
    idle_bytes : int, optional
        Most bytes that these hold together; by default `IDLE_PART` of the memory.
    """

    def __init__(self, idle_processes: int = IDLE_PROCESSES, idle_bytes: int | None = None) -> None:
        self._workers: dict[Slot, WorkerProcess] = {}
        self._idle_processes = idle_processes
        self._idle_bytes = int(available_memory() * IDLE_PART) if idle_bytes is None else idle_bytes

    def processes(self, slots: Iterable[Slot]) -> dict[Slot, WorkerProcess]:
        """Return a live process for each of `slots`: the previous one of that slot, if it lives."""
        needed = list(slots)
        for slot in needed:
            worker = self._workers.pop(slot, None)  # reinserted at the end: the first is the one longest unused
            self._workers[slot] = worker if worker and worker.is_alive else WorkerProcess(slot.source, slot.environment)
        for slot in self._too_many([slot for slot in self._workers if slot not in needed]):
            self._workers.pop(slot).kill()
        return {slot: self._workers[slot] for slot in needed}

    def _too_many(self, idle: list[Slot]) -> list[Slot]:
        """Return which idle processes are to end: all but the last used, as many as number and memory allow."""
        marks = {slot: self._workers[slot].mark for slot in idle}
        held, total, on_device = descendants.memory_of(marks.values()), 0, 0
        for kept, slot in enumerate(reversed(idle)):
            total += held[marks[slot]]
            on_device += slot.is_on_device
            if kept == self._idle_processes or total > self._idle_bytes or on_device > IDLE_ON_DEVICE:
                return idle[: len(idle) - kept]
        return []

    def kill(self) -> None:
        """Kill all processes."""
        for worker in self._workers.values():
            worker.kill()
        self._workers.clear()
