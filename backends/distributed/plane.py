"""A plane of ranks: rank (i, j) gathers rows i of A and columns j of B, and computes a block of D where it stays.

Each rank receives mk/pm (1 - 1/pn) + kn/pn (1 - 1/pm) words: 2 n^2 / sqrt(P) for squares, against n^2 by rows alone.
Nothing is reduced, so any (+) will do. With ``panel`` it is SUMMA: panels of k are gathered one after the other.

Source: van de Geijn, Watts, "SUMMA: scalable universal matrix multiplication algorithm" (1997).
"""

from __future__ import annotations

from backends.distributed._job.strategy import Strategy


class Plane(Strategy):
    """Blocks of D."""

    name = "dist-2d"
    step = 30
    idea = "each rank keeps a block of D, and gathers the rows of A and the columns of B that it needs"
    source = "van de Geijn, Watts, SUMMA (1997)"
    flat = "k"
