"""All pairs of best paths in a dense graph: the closure of its matrix, almost all of whose work is semiring products.

A path's value is the (x) of its edges, and the best of all paths from i to j is their (+). Over min_plus that is the
shortest path; over max_min the widest; over min_max the one whose worst edge is best; over lor_land reachability. With
the one of the semiring on the diagonal (the empty path), the closure of W is W (x) W (x) ... until nothing changes.

Two methods:

* ``"blocked"``: Floyd and Warshall's algorithm by blocks of vertices. For each block of pivots K, with D the best
  values over paths through earlier blocks only::

      diagonal  D[K, K] := closure of D[K, K]
      panels    D[K, :] := D[K, K] (x) D[K, :]     D[:, K] := D[:, K] (x) D[K, K]
      the rest  D       := D (+) D[:, K] (x) D[K, :]           one product: n^2 b of the step's pairs

* ``"squaring"``: ``D := D (x) D``, at most log2(n) times. More work by that factor, but it has no block size, and it
  ends early where best paths have few edges. So is the diagonal block closed, and a graph of one block.

Source: Venkataraman, Sahni and Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm" (2003), section 2; for
other semirings, Aho, Hopcroft and Ullman, "The Design and Analysis of Computer Algorithms" (1974), section 5.6.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import numpy as np

from harness import product, tuning
from harness.errors import ProblemError
from harness.problem import Problem
from harness.semiring import Semiring, as_semiring

METHODS = ("blocked", "squaring")

# (+) selects, and (x) distributes over it for all values: the best path is made of best parts.
CLOSED = ("min_plus", "max_plus", "max_min", "min_max", "lor_land")


class Multiply(Protocol):
    """A semiring product: `harness.gemm` with everything but operands and output settled."""

    def __call__(
        self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute ``(a (x) b) (+) c``."""


def shortest_paths(
    weights: Any,
    *,
    method: str = "blocked",
    block: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
) -> np.ndarray:
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

    Returns
    -------
    (n, n) array
        Of the dtype of `weights`, C-ordered, new; +inf or the maximum where there is no path; zero on the diagonal.
        Integer sums saturate, so a path as long as the maximum counts as none: choose a dtype that holds the longest.

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
    return closure(weights, "min_plus", method=method, block=block, backend=backend, threads=threads)


def closure(
    matrix: Any,
    semiring: str | Semiring = "min_plus",
    *,
    method: str = "blocked",
    block: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
) -> np.ndarray:
    """Compute the best value of a path between every two vertices: ``I (+) W (+) W^2 (+) ...`` over a semiring.

    Parameters
    ----------
    matrix : (n, n) array
        ``matrix[i, j]`` is the value of the edge from i to j; the semiring's zero where there is none.
    semiring : str or Semiring
        ``"min_plus"`` shortest, ``"max_plus"`` longest, ``"max_min"`` widest, ``"min_max"`` least worst edge,
        ``"lor_land"`` (bool) reachable.
    method, block, backend, threads
        As in `shortest_paths`.

    Returns
    -------
    (n, n) array
        Of the dtype of `matrix`, C-ordered, new; the semiring's one on the diagonal.

    Raises
    ------
    ProblemError
        As in `shortest_paths`, with any cycle that betters the empty path; or if the semiring has no closure here.
    """
    semiring = as_semiring(semiring)
    if not semiring.is_named or semiring.name not in CLOSED:
        raise ProblemError(
            f"closure: semiring {semiring.name!r} has no closure here", expected=" or ".join(CLOSED), got=semiring.name
        )
    best = _copy_of_matrix(matrix, semiring)
    pivots = _check_method(method, block)
    diagonal = np.einsum("ii->i", best)  # a view
    semiring.add.ufunc(diagonal, semiring.one(best.dtype), out=diagonal)
    multiply: Multiply = functools.partial(product.gemm, semiring=semiring, backend=backend, threads=threads)
    has_blocks = method == "blocked" and pivots < best.shape[0]
    best = _eliminate_blocks(best, multiply, pivots) if has_blocks else _square(best, multiply)
    _check_cycles(best, semiring)
    return best


def _eliminate_blocks(best: np.ndarray, multiply: Multiply, block: int) -> np.ndarray:
    """Return the closure of `best` by Floyd and Warshall's algorithm; overwrites it."""
    other = np.empty_like(best)
    for start in range(0, best.shape[0], block):
        pivots = slice(start, start + block)
        through = _square(best[pivots, pivots], multiply)
        best[pivots, pivots] = through
        best[pivots] = multiply(through, best[pivots])
        best[:, pivots] = multiply(best[:, pivots], through)
        multiply(best[:, pivots], best[pivots], best, out=other)
        best, other = other, best  # in turn: into an array of its own a product is written without a copy
    return best


def _square(best: np.ndarray, multiply: Multiply) -> np.ndarray:
    """Return the closure of `best` by repeated squaring.

    Paths have up to n - 1 edges. Up to n are followed, so that a cycle through all vertices shows on the diagonal too.
    """
    for _ in range((best.shape[0] - 1).bit_length()):
        squared = multiply(best, best)
        if np.array_equal(squared, best):
            break
        best = squared
    return best


def _copy_of_matrix(matrix: Any, semiring: Semiring) -> np.ndarray:
    """Return `matrix` as a C-ordered array of its own that the semiring can be computed over."""
    if hasattr(matrix, "toarray") or isinstance(matrix, np.ma.MaskedArray):
        raise ProblemError(
            "closure: the matrix is not a plain array",
            expected="a dense (n, n) array that holds the semiring's zero where there is no edge",
            got=type(matrix).__name__,
            fix="scipy.sparse.csgraph.csgraph_to_dense(graph, null_value=np.inf), or filled(np.inf)",
        )
    array = np.array(matrix, order="C")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ProblemError("closure: the matrix is not square", expected="shape (n, n)", got=f"shape {array.shape}")
    n = array.shape[0]
    problem = Problem(n, n, n, semiring, array.dtype)
    if array.dtype.kind == "f" and np.isnan(array).any():
        row, column = np.argwhere(np.isnan(array))[0]
        raise ProblemError(
            "closure: an edge is NaN",
            expected=f"a number, or {semiring.zero(problem.dtype)} where there is no edge",
            got=f"NaN at [{row}, {column}]",
            fix=f"matrix[np.isnan(matrix)] = {semiring.zero(problem.dtype)} if it means no edge",
        )
    return array.astype(problem.dtype, copy=False)


def _check_method(method: str, block: int | None) -> int:
    """Return how many vertices make a block."""
    if method not in METHODS:
        raise ProblemError("closure: unknown method", expected=" or ".join(METHODS), got=repr(method))
    if block is None:
        return tuning.PATHS_BLOCK
    if not isinstance(block, (int, np.integer)) or isinstance(block, bool) or block < 1:
        raise ProblemError("closure: block is not a number of vertices", expected="an integer >= 1", got=repr(block))
    return int(block)


def _check_cycles(best: np.ndarray, semiring: Semiring) -> None:
    """Raise if a path from a vertex to itself betters the empty one: going round again betters it without end."""
    one = semiring.one(best.dtype)
    better = np.flatnonzero(best.diagonal() != one)
    if better.size:
        vertex = int(better[0])
        sign = {"min_plus": "negative", "max_plus": "positive"}[semiring.name]
        raise ProblemError(
            f"closure: vertex {vertex} lies on a {sign} cycle, so that no path through it is best",
            expected=f"no cycle that betters {one}, the empty path",
            got=f"{best[vertex, vertex]} or better from vertex {vertex} back to itself",
        )
