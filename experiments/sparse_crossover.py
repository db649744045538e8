"""A sparse matrix times a vector: from which density on is the dense product faster than sparse libraries.

One thread: SciPy's products use one. GraphBLAS also computes over semirings. No sparse kernels are part of the project.
"""

from __future__ import annotations

from experiments._parts.peers import SUBJECT, installed
from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine

TASK = "experiments._parts.sparse_task:product"

# Rows and columns; percent of the elements that are stored; columns of the dense operand.
SIZE = {"smoke": 200, "quick": 2000, "full": 8192}
PERCENTS = {"smoke": (1, 50), "quick": (1, 5, 20, 50), "full": (0.1, 0.5, 1, 2, 5, 10, 20, 35, 50, 65, 80, 100)}
COLUMNS = {"smoke": (1,), "quick": (1,), "full": (1, 16)}
# Form of the matrix, semiring, and the methods that take both.
KINDS = (
    ("uniform", "plus_times", ("csr", "graphblas")),
    ("band", "plus_times", ("csr", "dia", "graphblas")),
    ("uniform", "min_plus", ("graphblas",)),
)
LABELS = {"csr": "scipy CSR", "dia": "scipy DIA", "graphblas": "graphblas"}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each kind, density and number of columns; the dense product is the reference."""
    n = SIZE[preset]
    dense = Contender(SUBJECT, {"method": "dense", "backend": SUBJECT}, task=TASK)
    return [
        Case(
            {
                "m": n,
                "n": columns,
                "k": n,
                "dtype": "float64",
                "semiring": semiring,
                "percent": percent,
                "kind": f"{form}, {semiring}, {columns} column{'s' * (columns > 1)}",
            },
            (dense, *(Contender(LABELS[method], {"method": method}, task=TASK) for method in methods)),
            {"form": form, "n": n, "columns": columns, "percent": percent, "semiring": semiring},
        )
        for form, semiring, methods in ((form, semiring, installed(methods)) for form, semiring, methods in KINDS)
        if methods
        for columns in COLUMNS[preset]
        for percent in PERCENTS[preset]
    ]


EXPERIMENT = Experiment(
    name="sparse_crossover",
    question="From which density on is a dense product faster than sparse libraries?",
    cases=cases,
    figures=(
        Figure(
            "sparse_crossover",
            "lines",
            "Sparse matrix times vector",
            {
                "x": "percent",
                "x_label": "percent of elements stored (logarithmic)",
                "value": "time_ratio",
                "y_scale": "log",
                "panels": "kind",
                "finding": "pays",
                "subject": "cpu-simd",
                "who": "A dense product",
                "point": "{:g} %",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=0.4), Budget(rounds=5, seconds=2, processes=3, precision=0.02)),
    order=77,
)
