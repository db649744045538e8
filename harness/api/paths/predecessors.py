"""Predecessors: for every two vertices the vertex before the last on a best path, so that paths can be walked back.

Row i of the array is a tree with root i. From any j that i reaches, ``predecessors[i, j]`` leads back to i, vertex by
vertex. All paths are improved in steps of one form, for some rows i and pivots k (see harness/api/paths)::

    best[i, j] := best[i, j] (+) best[i, k] (x) best[k, j]       for all j and pivots k at once

If that is strictly better, the path goes to k and on as row k has it: its predecessor is ``predecessors[k, j]``. Of
equally good pivots the smallest k counts. No path then runs in a circle, edges of length zero and ties included. Proof:
let p = predecessors[k, j]. Since best[k, p] is no worse than best[k, j], p gains from the same k as much as j does. On
a circle all values would be equal. If none of its vertices changed in this step, the circle was there before. Otherwise
all changed, each by a k not greater than that of the next. So all have the same k, and row k had the circle before.

The proof needs an (x) that never betters a value (no edge is better than the one), or exact sums. Sums of floats with
negative edges are neither: around a cycle of length zero a path may seem to gain by rounding. There the trees are
searched, and vertices on a circle are attached to the tree again, where that fits their lengths best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.arrays import Arrays, as_array, kind_of
from harness.errors import ProblemError
from harness.scalars import as_count
from harness.semiring import Scalar

NO_PREDECESSOR = -9999  # as scipy.sparse.csgraph has it, whose functions walk these arrays too


def path(predecessors: Any, i: int, j: int) -> list[int]:
    """Return the vertices of a best path from i to j, both included, by the predecessors of all paths.

    Parameters
    ----------
    predecessors : (n, n) array of integers
        As `shortest_paths` returns it, or a function of ``scipy.sparse.csgraph``.
    i, j : int

    Returns
    -------
    vertices : list of int
        Empty if there is no path; i alone if j is i.

    Raises
    ------
    ProblemError
        If `predecessors` is no square matrix of integers, i or j no vertex, or the predecessors do not lead to i.

    Examples
    --------
    >>> path(np.array([[-9999, 2, 0], [-9999, -9999, 1], [-9999, 2, -9999]]), 0, 1)
    [0, 2, 1]
    """
    arrays = kind_of("path", {"predecessors": predecessors})
    with arrays.in_force():
        given = _check_square("path", arrays, predecessors)
        n = given.shape[0]
        for name, vertex in (("i", i), ("j", j)):
            if as_count(vertex, least=0, most=n - 1) is None:
                raise ProblemError(
                    f"path: {name} is no vertex", expected=f"an integer from 0 to {n - 1}", got=repr(vertex)
                )
        row = given[i].tolist()
    vertices = [int(j)]
    while vertices[-1] != i:
        before = row[vertices[-1]]
        if before == NO_PREDECESSOR and len(vertices) == 1:
            return []
        if not 0 <= before < n or len(vertices) == n:
            raise ProblemError(
                f"path: from {j} the predecessors do not lead to {i}", expected="a tree in each row", got=row
            )
        vertices.append(before)
    return vertices[::-1]


def paths(predecessors: Any, sources: Any, targets: Any) -> Any:
    """Return the vertices of a best path from each source to the target beside it, in rows: all walked back at once.

    Parameters
    ----------
    predecessors : (n, n) array of integers
        As in `path`.
    sources, targets : arrays of int
        Vertices, of shapes that broadcast to one.

    Returns
    -------
    vertices : (..., longest) array of int32
        From the source to the target; then, and where there is no path, -9999. It is of the library of `predecessors`.

    Raises
    ------
    ProblemError
        As in `path`, with any of the pairs.

    Examples
    --------
    >>> paths(np.array([[-9999, 2, 0], [-9999, -9999, 1], [-9999, 2, -9999]]), 0, [0, 1, 2])
    array([[    0, -9999, -9999],
           [    0,     2,     1],
           [    0,     2, -9999]], dtype=int32)
    """
    arrays = kind_of("paths", {"predecessors": predecessors})
    with arrays.in_force():
        given, module = _check_square("paths", arrays, predecessors), arrays.module
        n = given.shape[0]
        ends = []
        for name, x in (("sources", sources), ("targets", targets)):
            vertices = as_vertices(x, n)
            if vertices is None:
                raise ProblemError(
                    f"paths: {name} are no vertices", expected=f"integers from 0 to {n - 1}", got=repr(x)
                )
            ends.append(module.asarray(vertices))
        i, j = module.broadcast_arrays(*ends)
        walked, here = [j], j
        while True:
            is_on = (here != i) & (here != NO_PREDECESSOR)
            if not bool(is_on.any()):
                break
            here = module.where(is_on, given[i, module.where(is_on, here, 0)], NO_PREDECESSOR)
            is_lost = ((here < 0) | (here >= n)) & ((here != NO_PREDECESSOR) | (len(walked) > 1))
            wrong = is_on & (is_lost | (len(walked) >= n))
            if bool(wrong.any()):
                first = int(wrong.reshape(-1).argmax())
                of, to = int(j.reshape(-1)[first]), int(i.reshape(-1)[first])
                raise ProblemError(
                    f"paths: from {of} the predecessors do not lead to {to}",
                    expected="a tree in each row",
                    got=given[to].tolist(),
                )
            walked.append(here)
        return _from_the_front(module, module.stack(walked, axis=-1), i)


def _from_the_front(module: Any, walked: Any, i: Any) -> Any:
    """Return paths that were walked back in rows, the source first, and nothing where the source was not reached."""
    longest = walked.shape[-1]
    length = (walked != NO_PREDECESSOR).sum(axis=-1, keepdims=True)
    at = length - 1 - module.arange(longest)
    forward = module.take_along_axis(walked, module.where(at < 0, 0, at), axis=-1)
    is_path = (at >= 0) & (forward[..., :1] == i[..., None])
    return module.where(is_path, forward, NO_PREDECESSOR).astype(np.int32)


def as_vertices(x: Any, n: int) -> np.ndarray | None:
    """Return an array of vertices of a graph of `n`, or None if it is none."""
    vertices = np.asarray(x) if np.size(x) else np.zeros(np.shape(x), np.intp)
    if vertices.dtype.kind not in "iu" or (vertices.size and not 0 <= vertices.min() <= vertices.max() < n):
        return None
    return vertices.astype(np.intp)


def _check_square(caller: str, arrays: Arrays, predecessors: Any) -> Any:
    """Return predecessors as an array, or raise ProblemError."""
    given = predecessors if arrays.on_device else as_array(caller, "predecessors", predecessors)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.dtype.kind not in "iu":
        got = f"{given.dtype} of shape {given.shape}"
        raise ProblemError(
            f"{caller}: predecessors is no matrix of them", expected="an (n, n) array of integers", got=got
        )
    return given


def of_edges(arrays: Arrays, weights: Any, zero: Scalar, sources: Any = None) -> Any:
    """Return the predecessors where every path is an edge, in rows of all vertices or of `sources`; `zero` is none."""
    module, n = arrays.module, weights.shape[-1]
    columns = module.arange(n, dtype=np.int32)
    rows = columns[:, None] if sources is None else module.asarray(sources.astype(np.int32))[:, None]
    return module.where((weights != zero) & (rows != columns), rows, np.int32(NO_PREDECESSOR))


def follow(predecessors: Any, rows: slice, pivots: slice, better: Any, argk: Any) -> None:
    """Give paths from `rows` that are `better` by the pivot of index `argk` the predecessors of the pivot's path."""
    i, j = better.nonzero()
    predecessors[rows][i, j] = predecessors[pivots][argk[i, j], j]


