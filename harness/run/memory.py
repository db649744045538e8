"""The memory that processes here may use: the machine's, or what the control group has of it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from harness.machine import detect

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def available_memory() -> int:
    """Return the bytes of memory of this machine, or those of its control group if that has less."""
    available = detect().memory
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        available = min(available, int(_CGROUP_LIMIT.read_text()))
    return available
