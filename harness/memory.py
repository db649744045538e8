"""Memory that kernels keep from one call to the next, and a function to release it.

Kernels keep scratch so that a call need not ask the system for new pages; docs/embedding.md says how much. A part that
keeps memory registers a function here that gives it back.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable

_givers: list[Callable[[], None]] = []


def on_free(give_back: Callable[[], None]) -> Callable[[], None]:
    """Have `free_memory` call a function that takes no argument; it may come at any time, from any thread."""
    _givers.append(give_back)
    return give_back


def free_memory() -> None:
    """Give back the memory that kernels keep between calls, on the host and on GPUs; the next call takes it anew.

    Products that other threads compute meanwhile keep what they use until they are done. Compiled kernels stay. On a
    GPU the unused blocks of CuPy's pools go back too, even those that other code used.
    """
    for give_back in _givers:
        give_back()
    with contextlib.suppress(AttributeError):  # of glibc alone: pages that are free, but not yet the system's
        ctypes.CDLL(None).malloc_trim(0)
