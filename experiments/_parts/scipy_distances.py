"""Distances by scipy.sparse.csgraph in the experiment's graphs, stored in a file, so that the check needs no SciPy.

``python -m experiments._parts.scipy_distances`` writes the file anew, with SciPy; a test compares the two.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments._parts.graphs import DATA, REAL, graph
from harness.errors import VerificationError

FILE = DATA / "shortest_paths.csv"
HEAD = "# All pairs by scipy.sparse.csgraph.shortest_path (Dijkstra), by experiments/_parts/scipy_distances.py.\n"
SCALES = range(6, 12)
# Vertices, and edges of each, of random graphs.
UNIFORM = [(n, n // 2) for n in (64, 256, 512, 768, 1024, 2048)] + [
    (n, degree) for n in (64, 512, 2048) for degree in (2, 8, 32, 128, 512) if degree < n // 2
]


def name_of(parameters: Mapping[str, Any]) -> str:
    """Return one word for a graph: ``"karate_club"``, ``"r_mat-scale=7-seed=1"``."""
    return "-".join(
        [str(parameters["name"]), *(f"{key}={parameters[key]}" for key in sorted(parameters) if key != "name")]
    )


def summary(distances: np.ndarray) -> dict[str, float]:
    """Return the number of pairs with a path, the sum of their distances, and a sum weighted by position."""
    finite = np.where(np.isfinite(distances), distances, 0.0)
    i, j = np.indices(distances.shape)
    weights = (31 * i + 17 * j) % 97 + 1
    return {
        "pairs": float(np.isfinite(distances).sum()),
        "sum": float(finite.sum()),
        "weighted_sum": float((finite * weights).sum()),
    }


def shipped() -> dict[str, dict[str, float]]:
    """Return the summaries by graph, as they are shipped."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row.pop("graph"): {name: float(value) for name, value in row.items()} for row in rows}


def agree(distances: np.ndarray, parameters: Mapping[str, Any], tolerance: float) -> str:
    """Return the comparison in words; raise VerificationError if `distances` are not SciPy's."""
    expected, got = shipped().get(name_of(parameters)), summary(distances)
    if expected is None:
        return ""
    for name, value in expected.items():
        if abs(got[name] - value) > tolerance * abs(value):
            raise VerificationError(
                f"the {name} of the distances is not what scipy.sparse.csgraph found",
                expected=f"{value!r} in {name_of(parameters)}",
                got=f"{got[name]!r}",
            )
    return ", and their sums with those of scipy.sparse.csgraph, as shipped"


def main() -> None:
    """Write the file, with SciPy."""
    from scipy.sparse import csgraph

    graphs: list[dict[str, Any]] = [{"name": name} for name in REAL] + [
        {"name": "r_mat", "scale": scale, "seed": 1} for scale in SCALES
    ]
    graphs += [{"name": "uniform", "n": n, "degree": degree} for n, degree in UNIFORM]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        file.write(HEAD)
        rows = csv.DictWriter(file, ["graph", "pairs", "sum", "weighted_sum"], lineterminator="\n")
        rows.writeheader()
        for parameters in graphs:
            stored = csgraph.csgraph_from_dense(graph(**parameters), null_value=np.inf)
            sums = summary(csgraph.shortest_path(stored, method="D"))
            rows.writerow({"graph": name_of(parameters), **{name: repr(value) for name, value in sums.items()}})


if __name__ == "__main__":
    main()
