"""All pairs of shortest paths by products over min_plus, against the graph routines of SciPy.

One thread: SciPy's routines use one, and so does every contender. Where there is a GPU it computes the products as
well, each with its copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments._parts.gpu import SUBJECT as ON_GPU
from experiments._parts.graphs import REAL
from experiments._parts.peers import SUBJECT as ON_CPU
from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine

TASK = "experiments._parts.apsp_task:apsp"

SCALES = {"smoke": (6,), "quick": (7, 8, 9, 10), "full": (6, 7, 8, 9, 10, 11)}
REAL_GRAPHS = {"smoke": ("karate_club",), "quick": REAL, "full": REAL}

BLOCKED = Contender(f"blocked, {ON_CPU}", {"method": "blocked", "backend": ON_CPU}, task=TASK)
BLOCKED_TROPICAL = Contender(
    "blocked, cpu-tropical-gemm", {"method": "blocked", "backend": "cpu-tropical-gemm"}, task=TASK
)
BLOCKED_NUMPY = Contender("blocked, cpu-numpy", {"method": "blocked", "backend": "cpu-numpy"}, task=TASK)
BLOCKED_GPU = Contender(f"blocked, {ON_GPU}", {"method": "blocked", "backend": ON_GPU}, task=TASK)
SQUARING = Contender(f"squaring, {ON_CPU}", {"method": "squaring", "backend": ON_CPU}, task=TASK)
SCIPY_FLOYD_WARSHALL = Contender("scipy floyd_warshall", {"method": "floyd_warshall"}, task=TASK)
SCIPY_DIJKSTRA = Contender("scipy dijkstra", {"method": "dijkstra"}, task=TASK)

CONTENDERS = {
    "smoke": (BLOCKED, SCIPY_FLOYD_WARSHALL, SCIPY_DIJKSTRA),
    "quick": (BLOCKED, SQUARING, SCIPY_FLOYD_WARSHALL, SCIPY_DIJKSTRA),
    "full": (BLOCKED, BLOCKED_NUMPY, BLOCKED_TROPICAL, SQUARING, SCIPY_FLOYD_WARSHALL, SCIPY_DIJKSTRA),
}


def case(contenders: tuple[Contender, ...], family: str, name: str, n: int, graph: Mapping[str, Any]) -> Case:
    """Return the case of one graph."""
    axes = {"family": family, "graph": name, "n": n, "semiring": "min_plus", "dtype": "float64"}
    return Case(axes, contenders, {"graph": graph}, reference=SCIPY_DIJKSTRA.label)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case per real graph and per size of random graph."""
    sizes = {"karate_club": 34, "les_miserables": 77}
    contenders = (*CONTENDERS[preset], *((BLOCKED_GPU,) if machine.gpu else ()))
    real = [case(contenders, "real", name, sizes[name], {"name": name}) for name in REAL_GRAPHS[preset]]
    random = [
        case(contenders, "random", f"R-MAT, {n} vertices", n, {"name": "r_mat", "scale": scale, "seed": 1})
        for scale, n in ((scale, 2**scale) for scale in SCALES[preset])
    ]
    return [*real, *random]


EXPERIMENT = Experiment(
    name="shortest_paths",
    question="From which size on are shortest paths by matrix products quicker than SciPy's graph routines?",
    cases=cases,
    figures=(
        Figure(
            "shortest_paths_random",
            "lines",
            "All pairs of shortest paths in R-MAT graphs",
            {
                "where": {"family": "random"},
                "x": "n",
                "x_label": "vertices (log scale)",
                "value": "time",
                "y_scale": "log",
                "subject": BLOCKED.label,
                "finding": "pays",
            },
            prominence=60,
        ),
        Figure(
            "shortest_paths_real",
            "heatmap",
            "All pairs of shortest paths in small real graphs",
            {
                "where": {"family": "real"},
                "rows": "contender",
                "columns": "graph",
                "x_label": "graph",
                "subject": BLOCKED.label,
                "finding": "fastest",
            },
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=8),
        "full": Budget(rounds=5, seconds=6, processes=3, precision=0.02),
    },
    order=70,
)
