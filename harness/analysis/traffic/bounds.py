"""Lower bounds on loads: the fewest that any order of loops needs, through a fast memory of S elements. Pure.

**Least loads.** Cut a computation into phases of S loads and stores each. In a phase at most 2 S elements of A can be
used, S that were there and S that came; so of B; and at most 2 S sums be reached. By the inequality of Loomis and
Whitney they make up at most sqrt((2 S)^3) pairs. So at least m n k / (2 sqrt(2) S^(3/2)) - 1 phases are whole, and

    loads and stores >= m n k / (2 sqrt(2 S)) - S

which is the bound n^3 / sqrt(S) of Hong and Kung with the constant of Irony, Toledo and Tiskin. Smith and others proved
2 m n k / sqrt(S) - 2 S, which is tight: a tile of C of nearly sqrt(S) x sqrt(S), kept while columns of A and rows of
B stream past, attains it.

**Most operations a load.** So no schedule has more than sqrt(S) operations (two a pair) a load. Three square tiles in
fast memory, 3 T^2 = S, have T = sqrt(S / 3).

Source: Hong and Kung, "I/O Complexity: The Red-Blue Pebble Game" (STOC 1981), section 6: Omega(n^3 / sqrt(S)), no
constant; Irony, Toledo and Tiskin, "Communication Lower Bounds for Distributed-Memory Matrix Multiplication" (2004);
Smith, Lowery, Langou and van de Geijn, "A Tight I/O Lower Bound for Matrix Multiplication" (2019).
"""

from __future__ import annotations

import math


def least_loads(m: int, n: int, k: int, elements: float) -> float:
    """Return the fewest elements that pass between a fast memory of `elements` and a slow one, in a product."""
    return max(2 * m * n * k / math.sqrt(elements) - 2 * elements, 0.0)


def balance(peak: float, bandwidth: float, itemsize: int, loads_of_a_block: float = 2) -> float:
    """Return the side of a block at which loading takes as long as computing.

    Parameters
    ----------
    peak, bandwidth : float
        In G operations/s and GB/s.
    itemsize : int
        Bytes of an element.
    loads_of_a_block : float
        Elements that are moved for a pair, times the side: 2 for a square tile, of A and of B; 1 if a block of A stays
        and B passes.

    Source
    ------
    Lecture notes on dense matrix algorithms: ``m = a = FLOPs / loads``.
    """
    return loads_of_a_block * itemsize * peak / (2 * bandwidth)
