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
        How many panels k is cut into, of `least` elements or more each; 0: it is not cut.
    """

    in_flight: int
    parts: int = 0
    least: int = 0

    def panel(self, k: int) -> int:
        """Return elements of a panel; 0: all of k."""
        return max(self.least, k // self.parts) if self.parts else 0


# Of ranks on the host all of k at once: copies between ranks are work of the cores that compute.
HOST_PANELS = Panels(1)
# Of GPUs by copy engines. A rank begins with a panel of which most is its own, and all products lose by short ones.
GPU_PANELS = Panels(3, 2, 1024)
# A rank whose block is done computes parts of the blocks of others. A third of each block is cut into four such parts,
# along the longer sides.
STOLEN, STOLEN_PARTS = 1 / 3, 4
# Rows or columns of a part are a multiple of it: whole register tiles of float64, and half ones of float32.
STOLEN_STEP = 24
# From how many ranks, and pairs of a block, that pays.
STEAL_FROM_RANKS, STEAL_FROM_PAIRS = 8, 1 << 26
