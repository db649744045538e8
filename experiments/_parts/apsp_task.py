"""The task of the experiment on shortest paths: all pairs of a graph by one method, compared with another's."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments._parts import scipy_distances
from experiments._parts.computed import Computed, nothing, require
from experiments._parts.graphs import graph as load_graph
from harness import gemm, registry
from harness.errors import VerificationError
from harness.paths import METHODS, shortest_paths
from harness.problem import Problem

Compute = Callable[[], Any]

# Methods of scipy.sparse.csgraph.shortest_path, and the graph format in which each is fastest.
SCIPY_METHODS = {"floyd_warshall": ("FW", "dense"), "dijkstra": ("D", "sparse")}
# What else computes distances: the package, and the project as a reader knows it.
PACKAGES = {
    **dict.fromkeys(SCIPY_METHODS, ("scipy", "SciPy")),
    "rustworkx": ("rustworkx", "rustworkx"),
    "networkx": ("networkx", "NetworkX"),
}
# One product of the weights by themselves: the rate that all pairs are held against.
PRODUCT = "product"
# Larger distances are checked in so many rows, by the equations that they alone solve.
WHOLE_UP_TO, CHECKED_ROWS = 2048, 8


def apsp(
    *,
    graph: Mapping[str, Any],
    method: str,
    threads: int,
    backend: str = "",
    dtype: str = "float64",
    where: str = "host",
) -> Computed:
    """Prepare all pairs of shortest paths; of every method the work is that of Floyd and Warshall.

    Parameters
    ----------
    graph : mapping
        Arguments of `experiments._parts.graphs.graph`.
    method : str
        A method of `harness.paths` or `PRODUCT`, computed by `backend`, or one of `PACKAGES`.
    threads : int
        Set by the worker around the run; recorded here.
    backend, dtype : str
    where : str
        ``"gpu"``: the weights lie there, and so do the distances.

    Raises
    ------
    Declined
        If the backend, the GPU or the package is missing here, or the backend declines min_plus.
    """
    weights, synchronize = load_graph(**graph).astype(dtype), nothing
    given: Any = weights
    package, project = PACKAGES.get(method, ("", ""))
    if package:
        require(package)
    else:
        registry.admit(backend, Problem(*weights.shape, len(weights), "min_plus", weights.dtype))
        if where == "gpu":
            given, synchronize = _on_gpu(weights)
    oracle = "floyd_warshall" if method == "dijkstra" else "dijkstra"

    def check(result: Any) -> str:
        found = result.get() if hasattr(result, "get") else result
        if method == PRODUCT:
            return check_rows(found, weights, weights, is_closed=False)
        if len(weights) > WHOLE_UP_TO:
            return check_rows(found, found, weights, is_closed=True)
        by = oracle if _has_scipy() else "definition"
        expected, tolerance = distances_by(by, weights)(), allowed_difference(weights)
        return compare(found, expected, by, tolerance) + scipy_distances.agree(found, graph, tolerance)

    known: dict[str, Any] = {"operations": 2 * len(weights) ** 3, "bytes_moved": 2 * weights.nbytes}
    known |= {"edges": int(np.isfinite(weights).sum()), "method": method, "plan": {"threads": threads}}
    return Computed(distances_by(method, given, backend), check, known, project, synchronize, compiles=not package)


def distances_by(method: str, weights: Any, backend: str = "") -> Compute:
    """Return a function that computes the distances by `method`, its input converted beforehand."""
    if method in METHODS:
        return lambda: shortest_paths(weights, method=method, backend=backend)
    if method == PRODUCT:
        out = np.empty_like(weights) if isinstance(weights, np.ndarray) else weights.copy()
        return lambda: gemm(weights, weights, semiring="min_plus", backend=backend, out=out)
    if method == "definition":
        return lambda: floyd_warshall(weights)
    if method in ("rustworkx", "networkx"):
        return _of_package(method, weights)
    from scipy.sparse import csgraph

    code, form = SCIPY_METHODS[method]
    # Without edges stored as such, SciPy would take a length of zero for no edge.
    stored = csgraph.csgraph_from_dense(weights, null_value=np.inf) if form == "sparse" else weights
    return lambda: csgraph.shortest_path(stored, method=code)


def _of_package(method: str, weights: np.ndarray) -> Compute:
    """Return all pairs of a graph package, by the function of it that is fastest in dense graphs."""
    edges = [(int(i), int(j), float(weights[i, j])) for i, j in np.argwhere(np.isfinite(weights))]
    if method == "rustworkx":
        import rustworkx

        compiled = rustworkx.PyDiGraph(multigraph=False)
        compiled.add_nodes_from(range(len(weights)))
        compiled.add_edges_from(edges)
        return lambda: rustworkx.digraph_floyd_warshall_numpy(compiled, weight_fn=float)
    import networkx as nx

    plain = nx.DiGraph()
    plain.add_nodes_from(range(len(weights)))
    plain.add_weighted_edges_from(edges)
    return lambda: nx.floyd_warshall_numpy(plain)


def _on_gpu(weights: np.ndarray) -> tuple[Any, Callable[[], Any]]:
    """Return the weights on the GPU, and what waits for it; raise Declined where there is none."""
    from backends.gpu._cuda import device
    from backends.gpu._tasks.device_task import require_gpu

    require_gpu()
    import cupy

    return cupy.asarray(weights), device.synchronize


def check_rows(found: np.ndarray, factor: np.ndarray, weights: np.ndarray, *, is_closed: bool) -> str:
    """Check some rows of a product ``factor (x) weights``, by loops over its terms; or of distances, which solve it.

    Distances of positive edges are the only solution of ``D = D (x) W``, but for zeros on the diagonal.
    """
    n, tolerance = len(weights), allowed_difference(weights)
    for i in np.unique(np.linspace(0, n - 1, CHECKED_ROWS).astype(int)):
        expected = np.full(n, np.inf, weights.dtype)
        for k in range(n):
            np.minimum(expected, factor[i, k] + weights[k], out=expected)
        if is_closed:
            expected[i] = 0
        with np.errstate(invalid="ignore"):
            is_right = (found[i] == expected) | (np.abs(found[i] - expected) <= tolerance * np.abs(expected))
        if not is_right.all():
            j = int(is_right.argmin())
            raise VerificationError(f"element {i}, {j} is wrong", expected=f"{expected[j]}", got=f"{found[i, j]}")
    return f"{CHECKED_ROWS} rows with {'the equations of distances' if is_closed else 'the definition of the product'}"


def floyd_warshall(weights: np.ndarray) -> np.ndarray:
    """Compute the distances by the textbook's algorithm, vertex by vertex: the oracle where SciPy is missing."""
    distances = weights.copy()
    np.fill_diagonal(distances, np.minimum(distances.diagonal(), 0))
    for via in range(len(distances)):
        np.minimum(distances, distances[:, via, None] + distances[None, via, :], out=distances)
    return distances


