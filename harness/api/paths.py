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

import itertools
import math
from typing import Any

import numpy as np

from harness import arithmetic
from harness.api import choice, limits, predecessors
from harness.api.arrays import Arrays, as_array, is_masked, kind_of
from harness.api.libraries.views import any_library
from harness.api.remembered.repeats import Recent
from harness.api.steps import ByProducts
from harness.dtypes import is_bool
from harness.errors import ProblemError
from harness.interface import ALIGNMENT, Closure, Findings
from harness.problem import Problem
from harness.scalars import as_count
from harness.semiring import Semiring, as_semiring
from harness.tuning import paths as tuning_paths

METHODS = ("blocked", "squaring")

# (+) selects, and (x) distributes over it for all values: the best path is made of best parts.
CLOSED = ("min_plus", "max_plus", "max_min", "min_max", "lor_land")


# Closures that are kept ready: a few KiB of host memory each step.
_MOST_CLOSERS = 64

# The side of a square that is compared with its mirror image: both stay in L2.
_SIDE = 128


def shortest_paths(
    weights: Any,
    *,
    method: str = "blocked",
    block: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    return_predecessors: bool = False,
    directed: bool = True,
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
        If `weights` is no square matrix of numbers, holds NaN, has a cycle of negative length, or is not symmetric
        though `directed` is False. A sum of floats that is zero but for rounding counts as negative if it is computed
        so.
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
            return_predecessors=return_predecessors, directed=directed,
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
) -> Any:
    """Compute the best value of a path between every two vertices: ``I (+) W (+) W^2 (+) ...`` over a semiring.

    Parameters
    ----------
    matrix : (n, n) array
        ``matrix[i, j]`` is the value of the edge from i to j; the semiring's zero where there is none.
    semiring : str or Semiring
        ``"min_plus"`` shortest, ``"max_plus"`` longest, ``"max_min"`` widest, ``"min_max"`` least worst edge,
        ``"lor_land"`` (bool) reachable.
    method, block, backend, threads, return_predecessors, directed
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
        return _closure(matrix, as_semiring(semiring), method, block, backend, threads, return_predecessors, directed)
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
    directed: bool,
) -> Any:
    if not semiring.is_named or semiring.name not in CLOSED:
        raise ProblemError(
            f"closure: semiring {semiring.name!r} has no closure here", expected=" or ".join(CLOSED), got=semiring.name
        )
    arrays = kind_of("closure", {"matrix": matrix})
    with arrays.in_force():
        best = _copy_of_matrix(arrays, matrix, semiring)
        vertices = _check_method(method, block)
        choice.check_backend(backend)  # no vertices have no product that would
        threads = limits.check_threads(threads)
        if not directed:
            _check_symmetry(arrays, best, semiring)
        before = arrays.empty(best.shape, np.dtype(np.int32)) if return_predecessors else None
        if best.size:
            how: dict[str, bool] = {"keeps": return_predecessors, "symmetric": not directed}
            closer = _closer(arrays, best, semiring, vertices, backend, threads, **how)
            findings = closer(best, before)
            _check(arrays, best, semiring, findings, matrix)
            if before is not None and findings.betters:
                _untangle(arrays, before, best, _copy_of_matrix(arrays, matrix, semiring))
    return best if before is None else (best, before)


_closers = Recent[Closure](lambda: _MOST_CLOSERS)


def _closer(
    arrays: Arrays,
    best: Any,
    semiring: Semiring,
    vertices: int | None,
    backend: str,
    threads: int | None,
    *,
    keeps: bool,
    symmetric: bool,
) -> Closure:
    """Return what closes such matrices; it is kept for further calls."""
    n, count = best.shape[-1], math.prod(best.shape[:-2])
    place = (best.device.id, best.data.ptr % ALIGNMENT) if arrays.on_device else None
    key = n, count, semiring, best.dtype, vertices, backend, threads, keeps, symmetric, place, arithmetic.is_native()
    closer = _closers.get(key)
    if closer is None:
        problem = Problem(n, n, n, semiring, best.dtype)
        chosen = choice.choose(problem, backend, arrays, count=threads)
        if vertices != 0:
            machine = limits.machine_of(threads)
            closer = chosen.prepare_closure(problem, count, vertices, machine, keeps=keeps, symmetric=symmetric)
        if closer is None:
            size = tuning_paths.PATHS_BLOCK if vertices is None else vertices
            closer = ByProducts(arrays, problem, size, backend, threads)
        _closers.put(key, closer)
    return closer


def _untangle(arrays: Arrays, before: Any, best: Any, weights: Any) -> None:
    """Move vertices from a circle back to the tree of their row; trees of a GPU are searched on the host."""
    n = best.shape[-1]
    trees = [x.get() if arrays.on_device else x for x in (before, best, weights)]
    for each in zip(*(x.reshape(-1, n, n) for x in trees), strict=True):
        predecessors.untangle(*each)
    if arrays.on_device:
        before.set(trees[0])


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
    if array.ndim < 2 or array.shape[-2] != array.shape[-1]:
        got = f"shape {array.shape}" if array.ndim else type(matrix).__name__
        raise ProblemError("closure: the matrix is not square", expected="shape (n, n) or (..., n, n)", got=got)
    n = array.shape[-1]
    problem = Problem(n, n, n, semiring, array.dtype)
    if is_bool(array.dtype):  # of which any byte but 0 is true
        return array.view(np.uint8) != 0
    return array.astype(problem.dtype, copy=False)


def _check_method(method: str, block: int | None) -> int | None:
    """Return how many vertices are closed at once: 0 if all, by squaring; None: as many as is fast."""
    if not isinstance(method, str) or method not in METHODS:
        raise ProblemError("closure: unknown method", expected=" or ".join(METHODS), got=repr(method))
    vertices = None if block is None else as_count(block)
    if block is not None and vertices is None:
        raise ProblemError("closure: block is not a number of vertices", expected="an integer >= 1", got=repr(block))
    return 0 if method == "squaring" else vertices


def _check_symmetry(arrays: Arrays, best: Any, semiring: Semiring) -> None:
    """Raise if an edge has another value than the one back; NaN, which has no value, is told of later."""
    n = best.shape[-1]
    side = n if arrays.on_device else _SIDE
    for first, left in itertools.product(range(0, n, side), repeat=2):
        there, back = slice(first, first + side), slice(left, left + side)
        if left > first or (best[..., there, back] == best[..., back, there].swapaxes(-1, -2)).all():
            continue
        x, y = best[..., there, back], best[..., back, there].swapaxes(-1, -2)
        *graph, i, j = ((x < y) | (x > y)).nonzero()
        if len(i):
            *graph, i, j = (*(int(at[0]) for at in graph), int(i[0]) + first, int(j[0]) + left)
            values = (best[(*graph, *at)].item() for at in ((i, j), (j, i)))
            better = f"np.{semiring.add.ufunc.__name__}"
            raise ProblemError(
                "closure: the matrix is not symmetric, though directed=False",
                expected="the same value for an edge and for the one back",
                got=f"{next(values)} at {[*graph, i, j]}, {next(values)} at {[*graph, j, i]}",
                fix=f"directed=True, or the better of both: {better}(matrix, matrix.swapaxes(-1, -2))",
            )


def _check(arrays: Arrays, best: Any, semiring: Semiring, findings: Findings, matrix: Any) -> None:
    """Raise if an edge is NaN, or if a path from a vertex to itself betters the empty one, again and again."""
    n, zero, one = best.shape[-1], semiring.zero(best.dtype), semiring.one(best.dtype)
    if findings.nan >= 0:
        at = [int(i) for i in np.unravel_index(findings.nan, best.shape)]
        raise ProblemError(
            "closure: an edge is NaN",
            expected=f"a number, or {zero} where there is no edge",
            got=f"NaN at {at}",
            fix=f"matrix[np.isnan(matrix)] = {zero} if it means no edge",
        )
    if findings.cycle >= 0:
        graph, vertex = divmod(findings.cycle, n)
        sign = {"min_plus": "negative", "max_plus": "positive"}[semiring.name]
        whose = f"vertex {vertex}" if best.ndim == 2 else f"vertex {vertex} of graph {graph}"
        raise ProblemError(
            f"closure: {whose} lies on a {sign} cycle, so that no path through it is best",
            expected=f"no cycle that betters {one}, the empty path",
            got=f"{best.reshape(-1, n, n)[graph, vertex, vertex]} or better from vertex {vertex} back to itself",
        )
