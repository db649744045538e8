"""What repeated calls, parts of a communicator and idle ranks do; ``mpiexec -n 4 python -m mpi4py`` runs it."""

from __future__ import annotations

import sys
import time
from unittest import mock

import numpy as np
from mpi4py import MPI

from harness.distributed import gemm
from tests._support.rank_products import LOCAL

COMM = MPI.COMM_WORLD
MANY = 50
# More than the communicators that MPICH can have at once, at five for each.
MORE_THAN_MPI_HAS = 600
made = []


class CountedComm(MPI.Intracomm):
    """Counts the communicators that are split from it or duplicated."""

    def Split(self, *arguments):  # noqa: N802 the name is MPI's
        made.append("Split")
        return super().Split(*arguments)

    def Dup(self, *arguments):  # noqa: N802 likewise
        made.append("Dup")
        return super().Dup(*arguments)


def rows(comm, scale, **options):
    """Compute ``2 scale`` on every rank of `comm`, by rows."""
    a, b = np.full((1, comm.Get_size()), 1.0), np.full((1, 3), 2.0 * scale / comm.Get_size())
    return gemm(a, b, comm=comm, **options)[0]


def main():
    """Check each in turn; an assertion ends the job."""
    counted = CountedComm(COMM)
    for _ in range(MANY):
        assert np.array_equal(rows(counted, 1.0, grid="2x1x2"), np.full((1, 3), 2.0))
    assert made == ["Split"] * 3 + ["Dup"], made
    half = COMM.Split(COMM.rank % 2, COMM.rank)
    for turn in range(5):  # each half another product, of another number of panels, at once
        scale = 1.0 + COMM.rank % 2 + turn
        assert np.array_equal(rows(half, scale, panel=1 + COMM.rank % 2, in_flight=2), np.full((1, 3), 2 * scale))
    assert np.array_equal(rows(MPI.COMM_SELF, 5.0), np.full((1, 3), 10.0))
    assert np.array_equal(rows(COMM, 1.0, grid="1x3x1"), np.full((1, 3), 2.0)), "a rank is idle"
    if COMM.rank == 0:
        for _ in range(MORE_THAN_MPI_HAS):
            part = MPI.COMM_SELF.Dup()
            rows(part, 1.0)
            part.Free()
        sys.stdout.write("nothing grows\n")
    end = COMM.Ibarrier()
    while not end.Test():  # MPI would wait busily for the first rank
        time.sleep(0.01)


if __name__ == "__main__":
    with mock.patch.multiple("harness.distributed.spmd", **LOCAL):
        main()
