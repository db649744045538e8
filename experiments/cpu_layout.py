"""Products of matrices stored by rows or by columns: the time of a backend in each order over its own time by rows."""

from __future__ import annotations

from typing import Any

from experiments._parts.peers import SUBJECT
from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine
from harness.problem import Problem

SIZE = {"smoke": 64, "quick": 384, "full": 384}
BACKENDS = {
    "smoke": ("cpu-naive", SUBJECT),
    "quick": ("cpu-naive", "cpu-transposed", "cpu-packed", SUBJECT, "cpu-numpy"),
    "full": ("cpu-naive", "cpu-transposed", "cpu-tiled", "cpu-packed", SUBJECT, "cpu-numpy"),
}

# Orders of A, B and C. BLAS names the first four by what is done to A and to B: N as it is, T transposed.
ORDERS = {
    "NN: all by rows": "CCC",
    "TN: A by columns": "FCC",
    "NT: B by columns": "CFC",
    "TT: A, B by columns": "FFC",
    "C by columns": "CCF",
    "all by columns": "FFF",
}
OF_PRESET = {"smoke": list(ORDERS)[:2], "quick": [x for x in ORDERS if x != "C by columns"], "full": list(ORDERS)}


def contender(backend: str, order: str, n: int) -> Contender:
    """Return the contender that multiplies matrices in one order."""
    problem = Problem(n, n, n, layout=ORDERS[order])
    arguments: dict[str, Any] = {"backend": backend, "parameters": {}, "problem": problem.to_json()}
    return Contender(order, arguments)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each backend, its contenders the orders."""
    n = SIZE[preset]
    axes = {**dict.fromkeys("mnk", n), "semiring": "plus_times", "dtype": "float64"}
    return [
        Case(
            {**axes, "backend": backend},
            tuple(contender(backend, order, n) for order in OF_PRESET[preset]),
            {"seed": 1},
        )
        for backend in BACKENDS[preset]
    ]


EXPERIMENT = Experiment(
    name="cpu_layout",
    question="What does it cost that a matrix is stored by columns and not by rows?",
    cases=cases,
    figures=(
        Figure(
            "cpu_layout",
            "heatmap",
            "Orders in memory: time over that of the same backend by rows",
            {
                "rows": "backend",
                "columns": "contender",
                "value": "time_ratio",
                "x_label": "orders of A, B and C",
                "finding": "memory_orders",
                "subject": SUBJECT,
            },
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=4),
        "full": Budget(rounds=8, seconds=20, processes=5, precision=0.01),
    },
    order=14,
)
