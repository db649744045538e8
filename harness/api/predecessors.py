"""Predecessors: for every two vertices the vertex before the last on a best path, so that paths can be walked back.

Row i of the array is a tree with root i. From any j that i reaches, ``predecessors[i, j]`` leads back to i, vertex by
vertex. All paths are improved in steps of one form, for some rows i and pivots k (see harness/api/paths.py)::

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
        given = predecessors if arrays.on_device else as_array("path", "predecessors", predecessors)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or given.dtype.kind not in "iu":
            got = f"{given.dtype} of shape {given.shape}"
            raise ProblemError(
                "path: predecessors is no matrix of them", expected="an (n, n) array of integers", got=got
            )
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


def of_edges(arrays: Arrays, weights: Any, zero: Scalar) -> Any:
    """Return the (n, n) array of predecessors where every path is an edge; in `weights`, `zero` is no edge."""
    rows = arrays.module.arange(weights.shape[0], dtype=np.int32)[:, None]
    predecessors = arrays.module.where(weights != zero, rows, np.int32(NO_PREDECESSOR))
    arrays.module.fill_diagonal(predecessors, NO_PREDECESSOR)
    return predecessors


def follow(predecessors: Any, rows: slice, pivots: slice, better: Any, argk: Any) -> None:
    """Give paths from `rows` that are `better` by the pivot of index `argk` the predecessors of the pivot's path."""
    i, j = better.nonzero()
    predecessors[rows][i, j] = predecessors[pivots][argk[i, j], j]


def untangle(predecessors: np.ndarray, best: np.ndarray, weights: np.ndarray) -> None:
    """Move vertices from a circle back to the tree of their row, in place, for a (x) that is plus.

    `best` and `weights` are the lengths of best paths and of edges.
    """
    adrift = _adrift(predecessors)
    for i in np.flatnonzero(adrift.any(axis=1)):
        row, is_adrift = predecessors[i], adrift[i]
        while is_adrift.any():
            reached = np.flatnonzero(((row != NO_PREDECESSOR) | (np.arange(row.size) == i)) & ~is_adrift)
            lost = np.flatnonzero(is_adrift)
            lengths = best[i, reached, None].astype(float) + weights[np.ix_(reached, lost)]
            p, j = np.unravel_index(np.argmin(np.abs(lengths - best[i, lost])), lengths.shape)
            row[lost[j]] = reached[p]
            is_adrift = _adrift(row[None], first=int(i))[0]


def _adrift(predecessors: np.ndarray, first: int = 0) -> np.ndarray:
    """Return the vertices from which walking back misses the root; the first row is that of vertex `first`."""
    count, n = predecessors.shape
    roots = np.arange(first, first + count)[:, None]
    ends = np.where(predecessors == NO_PREDECESSOR, np.arange(n), predecessors)
    for _ in range(n.bit_length()):  # each pass doubles the steps walked
        ends = np.take_along_axis(ends, ends, axis=1)
    is_adrift: np.ndarray = (predecessors != NO_PREDECESSOR) & (ends != roots)
    return is_adrift
