"""Products of matrices stored by rows or by columns: the time of a backend in each order over its own time by rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from experiments._parts.call_task import GEMM, NUMPY, contender
from experiments._parts.peers import ONE, SUBJECT, thread_counts
from harness.experiment import (
    Budget,
    Case,
    Contender,
    Experiment,
    Figure,
    Goal,
    backend_contender,
    needs_many_cores,
    product_case,
)
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
# Whole calls: layout, and whether B is the transpose of A itself.
OWN, CALLED = "a @ a.T", (300, 1500)
FORMS = {"as they are": ("CCC", False), "a.T @ b.T": ("FFC", False), "a.T @ a": ("FCC", True), OWN: ("CFC", True)}
OF_PRESET = {"smoke": list(ORDERS)[:2], "quick": [x for x in ORDERS if x != "C by columns"], "full": list(ORDERS)}


def in_order(backend: str, order: str, n: int) -> Contender:
    """Return the contender that multiplies matrices in one order."""
    return backend_contender(backend, label=order, problem=Problem(n, n, n, layout=ORDERS[order]))


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each backend, its contenders the orders."""
    n = SIZE[preset]
    axes = {**dict.fromkeys("mnk", n), "semiring": "plus_times", "dtype": "float64"}
    of_backends = [
        Case(
            {**axes, "backend": backend},
            tuple(in_order(backend, order, n) for order in OF_PRESET[preset]),
            {"seed": 1},
        )
        for backend in BACKENDS[preset]
    ]
    return of_backends + (calls(thread_counts(machine)) if preset == "full" else [])


def calls(threads: Mapping[str, int]) -> list[Case]:
    """Return whole calls with both operands by columns, and with a matrix by its own transpose, beside NumPy's."""
    found = []
    for (called, count), dtype, n in itertools.product(threads.items(), ("float64", "float32"), CALLED):
        for form, (layout, own) in FORMS.items():
            rivals = [contender(name, count, own=own) for name in (NUMPY, GEMM)]
            product = Problem(n, n, n, dtype=dtype, layout=layout)
            found.append(product_case(product, rivals, role="call", form=form, shared_by=called))
    for dtype in ("float64", "float32"):
        rivals = [contender(GEMM, label="a @ b.T"), contender(GEMM, label=OWN, own=True)]
        product = Problem(1500, 1500, 1500, "min_plus", dtype, layout="CFC")
        found.append(product_case(product, rivals, role="call", form=OWN, shared_by=ONE))
    return found


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
                "where": {"role": None},
                "rows": "backend",
                "columns": "contender",
                "value": "time_ratio",
                "x_label": "orders of A, B and C",
                "finding": "time",
                "by": "backend",
                "place": "contender",
                "reference_words": "with all by rows",
                "subject": SUBJECT,
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=4), Budget(rounds=8, seconds=20, processes=5, precision=0.01)),
    order=14,
    is_asked=needs_many_cores,
    goals=(
        Goal(GEMM, 1.0, NUMPY, {"role": ("call",)}),
        Goal(OWN, 1.7, "a @ b.T"),
    ),
)
