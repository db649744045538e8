"""Seconds, words and messages of a rank, by stage.

What a first call alone takes, loading backends and compiling kernels, is a stage of its own, ``"prepare"``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

# In the order in which they come to pass.
STAGES = (
    "prepare",
    "allocate",
    "redistribute",
    "host to device",
    "gather A",
    "gather B",
    "compute",
    "reduce",
    "device to host",
    "collect",
    "free",
)


@dataclass
class Stages:
    """Seconds, words and messages of one rank since `clear`, by the name of the stage.

    Overlapped gathering runs in another thread than the product, and counts too. Then the seconds of all stages add up
    to more than the time that passed.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget what has been counted."""
        for counts in (self.seconds, self.words, self.messages):
            counts.clear()

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of the block to `stage`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def received(self, stage: str, words: int) -> None:
        """Count a message of `words` elements."""
        self.words[stage] = self.words.get(stage, 0) + words
        self.messages[stage] = self.messages.get(stage, 0) + 1
