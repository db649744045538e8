"""Empty the caches of the processor, to time a product whose operands are in main memory.

There is no instruction for it that Python could call, so the caches are filled with something else: a buffer larger
than the largest of them. One thread streams through it on each core in turn, since cores have caches of their own. It
does so on one after the other, so that it never uses more of the processors than a contender may.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from pathlib import Path

import numpy as np

from harness.machine import Machine, detect

# Twice the size of a cache: caches do not replace strictly the oldest lines, and some keep a stream out.
TIMES = 2
# If the system does not say how large a cache is; and no more than this is allocated, whatever it says.
ASSUMED_OWN, ASSUMED_LARGEST, MOST = 4 << 20, 64 << 20, 512 << 20

_CPUS = Path("/sys/devices/system/cpu")


def evict() -> None:
    """Fill the data caches of every core that this process may use with a buffer of no meaning.

    The buffer is written first, then read on the cores: lines that a core has written leave its caches too.
    """
    buffer = _buffer()
    buffer += 1
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    thread = threading.Thread(target=_stream, args=(buffer, passes(detect(), cores)))
    thread.start()
    thread.join()


def size(machine: Machine) -> int:
    """Return how many bytes fill every cache of `machine`."""
    return min(TIMES * (max(machine.l1d, machine.l2, machine.l3) or ASSUMED_LARGEST), MOST)


def passes(machine: Machine, cores: list[int], cpus: Path = _CPUS) -> list[tuple[int, int]]:
    """Return each of `cores` with how many bytes it reads: all of them where it is the first to fill a shared cache.

    The others fill only what is their own. Where the system does not say what is shared, nothing is.
    """
    whole = size(machine)
    own = min(TIMES * (machine.l2 or ASSUMED_OWN), whole)
    filled, plan = set[str](), list[tuple[int, int]]()
    for core in cores:
        group = str(core)
        with contextlib.suppress(OSError):
            group = "shared by " + (cpus / f"cpu{core}" / "cache" / "index3" / "shared_cpu_list").read_text().strip()
        plan.append((core, own if group in filled else whole))
        filled.add(group)
    return plan


@functools.cache
def _buffer() -> np.ndarray:
    return np.zeros(size(detect()) // 8, np.int64)


def _stream(buffer: np.ndarray, plan: list[tuple[int, int]]) -> None:
    """Read the buffer on each core in turn. Only this thread is moved, and it ends here."""
    for core, count in plan:
        with contextlib.suppress(OSError):  # a core that has just been taken away
            os.sched_setaffinity(0, {core})
        buffer[: count // buffer.itemsize].max()
