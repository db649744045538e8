"""Closures of graphs whose rows lie on ranks, against the definition; ``mpiexec -n P python -m mpi4py`` runs it."""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

from harness.distributed import DistributedError, closure, shortest_paths
from tests._support.graphs import closure_by_definition, random_graph

COMM = MPI.COMM_WORLD
KINDS = (("min_plus", "float64"), ("min_plus", "int32"), ("max_min", "float32"), ("lor_land", "bool"))


def mine(matrix, cuts):
    """Return the rows of this rank."""
    return matrix[cuts[COMM.rank] : cuts[COMM.rank + 1]]


def cut(rng, n):
    """Return where the rows of each rank begin, anywhere, and their end."""
    return [0, *sorted(int(x) for x in rng.integers(0, n + 1, COMM.size - 1)), n]


def message(call):
    """Return what a call that is refused on all ranks says."""
    try:
        call()
    except DistributedError as error:
        return str(error)
    raise AssertionError("not refused")


def main():
    """Check each in turn; an assertion ends the job."""
    rng = np.random.default_rng(5)  # alike on all ranks
    for n in (0, 1, 2, 7, 61, 130):
        for semiring, dtype in KINDS:
            graph, cuts = random_graph(rng, n, semiring, dtype), cut(rng, n)
            given = mine(graph, cuts).copy()
            for block in (1, 9, 256):
                best = closure(given, semiring, comm=COMM, block=block)
                np.testing.assert_array_equal(best, mine(closure_by_definition(graph, semiring), cuts), str((n, block)))
            np.testing.assert_array_equal(given, mine(graph, cuts))
    cyclic = np.full((40, 40), np.inf)
    cyclic[np.arange(39), np.arange(1, 40)] = 1.0
    cyclic[21, 18] = -4.0
    for block in (1, 8, 64):
        said = message(lambda block=block: shortest_paths(mine(cyclic, cut40), comm=COMM, block=block))
        assert any(f"vertex {vertex} lies on a cycle" in said for vertex in (18, 19, 20, 21)), said
    cyclic[21, 18], cyclic[3, 7] = np.inf, np.nan
    assert "NaN" in message(lambda: shortest_paths(mine(cyclic, cut40), comm=COMM))
    assert "no square matrix" in message(lambda: shortest_paths(np.ones((2, 2 * COMM.size + 1)), comm=COMM))
    other = np.float32 if COMM.rank else np.float64
    assert COMM.size == 1 or "dtype" in message(lambda: shortest_paths(np.ones((2, 2 * COMM.size), other), comm=COMM))
    assert "block" in message(lambda: shortest_paths(np.ones((2, 2 * COMM.size)), comm=COMM, block=0))
    assert "semiring" in message(lambda: closure(np.ones((2, 2 * COMM.size)), "plus_times", comm=COMM))
    if COMM.rank == 0:
        sys.stdout.write("all alike\n")
    end = COMM.Ibarrier()
    while not end.Test():  # MPI would wait busily for the first rank
        time.sleep(0.01)


cut40 = [40 * rank // COMM.size for rank in range(COMM.size + 1)]

if __name__ == "__main__":
    main()
