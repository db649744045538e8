"""All pairs of best paths in a dense graph: the closure of its matrix, almost all of whose work is semiring products.

A path's value is the (x) of its edges, and the best of all paths from i to j is their (+). Over min_plus that is the
shortest path; over max_min the widest; over min_max the one whose worst edge is best; over lor_land reachability. With
the one of the semiring on the diagonal (the empty path), the closure of W is W (x) W (x) ... until nothing changes.

All work is steps of one form: rows i are improved by all paths through pivots K at once::

    D[i, :]  :=  D[i, :]  (+)  D[i, K] (x) D[K, :]               one product

To let all paths pass through a range of vertices, let them pass through its first half, then its last::

    close(K1)      D[K2, :] by pivots K1      close(K2)      D[K1, :] by pivots K2

Halving ends at a block of vertices, which is closed by steps of its own rows by its own pivots until nothing changes.
All products together have n^3 pairs, and the blocks, of b vertices, at most n^2 b log2(b). Two methods:

* ``"blocked"``: as above.
* ``"squaring"``: all vertices are one block: ``D := D (x) D``, at most log2(n) times. More work by that factor, but it
  ends early where best paths have few edges.

If predecessors are asked for, every step updates them too (harness/api/paths/predecessors.py).

Sources: Venkataraman, Sahni and Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm" (2003), section 2. By
halves: D'Alberto and Nicolau, "R-Kleene" (2007). Other semirings: Aho, Hopcroft and Ullman, "The Design and Analysis of
Computer Algorithms" (1974), section 5.6.
"""

from __future__ import annotations

from typing import Any

from harness.api.libraries.views import any_library
from harness.api.paths.compute import CLOSED, Options, run
from harness.errors import ProblemError
from harness.semiring import Semiring, as_semiring

__all__ = ["CLOSED", "closure", "shortest_paths"]


def shortest_paths(
    weights: Any,
    *,
    method: str = "blocked",
    block: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    return_predecessors: bool = False,
    directed: bool = True,
    sources: Any = None,
    device: int | list[int] | None = None,
    memory_cap: int | None = None,
) -> Any:
    """Compute the length of a shortest path between every two vertices: the closure over min_plus.

    Parameters
    ----------
    weights : (n, n) array of floats or integers
        ``weights[i, j]`` is the length of the edge from i to j. Where there is no edge it is +inf, or for integers the
        dtype's maximum. Zero is an edge of length zero, as it is where a sparse matrix stores it; what a sparse matrix
        does not store is no zero but +inf (``scipy.sparse.csgraph.csgraph_to_dense(graph, null_value=np.inf)``), and a
        zero of a dense array is no edge only to SciPy. Negative lengths are legal.
    method : str
        ``"blocked"`` or ``"squaring"``.
    block : int, optional
        Vertices in a block; for ``"blocked"``.
    backend, threads
        As in `harness.gemm`.
    return_predecessors : bool
        Whether to return predecessors too.
    directed : bool
        False: edges go both ways. `weights` must be symmetric, which is checked, and half the work is left. SciPy takes
        the shorter of two edges instead: pass ``np.minimum(weights, weights.T)``.
    sources : sequence of int, optional
        Vertices whose rows are wanted, in this order; all of them if it is left out. Of few sources only their own rows
        are computed, where that is less work.
    device : int or list of int, optional
        The number of a GPU that computes, of an array on the host. What it does not hold at once passes through it by
        ranges of rows; then there are no predecessors. Or the numbers of several GPUs, each of which holds some of the
        rows; then there are none either.
    memory_cap : int, optional
        Most bytes of the memory of each GPU that arrays and kernels take; all that is free if it is left out.

    Returns
    -------
    distances : (n, n) array, or (sources, n)
        Of the dtype and library of `weights`, C-ordered, new; +inf or the maximum where there is no path; zero on the
        diagonal. Integer sums saturate, so a path as long as the maximum counts as none: choose a dtype that holds the
        longest.
    predecessors : array of int32, of that shape
        Only if asked for. ``predecessors[i, j]`` is the vertex before j on a shortest path from i to j, and -9999
        where there is no path or j is i, as in ``scipy.sparse.csgraph``. Walking back from j reaches i by
        existing edges whose lengths sum to the distance: exactly for integers, and for floats but for rounding.

    Raises
    ------
    ProblemError
        If `weights` is no square matrix of numbers, holds NaN, has a cycle of negative length, or is not symmetric
        though `directed` is False. A sum of floats that is zero but for rounding counts as negative if it is computed
        so. With `sources` only cycles that one of them reaches count.
    BackendUnavailable
        As in `harness.gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> shortest_paths(np.array([[np.inf, 1.0, 5.0], [np.inf, np.inf, 1.0], [np.inf, np.inf, np.inf]]))
    array([[ 0.,  1.,  2.],
           [inf,  0.,  1.],
           [inf, inf,  0.]])
    """
    try:
        return closure(
            weights, "min_plus", method=method, block=block, backend=backend, threads=threads,
            return_predecessors=return_predecessors, directed=directed, sources=sources, device=device,
            memory_cap=memory_cap,
        )  # fmt: skip
    except ProblemError as error:  # in the words of the caller
        what = error.what.replace("closure: matrix", "shortest_paths: weights", 1)
        what, fix = what.replace("closure:", "shortest_paths:", 1), error.fix.replace("matrix", "weights")
        raise ProblemError(what, expected=error.expected, got=error.got, fix=fix) from None


@any_library("matrix")
def closure(
    matrix: Any,
    semiring: str | Semiring = "min_plus",
    *,
    method: str = "blocked",
    block: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    return_predecessors: bool = False,
    directed: bool = True,
    sources: Any = None,
    packed: bool = False,
    device: int | list[int] | None = None,
    memory_cap: int | None = None,
) -> Any:
    """Compute the best value of a path between every two vertices: ``I (+) W (+) W^2 (+) ...`` over a semiring.

    Parameters
    ----------
    matrix : (n, n) array
        ``matrix[i, j]`` is the value of the edge from i to j; the semiring's zero where there is none.
    semiring : str or Semiring
        ``"min_plus"`` shortest, ``"max_plus"`` longest, ``"max_min"`` widest, ``"min_max"`` least worst edge,
        ``"lor_land"`` (bool) reachable.
    method, block, backend, threads, return_predecessors, directed, sources, device, memory_cap
        As in `shortest_paths`.
    packed : bool
        For ``"lor_land"``: `matrix` and `best` are (n, (n + 7) // 8) arrays of uint8, of eight edges each, as
        ``np.packbits(edges, axis=-1, bitorder="little")`` makes them.

    Returns
    -------
    best : (n, n) array, or (sources, n)
        Of the dtype of `matrix`, C-ordered, new; the semiring's one on the diagonal.
    predecessors : array of int32, of that shape
        Only if asked for; as in `shortest_paths`. Walking back never runs in a circle, ties or not.

    Raises
    ------
    ProblemError
        As in `shortest_paths`, with any cycle that betters the empty path; or if the semiring has no closure here.
    """
    options = Options(
        method, block, backend, threads, return_predecessors, not directed, sources, packed, device, memory_cap
    )
    try:
        return run(matrix, as_semiring(semiring), options)
    except ProblemError as error:
        raise error.told_by("closure") from None
