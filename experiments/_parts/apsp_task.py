"""The task of the experiment on shortest paths: all pairs of a graph by one method, compared with another's."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments._parts import scipy_distances
from experiments._parts.graphs import graph as load_graph
from harness import registry
from harness.errors import Declined, VerificationError
from harness.paths import METHODS, shortest_paths
from harness.problem import Problem

Compute = Callable[[], np.ndarray]

PROJECT = "SciPy"
# Methods of scipy.sparse.csgraph.shortest_path, and the graph format in which each is fastest.
SCIPY_METHODS = {"floyd_warshall": ("FW", "dense"), "dijkstra": ("D", "sparse")}


@dataclass
class PathsTask:
    """All pairs of shortest paths in one graph.

    Parameters
    ----------
    graph : mapping
        Arguments of `experiments._parts.graphs.graph`.
    weights : (n, n) float64 array
    compute : callable
        Returns the distances.
    oracle : str
        The method that the distances are compared with.
    facts_of_method : mapping
    """

    graph: Mapping[str, Any]
    weights: np.ndarray
    compute: Compute
    oracle: str
    facts_of_method: Mapping[str, Any]
    _distances: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def run(self) -> None:
        self._distances = self.compute()

    def wait(self) -> None:
        """Return: every method here returns when it is done."""

    def spoil(self) -> None:
        self._distances = np.full_like(self.weights, np.nan)

    def verify(self) -> str:
        expected, tolerance = distances_by(self.oracle, self.weights)(), allowed_difference(self.weights)
        compared = compare(self._distances, expected, self.oracle, tolerance)
        return compared + scipy_distances.agree(self._distances, self.graph, tolerance)

    def facts(self) -> dict[str, Any]:
        """Return the work of one run: for every method that of Floyd and Warshall, so rates rank as times do."""
        n = self.weights.shape[0]
        return {
            "operations": 2 * n**3,
            "bytes_moved": 2 * self.weights.nbytes,
            "edges": int(np.isfinite(self.weights).sum()),
            **self.facts_of_method,
        }


def apsp(*, graph: Mapping[str, Any], method: str, threads: int, backend: str = "") -> PathsTask:
    """Prepare all pairs of shortest paths.

    Parameters
    ----------
    graph : mapping
        Arguments of `experiments._parts.graphs.graph`.
    method : str
        A method of `harness.paths`, computed by `backend`, or one of `SCIPY_METHODS`.
    threads : int
        Set by the worker around the run; recorded here.
    backend : str

    Raises
    ------
    Declined
        If the backend or SciPy is missing here, or the backend declines min_plus.
    """
    weights = load_graph(**graph)
    if method in METHODS:
        registry.admit(backend, Problem(*weights.shape, len(weights), "min_plus", weights.dtype))
        compute = distances_by(method, weights, backend)
        compute()  # compiles the kernel
    else:
        if not _has_scipy():
            raise Declined("missing", "package scipy is not installed: pip install scipy")
        compute = distances_by(method, weights)
    oracle = "floyd_warshall" if method == "dijkstra" else "dijkstra"
    known = oracle if _has_scipy() else "definition"
    facts = {"method": method, "plan": {"threads": threads}}
    if method in SCIPY_METHODS:
        facts["project"] = PROJECT
    return PathsTask(graph, weights, compute, known, facts)


def distances_by(method: str, weights: np.ndarray, backend: str = "") -> Compute:
    """Return a function that computes the distances by `method`, its input converted beforehand."""
    if method in METHODS:
        return lambda: shortest_paths(weights, method=method, backend=backend)
    if method == "definition":
        return lambda: floyd_warshall(weights)
    from scipy.sparse import csgraph

    code, form = SCIPY_METHODS[method]
    # Without edges stored as such, SciPy would take a length of zero for no edge.
    stored = csgraph.csgraph_from_dense(weights, null_value=np.inf) if form == "sparse" else weights
    return lambda: csgraph.shortest_path(stored, method=code)


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
