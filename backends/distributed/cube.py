"""A grid of ranks in three dimensions: k is cut too, and partial sums are reduced along it.

Each rank receives ``mk/(pm pk) (1 - 1/pn) + kn/(pk pn) (1 - 1/pm) + mn/(pm pn) (1 - 1/pk)`` words: 3 n^2 / P^(2/3) for
squares on a cube of ranks, which no algorithm can undercut. It needs room for larger blocks than a plane does.

Source: Agarwal et al., "A three-dimensional approach to parallel matrix multiplication" (1995).
"""

from __future__ import annotations

from backends.distributed._job.strategy import Strategy


class Cube(Strategy):
    """Blocks of D, and parts of k."""

    name = "dist-3d"
    step = 40
    idea = "k is cut among ranks too: fewer words are gathered, partial sums are reduced"
    source = "Agarwal et al., A three-dimensional approach (1995)"
