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

import math
from typing import Any, NamedTuple

import numpy as np

from harness import arithmetic
from harness.api import choice, limits
from harness.api.arrays import Arrays, kind_of
from harness.api.libraries.views import any_library
from harness.api.paths import bits, predecessors
from harness.api.paths.checks import check_found, check_method, check_sources, check_symmetry, copy_of_matrix
from harness.api.paths.rows import rows_of
from harness.api.paths.steps import ByProducts
from harness.api.remembered.repeats import Recent
from harness.errors import ProblemError
from harness.interface import ALIGNMENT, Closure
from harness.problem import Problem
from harness.semiring import Semiring, as_semiring
from harness.tuning import paths as tuning_paths

# (+) selects, and (x) distributes over it for all values: the best path is made of best parts.
CLOSED = ("min_plus", "max_plus", "max_min", "min_max", "lor_land")


# Closures that are kept ready: a few KiB of host memory each step.
_MOST_CLOSERS = 64


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
            return_predecessors=return_predecessors, directed=directed, sources=sources,
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
) -> Any:
    """Compute the best value of a path between every two vertices: ``I (+) W (+) W^2 (+) ...`` over a semiring.

    Parameters
    ----------
    matrix : (n, n) array
        ``matrix[i, j]`` is the value of the edge from i to j; the semiring's zero where there is none.
    semiring : str or Semiring
        ``"min_plus"`` shortest, ``"max_plus"`` longest, ``"max_min"`` widest, ``"min_max"`` least worst edge,
        ``"lor_land"`` (bool) reachable.
    method, block, backend, threads, return_predecessors, directed, sources
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
    options = _Options(method, block, backend, threads, return_predecessors, not directed, sources, packed)
    try:
        return _closure(matrix, as_semiring(semiring), options)
    except ProblemError as error:
        raise error.told_by("closure") from None


class _Options(NamedTuple):
    """The options of a call; `symmetric` is that it is not directed."""

    method: str
    block: int | None
    backend: str
    threads: int | None
    keeps: bool
    symmetric: bool
    sources: Any
    is_packed: bool


def _closure(matrix: Any, semiring: Semiring, options: _Options) -> Any:
    if not semiring.is_named or semiring.name not in CLOSED:
        raise ProblemError(
            f"closure: semiring {semiring.name!r} has no closure here", expected=" or ".join(CLOSED), got=semiring.name
        )
    arrays = kind_of("closure", {"matrix": matrix})
    with arrays.in_force():
        given = copy_of_matrix(arrays, matrix, semiring, is_packed=options.is_packed)
        vertices = check_method(options.method, options.block)
        sources = None if options.sources is None else check_sources(options.sources, given.shape[-2])
        choice.check_backend(options.backend)  # no vertices have no product that would
        options = options._replace(block=vertices, sources=sources, threads=limits.check_threads(options.threads))
        if options.is_packed and not (options.keeps or options.symmetric or sources is not None):
            closer = _closer(arrays, given, np.dtype(bool), semiring, options) if given.size else None
            if closer is None or getattr(closer, "takes_bits", False):
                if closer is not None:
                    closer(given, None)
                return given
        best = bits.unpacked(arrays, given) if options.is_packed else given
        best, before = _paths(arrays, matrix, best, semiring, options)
        best = bits.packed(arrays, best) if options.is_packed else best
    return best if before is None else (best, before)


def _paths(arrays: Arrays, matrix: Any, best: Any, semiring: Semiring, options: _Options) -> tuple[Any, Any]:
    """Return the closure of a copy of `matrix`, or the rows of some sources, and predecessors or None."""
    if options.symmetric:
        check_symmetry(arrays, best, semiring)
    sources = options.sources
    if sources is not None and options.block != 0:
        found = rows_of(arrays, best, sources, semiring, options)
        if found is not None:
            return found
    before = arrays.empty(best.shape, np.dtype(np.int32)) if options.keeps else None
    if best.size:
        findings = _closer(arrays, best, best.dtype, semiring, options)(best, before)
        check_found(best, semiring, findings, sources)
        if before is not None and findings.betters:
            predecessors.untangle_all(arrays, before, best, copy_of_matrix(arrays, matrix, semiring))
    if sources is not None:
        best, before = best[..., sources, :], None if before is None else before[..., sources, :]
    return best, before


_closers = Recent[Closure](lambda: _MOST_CLOSERS)


def _closer(arrays: Arrays, matrices: Any, dtype: np.dtype[Any], semiring: Semiring, options: _Options) -> Closure:
    """Return what closes such matrices, of elements of that dtype or of bits; it is kept for further calls."""
    n, count, threads = matrices.shape[-2], math.prod(matrices.shape[:-2]), options.threads
    place = (matrices.device.id, matrices.data.ptr % ALIGNMENT) if arrays.on_device else None
    keyed = options._replace(sources=None, is_packed=False)
    key = n, count, semiring, dtype, keyed, place, arithmetic.is_native()
    closer = _closers.get(key)
    if closer is None:
        problem, block = Problem(n, n, n, semiring, dtype), options.block
        chosen = choice.choose(problem, options.backend, arrays, count=threads)
        if block != 0:
            how = {"keeps": options.keeps, "symmetric": options.symmetric}
            closer = chosen.prepare_closure(problem, count, block, limits.machine_of(threads), **how)
        if closer is None:
            size = tuning_paths.PATHS_BLOCK if block is None else block
            closer = ByProducts(arrays, problem, size, options.backend, threads)
        _closers.put(key, closer)
    return closer