def allowed_difference(weights: np.ndarray) -> float:
    """Return the relative difference allowed between correct distances: 0 if every sum is exact.

    A path has fewer than n edges of positive length, so two orders of adding it differ by at most 2 (n - 1) roundings.
    """
    lengths = weights[np.isfinite(weights)]
    is_exact = np.array_equal(lengths, np.round(lengths)) and np.abs(lengths).sum() < 1 << 53
    return 0.0 if is_exact else 2 * len(weights) * float(np.finfo(weights.dtype).eps) / 2


def compare(distances: np.ndarray, expected: np.ndarray, oracle: str, tolerance: float) -> str:
    """Return the comparison in words; raise VerificationError at the first wrong distance."""
    name = f"scipy.sparse.csgraph ({oracle})" if oracle in SCIPY_METHODS else "Floyd and Warshall's algorithm"
    if distances.shape != expected.shape:
        raise VerificationError(f"distances have shape {distances.shape}", expected=f"{expected.shape}")
    is_right = distances == expected
    with np.errstate(invalid="ignore"):
        is_right |= np.abs(distances - expected) <= tolerance * np.abs(expected)
    wrong = np.argwhere(~is_right)
    if wrong.size:
        i, j = wrong[0]
        raise VerificationError(
            f"the distance from {i} to {j} is wrong, and {len(wrong) - 1} others are",
            expected=f"{expected[i, j]} by {name}",
            got=f"{distances[i, j]}",
        )
    how = f"within a relative {tolerance:.2g}: fractions are rounded" if tolerance else "exactly"
    return f"all {distances.size} distances with {name}, {how}"


def _has_scipy() -> bool:
    return importlib.util.find_spec("scipy") is not None
