"""The time of an algorithm by stages: how much of it products take, and how much the rest."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from harness.api.arrays import Arrays

_NOTHING = contextlib.nullcontext()


class Stages:
    """Seconds by stage. A stage inside another one is taken out of it.

    Parameters
    ----------
    arrays : Arrays
        On a device the stream is waited for before and after every stage, which slows short stages down.
    is_timed : bool
        False: nothing is read, and nobody waits.

    Attributes
    ----------
    seconds : dict
        By stage, with ``"rest"`` for what is in none; empty unless timed.
    """

    def __init__(self, arrays: Arrays, *, is_timed: bool = False) -> None:
        self._arrays, self._is_timed = arrays, is_timed
        self._open = ["rest"]
        self.seconds: dict[str, float] = {}
        self._last = self._now() if is_timed else 0.0

    def during(self, stage: str) -> contextlib.AbstractContextManager[None]:
        """Return the context inside which time is entered for `stage`."""
        return self._entered(stage) if self._is_timed else _NOTHING

    @contextlib.contextmanager
    def _entered(self, stage: str) -> Iterator[None]:
        self.enter_time()
        self._open.append(stage)
        try:
            yield
        finally:
            self.enter_time()
            self._open.pop()

    def enter_time(self) -> None:
        """Enter the time since the last reading for the stage that is open; nothing unless timed."""
        if self._is_timed:
            now = self._now()
            self.seconds[self._open[-1]] = self.seconds.get(self._open[-1], 0.0) + now - self._last
            self._last = now

    def _now(self) -> float:
        if self._arrays.on_device:
            self._arrays.module.cuda.get_current_stream().synchronize()
        return time.perf_counter()
