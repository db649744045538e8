"""Panels of k that are gathered between ranks: sizes and numbers that measured fastest."""

from __future__ import annotations

from typing import NamedTuple


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
# A rank whose block is done computes parts of the blocks of others. A third of each block is cut into four such parts,
# along the longer sides. Each part copies its rows of A and columns of B: 1024 x 1024 x 4096 of float64 takes 1.08 of
# the time of a whole block, by a model of two terms that fits other cuts. On 16 processors of unequal speed 16 ranks of
# one thread took 0.76, 0.79 and 0.96 of the time at n = 4096, 2048 and 1024. Other parts, 1/4 to 1/2 in 3 to 5, made no
# difference that 9 samples show. Ranks of 2 threads took 0.96 and 0.93, those of 4 and 8 more: 1.1 to 1.5.
STOLEN, STOLEN_PARTS = 1 / 3, 4
# Rows or columns of a part are a multiple of it: whole register tiles of float64, and half ones of float32.
STOLEN_STEP = 24
# From how many ranks, and pairs of a block, that pays. Two ranks on two quiet cores took 1.04 of the time; between 2
# and 16 nothing was measured.
STEAL_FROM_RANKS, STEAL_FROM_PAIRS = 8, 1 << 26
