"""All pairs of shortest paths by products over min_plus, against graph packages, and against the product itself.

One thread: SciPy's routines use one, and so does every contender. In dense graphs the rate is held against that of one
product of the same size, on the host and with everything on the GPU. In random graphs of more and more edges SciPy's
Dijkstra, whose work grows with them, is overtaken somewhere. Where there is a GPU it computes the products of R-MAT and
real graphs as well, each with its copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments._parts.gpu import DEVICE
from experiments._parts.gpu import SUBJECT as ON_GPU
from experiments._parts.graphs import REAL
from experiments._parts.peers import SUBJECT as ON_CPU
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal
from harness.machine import Machine

TASK = "experiments._parts.apsp_task:apsp"

SCALES = {"smoke": (6,), "quick": (7, 8, 9), "full": (6, 7, 8, 9, 10, 11)}
REAL_GRAPHS = {"smoke": ("karate_club",), "quick": REAL, "full": REAL}
# Vertices of dense graphs; of those with few edges, whose numbers of edges a vertex follow.
DENSE = {"smoke": (64,), "quick": (256, 512, 768), "full": (256, 512, 1024, 2048)}
DENSE_ON_GPU = {"smoke": (64,), "quick": (1024, 4096), "full": (1024, 2048, 4096, 8192)}
SPARSE = {"smoke": 64, "quick": 512, "full": 2048}
DEGREES = (2, 8, 32, 128, 512)
NETWORKX_UP_TO = {"smoke": 64, "quick": 512, "full": 1024}  # vertices

BLOCKED = Contender(f"blocked, {ON_CPU}", {"method": "blocked", "backend": ON_CPU}, task=TASK)
BLOCKED_TROPICAL = Contender(
    "blocked, cpu-tropical-gemm", {"method": "blocked", "backend": "cpu-tropical-gemm"}, task=TASK
)
BLOCKED_NUMPY = Contender("blocked, cpu-numpy", {"method": "blocked", "backend": "cpu-numpy"}, task=TASK)
BLOCKED_GPU = Contender(f"blocked, {ON_GPU}", {"method": "blocked", "backend": ON_GPU}, task=TASK)
SQUARING = Contender(f"squaring, {ON_CPU}", {"method": "squaring", "backend": ON_CPU}, task=TASK)
PRODUCT = Contender(f"one product, {ON_CPU}", {"method": "product", "backend": ON_CPU}, task=TASK)
SCIPY_FLOYD_WARSHALL = Contender("scipy floyd_warshall", {"method": "floyd_warshall"}, task=TASK)
SCIPY_DIJKSTRA = Contender("scipy dijkstra", {"method": "dijkstra"}, task=TASK)
ALONE = {"RAYON_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # what these packages load starts threads of its own
RUSTWORKX = Contender("rustworkx floyd_warshall", {"method": "rustworkx"}, task=TASK, environment=ALONE)
NETWORKX = Contender("networkx floyd_warshall", {"method": "networkx"}, task=TASK, environment=ALONE)
THERE = {"backend": ON_GPU, "where": "gpu", "dtype": "float32"}
BLOCKED_THERE = Contender(f"blocked, {ON_GPU}", {"method": "blocked", **THERE}, task=TASK)
PRODUCT_THERE = Contender(f"one product, {ON_GPU}", {"method": "product", **THERE}, task=TASK)

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
    return [*real, *random, *dense_cases(preset, machine), *sparse_cases(preset)]


def dense_cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case per size of graphs with half of all edges, on the host and on a GPU, beside one product."""
    cases = []
    for n in DENSE[preset]:
        packages = (SCIPY_FLOYD_WARSHALL, SCIPY_DIJKSTRA, RUSTWORKX)
        slow = (NETWORKX,) if n <= NETWORKX_UP_TO[preset] else ()
        cases.append(_uniform("dense", n, n // 2, (PRODUCT, BLOCKED, *packages, *slow), PRODUCT))
    there = DENSE_ON_GPU[preset] if machine.gpu else ()
    on_gpu = (PRODUCT_THERE, BLOCKED_THERE)
    return cases + [_uniform("dense, gpu", n, n // 2, on_gpu, PRODUCT_THERE, "float32") for n in there]


def sparse_cases(preset: str) -> list[Case]:
    """Return a case per number of edges of a vertex."""
    n = SPARSE[preset]
    return [_uniform("edges", n, x, (SCIPY_DIJKSTRA, BLOCKED), SCIPY_DIJKSTRA) for x in DEGREES if x < n // 2]


def _uniform(
    family: str, n: int, degree: int, contenders: tuple[Contender, ...], reference: Contender, dtype: str = "float64"
) -> Case:
    axes = {"family": family, "graph": f"random, {degree} edges a vertex", "n": n, "degree": degree}
    axes |= {"semiring": "min_plus", "dtype": dtype, **(DEVICE if family.endswith("gpu") else {})}
    graph = {"name": "uniform", "n": n, "degree": degree}
    return Case(axes, contenders, {"graph": graph}, reference=reference.label)


def _of_product(name: str, title: str, family: str, subject: Contender) -> Figure:
    """Return the speed of all pairs over that of one product, by size."""
    options = {"where": {"family": family}, "x": "n", "x_label": "vertices (log scale)", "value": "speed_up"}
    return Figure(name, "lines", title, {**options, "subject": subject.label, "y_scale": "log", "finding": "speed"})


EXPERIMENT = Experiment(
    name="shortest_paths",
    question="How near to one product are all pairs of shortest paths, and where do they pass SciPy's routines?",
    cases=cases,
    figures=(
        _of_product("shortest_paths", "All pairs of dense graphs over one product of that size", "dense", BLOCKED),
        _of_product("shortest_paths_gpu", "All pairs on the GPU over one product of it", "dense, gpu", BLOCKED_THERE),
        Figure(
            "shortest_paths_edges",
            "lines",
            "All pairs of shortest paths by the edges of a vertex",
            {
                "where": {"family": "edges"},
                "x": "degree",
                "x_label": "edges of a vertex (log scale)",
                "value": "time",
                "y_scale": "log",
                "subject": BLOCKED.label,
                "point": "{:g} edges a vertex",
                "finding": "pays",
            },
        ),
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
    budget=Budget.presets(Budget(rounds=3, seconds=6), Budget(rounds=5, seconds=6, processes=3, precision=0.02)),
    order=70,
    goals=(
        Goal(BLOCKED.label, 0.85, PRODUCT.label, {"family": ("dense",), "n": (1024, 2048)}),
        Goal(BLOCKED_THERE.label, 0.65, PRODUCT_THERE.label, {"family": ("dense, gpu",), "n": (4096,)}),
        Goal(BLOCKED_THERE.label, 0.8, PRODUCT_THERE.label, {"family": ("dense, gpu",), "n": (8192,)}),
    ),
)