def untangle_all(arrays: Arrays, before: Any, best: Any, weights: Any, roots: np.ndarray | None = None) -> None:
    """Do as `untangle` for each matrix of a batch; trees of a GPU are searched on the host."""
    trees = [x.get() if arrays.on_device else x for x in (before, best, weights)]
    for tree, lengths, edges in zip(*(x.reshape(-1, *x.shape[-2:]) for x in trees), strict=True):
        untangle(tree, lengths, edges, roots)
    if arrays.on_device:
        before.set(trees[0])


def untangle(predecessors: np.ndarray, best: np.ndarray, weights: np.ndarray, roots: np.ndarray | None = None) -> None:
    """Move vertices from a circle back to the tree of their row, in place, for a (x) that is plus.

    `best` and `weights` are the lengths of best paths and of edges; `roots` are the vertices of the rows, or all.
    """
    roots = np.arange(len(predecessors)) if roots is None else roots
    adrift = _adrift(predecessors, roots)
    for i in np.flatnonzero(adrift.any(axis=1)):
        row, is_adrift = predecessors[i], adrift[i]
        while is_adrift.any():
            is_root = np.arange(row.size) == roots[i]
            reached = np.flatnonzero(((row != NO_PREDECESSOR) | is_root) & ~is_adrift)
            lost = np.flatnonzero(is_adrift)
            lengths = best[i, reached, None].astype(float) + weights[np.ix_(reached, lost)]
            p, j = np.unravel_index(np.argmin(np.abs(lengths - best[i, lost])), lengths.shape)
            row[lost[j]] = reached[p]
            is_adrift = _adrift(row[None], roots[i : i + 1])[0]


def _adrift(predecessors: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Return the vertices from which walking back misses the root of the row."""
    n = predecessors.shape[1]
    ends = np.where(predecessors == NO_PREDECESSOR, np.arange(n), predecessors)
    for _ in range(n.bit_length()):  # each pass doubles the steps walked
        ends = np.take_along_axis(ends, ends, axis=1)
    is_adrift: np.ndarray = (predecessors != NO_PREDECESSOR) & (ends != roots[:, None])
    return is_adrift
