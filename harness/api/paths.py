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

If predecessors are asked for, every step updates them too (harness/api/predecessors.py).

Sources: Venkataraman, Sahni and Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm" (2003), section 2. By
halves: D'Alberto and Nicolau, "R-Kleene" (2007). Other semirings: Aho, Hopcroft and Ullman, "The Design and Analysis of
Computer Algorithms" (1974), section 5.6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from harness.api import argk, choice, gemm, limits, predecessors
from harness.api.arrays import Arrays, as_array, is_masked, kind_of
from harness.api.libraries.views import any_library
from harness.dtypes import is_exact
from harness.errors import ProblemError
from harness.problem import Problem
from harness.scalars import as_count
from harness.semiring import Semiring, as_semiring
from harness.tuning import paths as tuning_paths

METHODS = ("blocked", "squaring")

# (+) selects, and (x) distributes over it for all values: the best path is made of best parts.
CLOSED = ("min_plus", "max_plus", "max_min", "min_max", "lor_land")


def shortest_paths(
    weights: Any,
    *,
    method: str = "blocked",
    block: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    return_predecessors: bool = False,
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

    Returns
    -------
    distances : (n, n) array
        Of the dtype and library of `weights`, C-ordered, new; +inf or the maximum where there is no path; zero on the
        diagonal. Integer sums saturate, so a path as long as the maximum counts as none: choose a dtype that holds the
        longest.
    predecessors : (n, n) array of int32
        Only if asked for. ``predecessors[i, j]`` is the vertex before j on a shortest path from i to j, and -9999
        where there is no path or j is i, as in ``scipy.sparse.csgraph``. Walking back from j reaches i by
        existing edges whose lengths sum to the distance: exactly for integers, and for floats but for rounding.

    Raises
    ------
    ProblemError
        If `weights` is no square matrix of numbers, holds NaN, or has a cycle of negative length. A sum of floats that
        is zero but for rounding counts as negative if it is computed so.
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
            return_predecessors=return_predecessors,
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
) -> Any:
    """Compute the best value of a path between every two vertices: ``I (+) W (+) W^2 (+) ...`` over a semiring.

    Parameters
    ----------
    matrix : (n, n) array
        ``matrix[i, j]`` is the value of the edge from i to j; the semiring's zero where there is none.
    semiring : str or Semiring
        ``"min_plus"`` shortest, ``"max_plus"`` longest, ``"max_min"`` widest, ``"min_max"`` least worst edge,
        ``"lor_land"`` (bool) reachable.
    method, block, backend, threads, return_predecessors
        As in `shortest_paths`.

    Returns
    -------
    best : (n, n) array
        Of the dtype of `matrix`, C-ordered, new; the semiring's one on the diagonal.
    predecessors : (n, n) array of int32
        Only if asked for; as in `shortest_paths`. Walking back never runs in a circle, ties or not.

    Raises
    ------
    ProblemError
        As in `shortest_paths`, with any cycle that betters the empty path; or if the semiring has no closure here.
    """
    try:
        return _closure(matrix, as_semiring(semiring), method, block, backend, threads, return_predecessors)
    except ProblemError as error:
        raise error.told_by("closure") from None


def _closure(
    matrix: Any,
    semiring: Semiring,
    method: str,
    block: int | None,
    backend: str,
    threads: int | None,
    return_predecessors: bool,
) -> Any:
    if not semiring.is_named or semiring.name not in CLOSED:
        raise ProblemError(
            f"closure: semiring {semiring.name!r} has no closure here", expected=" or ".join(CLOSED), got=semiring.name
        )
    arrays = kind_of("closure", {"matrix": matrix})
    with arrays.in_force():
        best = _copy_of_matrix(arrays, matrix, semiring)
        pivots = _check_method(method, block)
        diagonal = best.reshape(-1)[:: best.shape[0] + 1]  # a view
        semiring.add.ufunc(diagonal, semiring.one(best.dtype), out=diagonal)
        steps = _Steps(arrays, best, semiring, backend, threads, return_predecessors)
        steps.close(0, best.shape[0], best.shape[0] if method == "squaring" else pivots)
        _check_cycles(arrays, best, semiring)
        if steps.predecessors is None:
            return best
        if steps.an_edge_betters_the_one:
            steps.untangle()
        return best, steps.predecessors


