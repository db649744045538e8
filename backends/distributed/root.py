"""Everything begins and ends on rank 0: scatter on the faces of a grid, broadcast along it, reduce, gather.

    rank 0 sends A(i, l) to the ranks with j = 0, B(l, j) to those with i = 0, C(i, j) to those with l = 0
    A goes along n by broadcast, B along m        every rank then has what it computes with
    D(i, j) is reduced along k to l = 0           C, scaled by beta, enters there
    rank 0 gathers D

Rank 0 must send and receive (1 - 1/P) (mk + kn + mn) words whatever the grid, which bounds the speed-up.

Source: the MPI programs of the course reports; Agarwal et al., "A three-dimensional approach to parallel matrix
multiplication" (1995).
"""

from __future__ import annotations

from backends.distributed._job.strategy import Strategy
from harness.distributed.grid import FACES


class Root(Strategy):
    """Data on rank 0."""

    name = "dist-root"
    step = 10
    idea = "rank 0 scatters A, B and C on the faces of a grid of ranks, and gathers D"
    source = "course reports (MPI); Agarwal et al., A three-dimensional approach (1995)"
    layout = FACES
    from_root = True
