"""Rates of links between ranks, for the choice of a grid before anything has been measured on the machine at hand.

Each row says where it was measured. `harness.distributed.choice.model` takes others.
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
    reduced_bytes_per_s : float
        Bytes of partial sums that one rank receives and combines in a second. 0: as within the memory of a host, which
        all ranks share. A transfer reads and writes each word there; to combine it reads it, reads the sum and writes
        that. So five words move for two.
    """

    bytes_per_s: float
    latency_s: float
    reduced_bytes_per_s: float = 0.0

    @property
    def reduction(self) -> float:
        """Bytes of partial sums that one rank receives and combines in a second, by the rule if no rate is given."""
        return self.reduced_bytes_per_s or self.bytes_per_s * 2 / 5


LINKS = {
    # MPICH 5.0 on one host with two cores, 2 ranks: 5.4 GB/s, 1.6 us. With 16 ranks on 16 cores: 3.5 GB/s.
    "shared memory": Link(5.4e9, 1.6e-6),
    # NCCL on one host with NVLink 4, multicast off: 370 GB/s effective of 450 (NVIDIA/nccl-tests, issue 212). Combining
    # moves three words in the memory of a GPU, at 4.3 TB/s.
    "nvlink": Link(370e9, 10e-6, 294e9),
    # NCCL between hosts with 8 links of 400 Gb/s each: 46 GB/s a GPU, 46 us (NVIDIA/nccl, issues 1221 and 1244).
    "network of GPUs": Link(46e9, 20e-6, 44.6e9),
    # One port of 400 Gb/s, MPI from host to host: the line rate, no measurement of this project; memory of 200 GB/s.
    "network": Link(48e9, 2e-6, 28e9),
}

# Pairs, one (x) and one (+), that one rank computes in a second: of one core over float64, as cpu-simd does it on an
# AMD EPYC at 3.7 GHz (plus_times 26e9, min_plus 13e9); a GPU's is about two thousand times that.
PAIRS_PER_S = 2.0e10
PAIRS_PER_S_ON_GPU = 2.5e13
