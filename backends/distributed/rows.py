"""Rows of A, C and D are spread over the ranks; every rank gathers all of B.

Each rank receives (1 - 1/P) kn words and needs room for all of B, whatever P. That is simple, and the best there is if
m is much larger than n and k.

Source: the second MPI program of the course reports.
"""

from __future__ import annotations

from backends.distributed._job.strategy import Strategy


class Rows(Strategy):
    """Rows of A by all of B."""

    name = "dist-1d"
    step = 20
    idea = "each rank has rows of A and C, and gathers all of B"
    source = "course reports (MPI, one dimension)"
    flat = "nk"
