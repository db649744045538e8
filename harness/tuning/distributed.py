"""Rates of links between ranks, for the choice of a grid before anything has been measured on the machine at hand.

Each row says where it was measured. `harness.distributed.model` takes others.
"""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """What a message between two ranks costs while all ranks send.

    Parameters
    ----------
    bytes_per_s : float
        Bytes that one rank receives in a second.
    latency_s : float
        Time of a message without content [s].
    """

    bytes_per_s: float
    latency_s: float


LINKS = {
    # MPICH 5.0 on one host with two cores, 2 ranks: 5.4 GB/s, 1.6 us.
    "shared memory": Link(5.4e9, 1.6e-6),
    # NCCL on one host with NVLink 4, multicast off: 370 GB/s effective of 450 (NVIDIA/nccl-tests, issue 212).
    "nvlink": Link(370e9, 10e-6),
    # NCCL between hosts with 8 links of 400 Gb/s each: 46 GB/s a GPU, 46 us (NVIDIA/nccl, issues 1221 and 1244).
    "network of GPUs": Link(46e9, 20e-6),
    # One port of 400 Gb/s, MPI from host to host: the line rate, no measurement of this project.
    "network": Link(48e9, 2e-6),
}

# Pairs, one (x) and one (+), that one rank computes in a second: of one core over float64, as cpu-simd does it on an
# AMD EPYC at 3.7 GHz (plus_times 26e9, min_plus 13e9); a GPU's is about two thousand times that.
PAIRS_PER_S = 2.0e10
PAIRS_PER_S_ON_GPU = 2.5e13


class Panels(NamedTuple):
    """How panels of k are gathered.

    Parameters
    ----------
    in_flight : int
        Panels in memory at once.
    parts : int
        How many panels k is cut into, of `least` to `most` elements each; 0: it is not cut.
    """

    in_flight: int
    parts: int = 0
    least: int = 0
    most: int = 0

    def panel(self, k: int) -> int:
        """Return elements of a panel; 0: all of k."""
        return min(self.most, max(self.least, k // self.parts)) if self.parts else 0


# 16 ranks on 16 processors, float64, n = 4096, over one process of 16 threads: all of k at once 0.92, panels of 512
# 0.75, gathered ahead by a thread 0.77. Copies between ranks are work of the cores that compute.
HOST_PANELS = Panels(1)
# Two H200s, copy engines, over the same products without any copy: gathered ahead 0.99 to 1.02, else 0.93 to 0.99, for
# float64, float32 and min_plus at n = 8192 and 16384. Local products of cuBLAS lose by short panels. In float64, pairs
# a second: at n = 8192 43e12 by panels of 512, 51e12 to 54e12 by 1024; at 16384 51e12, 52.7e12, 53.4e12, 54.5e12 by
# 1024, 2048, 4096, 8192. Long ones expose the first of them.
GPU_PANELS = Panels(3, 8, 1024, 4096)
