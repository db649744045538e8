"""Graphs as `scipy.sparse.csgraph` has them, read into matrices of edges; SciPy itself is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.arrays import is_masked
from harness.errors import ProblemError


def from_csgraph(csgraph: Any, *, directed: bool = True, unweighted: bool = False) -> np.ndarray:
    """Return the edges of a graph of ``scipy.sparse.csgraph`` as `shortest_paths` takes them.

    ``shortest_paths(from_csgraph(graph), return_predecessors=True)`` returns what ``csgraph.shortest_path`` does. The
    predecessors can be given to its functions, such as ``csgraph.reconstruct_path``.

    Parameters
    ----------
    csgraph : (n, n) array, masked array or sparse matrix
        What is stored in a sparse matrix is an edge, zero too; of several, the shortest. So is what a masked array does
        not mask. In a dense array 0, NaN and infinities are no edges.
    directed : bool
        False: of an edge and the one back the shorter counts for both, so ``directed=False`` may be given on.
    unweighted : bool
        Whether every edge has length 1.

    Returns
    -------
    weights : (n, n) array of float64
        +inf where there is no edge.

    Raises
    ------
    ProblemError
        If `csgraph` is no square matrix of numbers.

    Examples
    --------
    >>> from_csgraph([[0.0, 2.0], [0.0, 0.0]])
    array([[inf,  2.],
           [inf, inf]])
    """
    is_sparse = hasattr(csgraph, "tocsr")
    given: Any = csgraph.tocsr() if is_sparse else csgraph if is_masked(csgraph) else np.asarray(csgraph)
    shape, dtype = given.shape, given.dtype
    if len(shape) != 2 or shape[0] != shape[1] or dtype.kind not in "biuf":
        raise ProblemError(
            "from_csgraph: the graph is no square matrix", expected="(n, n) numbers", got=f"{dtype} of shape {shape}"
        )
    weights = np.full(shape, np.inf)
    if is_sparse:
        rows = np.repeat(np.arange(shape[0]), np.diff(given.indptr))
        np.minimum.at(weights, (rows, given.indices), 1.0 if unweighted else given.data)
    else:
        values = np.asarray(given.data if is_masked(given) else given, np.float64)
        is_edge = ~np.ma.getmaskarray(given) if is_masked(given) else (values != 0) & np.isfinite(values)
        weights[is_edge] = 1.0 if unweighted else values[is_edge]
    return weights if directed else np.minimum(weights, weights.T)