class _Steps:
    """Improve `best`, and its predecessors, in place, until it covers all paths through a range of vertices.

    At first `best` holds the edges, with the one on the diagonal.
    """

    def __init__(
        self, arrays: Arrays, best: Any, semiring: Semiring, backend: str, threads: int | None, with_predecessors: bool
    ) -> None:
        self._module, self._is_on_device, self._add = arrays.module, arrays.on_device, semiring.add.ufunc
        self._best, self._other = best, arrays.empty(best.shape, best.dtype)
        choice.check_backend(backend)  # one vertex has no product that would
        limits.check_threads(threads)
        options: dict[str, Any] = {"semiring": semiring, "backend": backend, "threads": threads}
        self._gemm: Callable[..., Any] = functools.partial(gemm.gemm, **options)
        self._gemm_argk: Callable[..., tuple[Any, Any]] = functools.partial(argk.gemm_argk, **options)
        self.predecessors: Any = None
        if with_predecessors:
            self.weights = best.copy()
            one = semiring.one(best.dtype)
            self.an_edge_betters_the_one = bool((self._add(best, one) != one).any())
            self.predecessors = predecessors.of_edges(arrays, best, semiring.zero(best.dtype))

    def untangle(self) -> None:
        """Move vertices from a circle back to the tree of their row; trees of a GPU are searched on the host."""
        trees = (self.predecessors, self._best, self.weights)
        on_host = tuple(x.get() for x in trees) if self._is_on_device else trees
        predecessors.untangle(*on_host)
        if self._is_on_device:
            self.predecessors.set(on_host[0])

    def close(self, begin: int, end: int, block: int) -> None:
        """Let all paths from the vertices `begin` to `end` pass through these vertices."""
        if end - begin <= block:
            self._close_block(slice(begin, end))
            return
        middle = begin + -(-(end - begin) // (2 * block)) * block
        first, last = slice(begin, middle), slice(middle, end)
        self.close(begin, middle, block)
        self._improve(last, first)
        self.close(middle, end, block)
        self._improve(first, last)

    def _close_block(self, block: slice) -> None:
        """Follow paths of up to twice as many edges inside the block, until nothing changes.

        Paths have up to b - 1 edges. Up to b are followed, so that a cycle through all vertices shows on the diagonal.
        """
        for _ in range((block.stop - block.start - 1).bit_length()):
            before = self._best[block].copy()
            self._improve(block, block)
            if self._module.array_equal(before, self._best[block]):
                break

    def _improve(self, rows: slice, pivots: slice) -> None:
        """Compute ``D[rows] := D[rows] (+) D[rows, pivots] (x) D[pivots]``."""
        best, out = self._best, self._other[rows]
        if self.predecessors is None:
            self._gemm(best[rows, pivots], best[pivots], best[rows], out=out)
        else:
            terms, which = self._gemm_argk(best[rows, pivots], best[pivots])
            self._add(best[rows], terms, out=out)
            predecessors.follow(self.predecessors, rows, pivots, out != best[rows], which)
        best[rows] = out


def _copy_of_matrix(arrays: Arrays, matrix: Any, semiring: Semiring) -> Any:
    """Return `matrix` as a C-ordered array of its own that the semiring can be computed over."""
    if hasattr(matrix, "toarray") or is_masked(matrix):
        raise ProblemError(
            "closure: the matrix is not a plain array",
            expected="a dense (n, n) array that holds the semiring's zero where there is no edge",
            got=type(matrix).__name__,
            fix="scipy.sparse.csgraph.csgraph_to_dense(graph, null_value=np.inf), or filled(np.inf)",
        )
    array = arrays.module.array(matrix if arrays.on_device else as_array("closure", "the matrix", matrix), order="C")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        got = f"shape {array.shape}" if array.ndim else type(matrix).__name__
        raise ProblemError("closure: the matrix is not square", expected="shape (n, n)", got=got)
    n = array.shape[0]
    problem = Problem(n, n, n, semiring, array.dtype)
    if not is_exact(array.dtype) and arrays.module.isnan(array).any():
        row, column = (int(i) for i in arrays.module.argwhere(arrays.module.isnan(array))[0])
        raise ProblemError(
            "closure: an edge is NaN",
            expected=f"a number, or {semiring.zero(problem.dtype)} where there is no edge",
            got=f"NaN at [{row}, {column}]",
            fix=f"matrix[np.isnan(matrix)] = {semiring.zero(problem.dtype)} if it means no edge",
        )
    return array.astype(problem.dtype, copy=False)


def _check_method(method: str, block: int | None) -> int:
    """Return how many vertices make a block."""
    if not isinstance(method, str) or method not in METHODS:
        raise ProblemError("closure: unknown method", expected=" or ".join(METHODS), got=repr(method))
    if block is None:
        return tuning_paths.PATHS_BLOCK
    vertices = as_count(block)
    if vertices is None:
        raise ProblemError("closure: block is not a number of vertices", expected="an integer >= 1", got=repr(block))
    return vertices


def _check_cycles(arrays: Arrays, best: Any, semiring: Semiring) -> None:
    """Raise if a path from a vertex to itself betters the empty one: going round again betters it without end."""
    one = semiring.one(best.dtype)
    better = arrays.module.flatnonzero(best.diagonal() != one)
    if better.size:
        vertex = int(better[0])
        sign = {"min_plus": "negative", "max_plus": "positive"}[semiring.name]
        raise ProblemError(
            f"closure: vertex {vertex} lies on a {sign} cycle, so that no path through it is best",
            expected=f"no cycle that betters {one}, the empty path",
            got=f"{best[vertex, vertex]} or better from vertex {vertex} back to itself",
        )
