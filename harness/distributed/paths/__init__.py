"""Shortest paths and closures of a graph whose rows are spread over the ranks of an MPI program.

Each rank has some rows of D, one below the other. Panels of pivots are parts of a rank's rows, of at most `block`::

    for each panel K                     P = D[K, :]
        its rank       close(P[:, K])    P := P (+) P[:, K] (x) P
        all ranks      receive P
        other rows     D[rows, :] := D[rows, :] (+) D[rows, K] (x) P

The rank of the next panel improves its rows first, closes them and begins to send them. All then improve the other rows
while it travels. On P ranks a rank computes n^3 / P pairs and receives n^2 values. It needs room for its rows and for
two panels.

Source: Venkataraman, Sahni and Mukhopadhyaya (2003), by rows; the look-ahead is that of distributed LU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.api import gemm
from harness.api import paths as of_one
from harness.api.arrays import HOST
from harness.distributed.agreement import (
    check_communicator,
    check_equal,
    check_launcher,
    raise_together,
    together,
)
from harness.errors import ProblemError
from harness.operands import aligned_empty
from harness.problem import Problem
from harness.scalars import as_count
from harness.semiring import Semiring, as_semiring
from harness.threads import check as check_threads

# Pivots of a panel: products of so many terms are near the rate of square ones.
BLOCK = 256


def shortest_paths(rows: Any, *, comm: Any, backend: str = "auto", threads: int = 1, block: int = BLOCK) -> np.ndarray:
    """Compute the shortest distances from the vertices of this rank: `closure` over min_plus.

    Parameters
    ----------
    rows : (height, n) array of floats or integers
        The lengths of the edges from them; where there is none, as in `harness.paths.shortest_paths`.
    comm, backend, threads, block
        As in `closure`.

    Returns
    -------
    distances : (height, n) array
        New, on each rank.

    Raises
    ------
    DistributedError
        As `closure`.
    """
    return closure(rows, "min_plus", comm=comm, backend=backend, threads=threads, block=block)


def closure(
    rows: Any,
    semiring: str | Semiring = "min_plus",
    *,
    comm: Any,
    backend: str = "auto",
    threads: int = 1,
    block: int = BLOCK,
) -> np.ndarray:
    """Compute the best values of paths from the vertices of this rank, in a graph that all ranks have together.

    Parameters
    ----------
    rows : (height, n) array
        The edges from this rank's vertices, as in `harness.paths.closure`. Rank after rank they make the (n, n) matrix;
        a rank may have none.
    semiring : str or Semiring
        One that `harness.paths.closure` takes.
    comm : mpi4py communicator
        All of its ranks must call.
    backend : str
        Of the products of each rank.
    threads : int
        Of each rank.
    block : int
        Most pivots of a panel.

    Returns
    -------
    best : (height, n) array
        New, on each rank.

    Raises
    ------
    DistributedError
        On all ranks: if the rows make no square matrix of one dtype, hold NaN, or a cycle betters the empty path.
    """
    check_communicator(comm)
    check_launcher(comm)
    mine: list[np.ndarray] = []

    def read() -> tuple[int, int, str, str, int]:
        known, count = as_semiring(semiring), as_count(block)
        if not known.is_named or known.name not in of_one.CLOSED:
            raise ProblemError("closure: no such semiring", expected=" or ".join(of_one.CLOSED), got=known.name)
        if count is None:
            raise ProblemError("block is no number of pivots", expected="an integer >= 1", got=repr(block))
        check_threads(threads)
        best = np.array(HOST.take("closure", "rows", rows), order="C")
        if best.ndim != 2:
            raise ProblemError(
                "rows is no matrix", expected="an array of two dimensions", got=f"{best.ndim} dimensions"
            )
        best = best.astype(Problem(1, 1, 1, known, best.dtype).dtype, copy=False)
        if (best != best).any():  # noqa: PLR0124
            at = [int(i) for i in np.argwhere(best != best)[0]]  # noqa: PLR0124
            raise ProblemError("an edge is NaN", expected="a number", got=f"NaN at {at} of this rank's rows")
        mine.append(best)
        return (*best.shape, best.dtype.name, known.name, count)

    answers = together(comm, read)
    heights = [height for height, *_ in answers]
    for name, values in zip(
        ("columns", "dtype", "semiring", "block"), list(zip(*answers, strict=True))[1:], strict=True
    ):
        check_equal(comm, name, list(values))
    n = answers[0][1]
    if sum(heights) != n:
        raise_together(comm, "the rows make no square matrix", f"{n} rows on all ranks together", f"{heights}")
    how = {"semiring": as_semiring(semiring), "backend": backend, "threads": threads}
    work = _Rows(comm, mine[0], heights, answers[0][4], how)
    work.close()
    return work.best


class _Panel(NamedTuple):
    """Pivots from `first` to `last`, which are the rows from `begin` on of rank `rank`."""

    rank: int
    first: int
    last: int
    begin: int

    @property
    def pivots(self) -> slice:
        return slice(self.first, self.last)

    @property
    def rows(self) -> slice:
        return slice(self.begin, self.begin + self.last - self.first)


class _Rows:
    """The rows of a rank, and all panels."""

    def __init__(self, comm: Any, best: np.ndarray, heights: list[int], block: int, how: dict[str, Any]) -> None:
        self.best, self._comm, self._how = best, comm, how
        self._first = sum(heights[: comm.Get_rank()])
        self._panels = [
            _Panel(rank, first + begin, first + min(begin + block, height), begin)
            for rank, height in enumerate(heights)
            for first in [sum(heights[:rank])]
            for begin in range(0, height, block)
        ]
        most = max((panel.last - panel.first for panel in self._panels), default=0)
        self._room = [aligned_empty((most, best.shape[1]), best.dtype) for _ in range(2)]  # this panel, and the next

    def close(self) -> None:
        """Let all paths pass through all vertices, or raise DistributedError on all ranks."""
        semiring, dtype, comm = self._how["semiring"], self.best.dtype, self._comm
        height, n = self.best.shape
        diagonal, one = self.best.reshape(-1)[self._first :: n + 1][:height], semiring.one(dtype)
        semiring.add.ufunc(diagonal, one, out=diagonal)
        sent: Any = self._send(0) if self._panels else None
        for number, panel in enumerate(self._panels):
            sent.Wait()
            values, following = self._values(number), number + 1
            done = [panel] if panel.rank == comm.Get_rank() else []
            if following < len(self._panels):
                ahead = self._panels[following]
                if ahead.rank == comm.Get_rank():
                    self._improve(ahead.rows, panel, values)
                    done.append(ahead)
                sent = self._send(following)
            ends = [0, *(end for x in done for end in (x.rows.start, x.rows.stop)), height]
            for begin, end in zip(ends[::2], ends[1::2], strict=True):
                self._improve(slice(begin, end), panel, values)
        better = np.flatnonzero(diagonal != one)
        cycles = comm.allgather(int(better[0]) + self._first if better.size else -1)
        vertex = next((x for x in cycles if x >= 0), None)
        if vertex is not None:
            what = f"closure: vertex {vertex} lies on a cycle that betters the empty path"
            raise_together(comm, what, f"no cycle better than {one}", f"a better one through vertex {vertex}")

    def _send(self, number: int) -> Any:
        """Close the rows of a panel, if they are here, and begin to send them to all; return the request."""
        panel = self._panels[number]
        values = self._values(number)
        if panel.rank == self._comm.Get_rank():
            rows = self.best[panel.rows]
            rows[:, panel.pivots] = _closed(rows[:, panel.pivots], self._how)
            gemm.gemm(rows[:, panel.pivots].copy(), rows.copy(), rows, out=rows, **self._how)
            values[...] = rows
        return self._comm.Ibcast(values.view(np.uint8), root=panel.rank)

    def _values(self, number: int) -> np.ndarray:
        panel = self._panels[number]
        return self._room[number % 2][: panel.last - panel.first]

    def _improve(self, rows: slice, panel: _Panel, values: np.ndarray) -> None:
        """Let paths from these rows pass through the pivots, which are none of them."""
        target = self.best[rows]
        if len(target):
            gemm.gemm(target[:, panel.pivots].copy(), values, target, out=target, **self._how)


def _closed(square: np.ndarray, how: dict[str, Any]) -> np.ndarray:
    """Return the closure of a block of pivots; where a cycle betters the empty path, its diagonal shows it."""
    try:
        return np.asarray(of_one.closure(square, **how))
    except ProblemError:
        for _ in range(len(square).bit_length()):
            square = gemm.gemm(square, square, square, **how)
        return square
