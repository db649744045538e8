"""Graphs to compute paths in, as dense weights: two small real ones in `experiments/data`, and random ones of any size.

A graph is a float64 array (n, n): ``weights[i, j]`` is the length of the edge from i to j, +inf where there is none.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import ExperimentError

DATA = Path(__file__).parents[1] / "data"
REAL = ("karate_club", "les_miserables")

# Probabilities of the four quarters: the values of the Graph 500 benchmark, within the range that the paper fits.
R_MAT_QUARTERS = (0.57, 0.19, 0.19, 0.05)
EDGES_PER_VERTEX = 16
LONGEST = 100


def graph(name: str, **parameters: Any) -> np.ndarray:
    """Return the weights of a graph by name: `r_mat` or `uniform` with their parameters, or one of `REAL`."""
    random = {"r_mat": r_mat, "uniform": uniform}.get(name)
    return load(name, **parameters) if random is None else random(**parameters)


def r_mat(scale: int, *, seed: int = 1, edges_per_vertex: int = EDGES_PER_VERTEX) -> np.ndarray:
    """Draw a directed graph of ``2^scale`` vertices whose degrees are as uneven as those of real networks.

    Each edge falls into a quarter of the adjacency matrix by `R_MAT_QUARTERS`, then into a quarter of that, down to one
    element. Lengths are uniform integers from 1 to 100, so float sums are exact in any order, and all methods must
    agree in every bit. Of edges between the same vertices the shortest stays; loops are removed.

    Source
    ------
    D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT: A Recursive Model for Graph Mining" (2004), section 3; quarters and
    edges per vertex: Graph 500 specification. The paper's noise on the quarters is left out, as there.
    """
    rng = np.random.default_rng(seed)
    n = 1 << scale
    sources, targets = np.zeros((2, edges_per_vertex * n), dtype=np.int64)
    for _ in range(scale):
        quarters = rng.choice(4, sources.size, p=R_MAT_QUARTERS)
        sources, targets = 2 * sources + quarters // 2, 2 * targets + quarters % 2
    lengths = rng.integers(1, LONGEST, sources.size, endpoint=True)
    weights = np.full((n, n), np.inf)
    np.minimum.at(weights, (sources, targets), lengths)
    np.fill_diagonal(weights, np.inf)
    return weights


def uniform(n: int, degree: int, *, seed: int = 1) -> np.ndarray:
    """Draw a directed graph of `n` vertices with `degree` edges from each on average, all alike likely.

    Lengths are those of `r_mat`.
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, LONGEST, (n, n), endpoint=True).astype(float)
    weights[rng.random((n, n)) >= degree / n] = np.inf
    np.fill_diagonal(weights, np.inf)
    return weights


def load(name: str) -> np.ndarray:
    """Return a graph of `experiments/data`: undirected, the length of an edge the inverse of its strength.

    Frequent contact is a short distance, as in weighted collaboration networks (Newman 2001, "Scientific collaboration
    networks II", section 4). Vertices are numbered by first appearance in the file.

    Raises
    ------
    ExperimentError
        If there is no such graph.
    """
    if name not in REAL:
        raise ExperimentError("unknown graph", expected=", ".join((*REAL, "r_mat", "uniform")), got=repr(name))
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        edges = list(csv.DictReader(line for line in file if not line.startswith("#")))
    number = {label: i for i, label in enumerate(dict.fromkeys(e[end] for e in edges for end in ("source", "target")))}
    weights = np.full((len(number), len(number)), np.inf)
    for edge in edges:
        i, j = number[edge["source"]], number[edge["target"]]
        weights[i, j] = weights[j, i] = 1 / float(edge["weight"])
    return weights
