"""Empty the caches of the processor, to time a product whose operands are in main memory.

Python cannot call an instruction for it, so a buffer larger than the largest cache fills them all. Cores have caches of
their own, so a thread streams through the buffer on each core. It visits one core after the other, to use no more
processors than a contender may.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from pathlib import Path

import numpy as np

from harness.machine import Machine, detect
from harness.surroundings import keep_on, processors

# Twice the size of a cache: caches do not replace strictly the oldest lines, and some keep a stream out.
TIMES = 2
# Sizes of caches where the system reports none; and the most that is allocated.
ASSUMED_OWN, ASSUMED_LARGEST, MOST = 4 << 20, 64 << 20, 512 << 20

_CPUS = Path("/sys/devices/system/cpu")


def evict() -> None:
    """Fill the data caches of every core that this process may use with a buffer that no product uses.

    The buffer is written first, then read on the cores: lines that a core has written leave its caches too.
    """
    buffer = _buffer()
    buffer += 1
    thread = threading.Thread(target=_stream, args=(buffer, passes(detect(), processors())))
    thread.start()
    thread.join()


def size(machine: Machine) -> int:
    """Return how many bytes fill every cache of `machine`."""
    return min(TIMES * (max(machine.l1d, machine.l2, machine.l3) or ASSUMED_LARGEST), MOST)


def passes(machine: Machine, cores: list[int], cpus: Path = _CPUS) -> list[tuple[int, int]]:
    """Return each of `cores` with the number of bytes it reads: all where it is the first to fill a shared cache.

    The others fill only their own caches. Where the system does not report sharing, no cache counts as shared.
    """
    whole = size(machine)
    part = min(TIMES * (machine.l2 or ASSUMED_OWN), whole)
    filled, plan = set[str](), list[tuple[int, int]]()
    for core in cores:
        group = str(core)
        with contextlib.suppress(OSError):
            group = "shared by " + (cpus / f"cpu{core}" / "cache" / "index3" / "shared_cpu_list").read_text().strip()
        plan.append((core, part if group in filled else whole))
        filled.add(group)
    return plan


@functools.cache
def _buffer() -> np.ndarray:
    return np.zeros(size(detect()) // 8, np.int64)


def _stream(buffer: np.ndarray, plan: list[tuple[int, int]]) -> None:
    """Read the buffer on one core after the other. Only this thread is moved between cores, and it ends here."""
    for core, count in plan:
        with contextlib.suppress(OSError):  # a core that has just been taken away
            keep_on(0, {core})
        buffer[: count // buffer.itemsize].max()
