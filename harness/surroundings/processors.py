"""The processors that this process may use, and threads kept on some of them, where the system has words for it."""

from __future__ import annotations

import os
from collections.abc import Iterable


def can_keep() -> bool:
    """Return whether a thread can be kept on a processor that is named: Linux can; macOS and Windows cannot."""
    return hasattr(os, "sched_setaffinity")


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use, sorted."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def keep_on(thread: int, cores: Iterable[int]) -> None:
    """Let a thread, 0 for the one that calls, run on the processors `cores` alone; nothing where that cannot be said.

    Raises
    ------
    OSError
        If there is no such thread, or it may use none of them.
    """
    if can_keep():
        os.sched_setaffinity(thread, cores)
