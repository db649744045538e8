"""Compile without Python's cyclic garbage collector.

A compiler allocates objects by the hundred thousand, so the collector runs often, and finds next to nothing to free.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Do not collect garbage inside the block; afterwards as before. For one thread at a time, which holds the lock.

    Objects without cycles are freed all the same.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
