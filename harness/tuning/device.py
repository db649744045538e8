"""A GPU as plans see it, and the chips that are known by name: the only place with numbers of chips.

Sources: CUDA C++ Programming Guide, "Compute Capabilities", for shared memory, registers and multiplications a clock of
a multiprocessor; the data sheets of the chips for the rest.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

# Bytes of shared memory of a multiprocessor that the system takes beside those of each block.
_SHARED_OF_SYSTEM = 1 << 10
# Registers of a thread come in multiples of this.
_STEP_OF_REGISTERS = 8
# Blocks of clusters of so many that are alone on their multiprocessors, of 33: a cluster lies within a group of 16 or
# 18 multiprocessors of an H200 (docs/lab/2026-11-28-tuning-constants.md).
_CLUSTERED, _CLUSTERED_OF = {4: 31, 8: 28}, 33


@dataclass(frozen=True, eq=False)
class Device:
    """One GPU: what a plan must fit into, and how fast it is.

    Parameters
    ----------
    name : str
    capability : (int, int)
        Compute capability: (9, 0) is an H100 or H200.
    multiprocessors : int
    shared_memory, shared_of_multiprocessor : int
        Bytes of shared memory that one block may request at launch, and those of a multiprocessor.
    registers : int
        Of a multiprocessor, of 32 bits.
    l2, memory : int
        Bytes of L2 cache and of global memory.
    bytes_a_second : float
        That memory reads.
    single, double, half : float
        Products that are added in a second: of float32 by ordinary instructions; of float64, and of 16-bit floats, by
        the fastest ones.
    driver, runtime : int
        Versions as CUDA writes them: 13000 is 13.0; 0: unknown.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_memory: int
    shared_of_multiprocessor: int
    registers: int
    l2: int
    memory: int
    bytes_a_second: float
    single: float
    double: float
    half: float
    driver: int = 0
    runtime: int = 0

    @functools.cached_property
    def arch(self) -> str:
        """The target of the compiler: ``"sm_90"``."""
        return "sm_{}{}".format(*self.capability)

    @property
    def has_wgmma(self) -> bool:
        """Whether it has the matrix instructions of a warpgroup: Hopper alone."""
        return self.capability[0] == HOPPER[0]

    @property
    def is_measured(self) -> bool:
        """Whether what was measured on an H100 or H200 holds: of other chips a model of theirs is scaled."""
        return self.capability == HOPPER

    @functools.cached_property
    def speed(self) -> dict[str, float]:
        """How fast a multiprocessor is against one that was measured, by "single", "double" and "half".

        With "memory": how fast the memory of all is.
        """
        if self.is_measured:
            return dict.fromkeys(("single", "double", "half", "memory"), 1.0)
        share = MEASURED.multiprocessors / self.multiprocessors
        of_one = {rate: share * getattr(self, rate) / getattr(MEASURED, rate) for rate in ("single", "double", "half")}
        return of_one | {"memory": self.bytes_a_second / MEASURED.bytes_a_second}

    def alone(self, cluster: int) -> int:
        """Return how many blocks, in clusters of so many, have a multiprocessor each for themselves."""
        share = _CLUSTERED.get(cluster, _CLUSTERED_OF)
        return max(cluster, self.multiprocessors * share // _CLUSTERED_OF)

    def blocks_by_shared_memory(self, shared_bytes: int) -> int:
        """Return how many blocks, each with so many bytes, fit into a multiprocessor; none if one does not."""
        return self.shared_of_multiprocessor // (shared_bytes + _SHARED_OF_SYSTEM)

    def blocks_at_once(self, threads: int, registers: int, shared_bytes: int, most: int) -> int:
        """Return how many blocks of so many threads, with so many registers each, a multiprocessor holds: 1 to `most`.

        Parameters
        ----------
        threads : int
            Of a block.
        registers : int
            Of a thread.
        shared_bytes : int
            Of a block.
        most : int
        """
        of_thread = -(-registers // _STEP_OF_REGISTERS) * _STEP_OF_REGISTERS
        of_registers = self.registers // (threads * of_thread)
        return max(1, min(most, self.blocks_by_shared_memory(shared_bytes), of_registers))


# Least compute capabilities: of kernels at all, for which NVRTC 13 asks 7.5; of cp.async; of TMA and clusters.
OLDEST, ASYNC_COPY, HOPPER = (7, 0), (8, 0), (9, 0)

# By compute capability: KiB of shared memory of a block and of a multiprocessor, and products that a multiprocessor
# adds in a clock, as `Device` has them: of float32, of float64, of 16-bit floats.
_ARCHITECTURES = {
    (7, 0): (96, 96, 64, 32, 512),
    (7, 5): (64, 64, 64, 2, 512),
    (8, 0): (163, 164, 64, 64, 1024),
    (8, 6): (99, 100, 128, 2, 512),
    (8, 9): (99, 100, 128, 2, 512),
    (9, 0): (227, 228, 128, 128, 2048),
    (10, 0): (227, 228, 128, 64, 4096),
    (10, 3): (227, 228, 128, 2, 4096),
    (11, 0): (227, 228, 128, 2, 4096),
    (12, 0): (99, 100, 128, 2, 512),
    (12, 1): (99, 100, 128, 2, 512),
}
# By name: compute capability, multiprocessors, MHz, MiB of L2, GB of memory, GB that it reads in a second.
_CHIPS = {
    "V100": ((7, 0), 80, 1530, 6, 32, 900),
    "RTX 2080": ((7, 5), 46, 1710, 4, 8, 448),
    "A100": ((8, 0), 108, 1410, 40, 80, 2039),
    "RTX 3090": ((8, 6), 82, 1695, 6, 24, 936),
    "RTX 4090": ((8, 9), 128, 2520, 72, 24, 1008),
    "H100": ((9, 0), 132, 1980, 50, 80, 3350),
    "H200": ((9, 0), 132, 1980, 50, 141, 4800),
    "B200": ((10, 0), 148, 1965, 126, 180, 8000),
    "B300": ((10, 3), 148, 1920, 126, 288, 8000),
    "Jetson Thor": ((11, 0), 20, 1575, 32, 128, 273),
    "RTX 5090": ((12, 0), 170, 2407, 96, 32, 1792),
    "DGX Spark": ((12, 1), 48, 2418, 24, 128, 273),
}


def _known(name: str) -> Device:
    capability, multiprocessors, mhz, l2, memory, bandwidth = _CHIPS[name]
    of_block, of_multiprocessor, *a_clock = _ARCHITECTURES[capability]
    single, double, half = (1e6 * mhz * multiprocessors * rate for rate in a_clock)
    return Device(
        name=name,
        capability=capability,
        multiprocessors=multiprocessors,
        shared_memory=of_block << 10,
        shared_of_multiprocessor=of_multiprocessor << 10,
        registers=1 << 16,
        l2=l2 << 20,
        memory=memory * 10**9,
        bytes_a_second=bandwidth * 1e9,
        single=single,
        double=double,
        half=half,
    )


DEVICES = {name: _known(name) for name in _CHIPS}

# The chip of which tiles, rates and costs were measured; plans are for it where there is no GPU.
MEASURED = DEVICES["H200"]


@functools.cache
def like(name: str, capability: tuple[int, int]) -> Device:
    """Return the known chip that a GPU of that name and capability is most like: by name, else the newest not newer."""
    named = next((chip for known, chip in DEVICES.items() if known in name and chip.capability == capability), None)
    older = [chip for chip in DEVICES.values() if chip.capability <= capability]
    return named or max(older, key=lambda chip: chip.capability, default=DEVICES["V100"])


def queried(name: str, capability: tuple[int, int], multiprocessors: int, **facts: int) -> Device:
    """Return a GPU with what it says of itself, and the rates of the chip that it is most like.

    Parameters
    ----------
    name, capability, multiprocessors
        As of `Device`.
    **facts
        Other fields of `Device` that were queried.
    """
    known = like(name, capability)
    share = multiprocessors / known.multiprocessors
    rates = {rate: getattr(known, rate) * share for rate in ("single", "double", "half")}
    own = {"name": name, "capability": capability, "multiprocessors": multiprocessors}
    return dataclasses.replace(known, **own, **rates, **facts)  # type: ignore[arg-type]


def odd_granules(elements: int, granule: int) -> int:
    """Return the elements of so many granules, or one more, that they are an odd number: lines in different banks."""
    return (-(-elements // granule) // 2 * 2 + 1) * granule
