"""Pieces of the loop of Goto's five that threads share: the form of a piece, and how many there are.

=======  =====================================  ==========================================================
loop     a thread's piece                       packed panels
=======  =====================================  ==========================================================
jc       a row-panel of B, all of m             A and B packed by each thread for itself
ic       a block of A, all of the row-panel     B shared, a block of A packed by the thread that computes it
jr       some micro-panels of B                 B and a block of A shared
ir       some micro-panels of A                 B and a block of A shared
ic+jr    a block of A, some micro-panels of B   B and all blocks of A shared
=======  =====================================  ==========================================================

Pieces are claimed one by one, and there are more of them than threads where the sizes allow it. With one equal share
for each thread the product would end with the slowest processor.

Source: Smith, van de Geijn, Smelyanskiy, Hammond and Van Zee, "Anatomy of High-Performance Many-Threaded Matrix
Multiplication" (2014).
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from harness.plan import Blocking
from harness.tuning.cpu import PACKED_PIECES, split_evenly

LOOPS = ("ic", "jc", "jr", "ir", "ic+jr")  # the first one is the default


class Shares(NamedTuple):
    """Pieces of the shared loops.

    Attributes
    ----------
    row_panels : int
        Row-panels of B that threads pack and compute alone; 0: all threads share one at a time.
    blocks : int
        Blocks of A that are packed together.
    panels : int
        Micro-panels of B in a piece.
    strips : int
        Micro-panels of A in a piece.
    """

    row_panels: int
    blocks: int
    panels: int
    strips: int


def shares_of(loop: int | str, m: int, n: int, blocking: Blocking, threads: int) -> tuple[Shares, Blocking]:
    """Return the pieces if threads share `loop`, and the blocking: threads that share jc have narrower row-panels."""
    if loop == "jc":
        blocking = dataclasses.replace(blocking, nc=split_evenly(n, blocking.nc, blocking.nr, threads))
    blocks, panels, strips = -(-m // blocking.mc), blocking.nc // blocking.nr, blocking.mc // blocking.mr
    pieces = PACKED_PIECES * threads
    some_panels, some_strips = max(panels // pieces, 1), -(-strips // threads)
    across = math.isqrt(threads)
    shares = {
        "jc": Shares(-(-n // blocking.nc), 1, panels, strips),
        "ic": Shares(0, blocks, panels, strips),
        "jr": Shares(0, 1, some_panels, strips),
        "ir": Shares(0, 1, panels, some_strips),
        "ic+jr": Shares(0, blocks, max(-(-panels // (2 * across)), 1), strips),
    }
    return shares[str(loop)], blocking
