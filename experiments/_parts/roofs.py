"""Cases that measure the roofs of memory: how fast each cache, and main memory, is read, and what each holds."""

from __future__ import annotations

from experiments._parts import gpu
from harness.experiment import Case, Contender
from harness.machine import Machine

# Buffers: much larger than the last cache, much larger than L2, half of L1 and of L2. BEYOND_L2 fills at most half of
# L3; of a shared L3 it takes as little as is enough to leave nothing in L2.
BEYOND_CACHE, SMALLEST_BUFFER, BEYOND_L2 = 4, 64 << 20, 4
GPU_BUFFER = 1 << 28
LEVELS_TASK = "backends.gpu._tasks.levels:level"


def on_cpu(machine: Machine) -> list[Case]:
    """Return a case for each level of the host that it reports, main memory first; one thread reads."""
    roofs = [_read("memory", max(BEYOND_CACHE * machine.l3, SMALLEST_BUFFER), 0)]
    if machine.l2 and machine.l3 >= 2 * BEYOND_L2 * machine.l2:
        roofs.append(_read("L3", BEYOND_L2 * machine.l2, machine.l3))
    caches = {"L2": machine.l2, "L1": machine.l1d}
    return roofs + [_read(level, size // 2, size) for level, size in caches.items() if size]


def on_gpu() -> list[Case]:
    """Return the cases of a GPU: its memory, L2 and shared memory."""
    near = Contender("bandwidth", task=LEVELS_TASK)
    levels = [Case({"role": "bandwidth", "level": level, **gpu.DEVICE}, (near,), {"level": level}) for level in LEVELS]
    return [gpu.bandwidth_case("memory", GPU_BUFFER), *levels]


LEVELS = ("L2", "shared")


def _read(level: str, size_bytes: int, capacity_bytes: int) -> Case:
    """Return the case that measures how fast a buffer of `size_bytes` is read."""
    bandwidth = Contender("bandwidth", task="backends.cpu._ceilings:bandwidth")
    arguments = {"size_bytes": size_bytes, "capacity_bytes": capacity_bytes}
    return Case({"role": "bandwidth", "level": level}, (bandwidth,), arguments)
