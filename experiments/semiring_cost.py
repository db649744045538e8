"""The price of a semiring: the time of its product over that of plus_times, by the same backend at the same size."""

from __future__ import annotations

import numpy as np

from experiments._parts.gpu import SUBJECT as ON_GPU
from experiments._parts.peers import SUBJECT as ON_CPU
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender
from harness.machine import Machine
from harness.problem import Problem
from harness.semiring import SEMIRINGS

# Each is compiled in its own process, 2 to 3 s; smoke has one of each kind.
NAMES = {"smoke": ("plus_times", "min_plus", "lor_land")}
DTYPES = {
    ON_CPU: {"smoke": ("float64",), "quick": ("float64",), "full": ("float64", "float32", "int32")},
    ON_GPU: {"smoke": ("float32",), "quick": ("float32",), "full": ("float32", "float64", "int32")},
}
SIZE = {
    ON_CPU: {"smoke": 96, "quick": 384, "full": 512},
    ON_GPU: {"smoke": 256, "quick": 2048, "full": 4096},
}


def contender(backend: str, name: str, dtype: str, n: int) -> Contender:
    """Return the contender that multiplies over the semiring: in `dtype` where it is defined there, else in bool."""
    defined = SEMIRINGS[name].unsupported(np.dtype(dtype)) is None
    problem = Problem(n, n, n, name, dtype if defined else "bool")
    return backend_contender(backend, label=name if defined else f"{name} (bool)", problem=problem)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return one case per backend and dtype, its contenders every named semiring."""
    backends = (ON_CPU, ON_GPU) if machine.gpu else (ON_CPU,)
    return [_case(preset, backend, dtype) for backend in backends for dtype in DTYPES[backend][preset]]


def _case(preset: str, backend: str, dtype: str) -> Case:
    n = SIZE[backend][preset]
    contenders = tuple(
        contender(backend, name, dtype, n)
        for name in NAMES.get(preset, tuple(SEMIRINGS))
        if any(SEMIRINGS[name].unsupported(np.dtype(element)) is None for element in (dtype, "bool"))
    )
    return Case({"dtype": dtype, "n": n, "backend": backend}, contenders, {"seed": 1}, reference="plus_times")


EXPERIMENT = Experiment(
    name="semiring_cost",
    question="What does a product over another semiring cost, compared with the ordinary one?",
    cases=cases,
    figures=(
        Figure(
            "semiring_cost",
            "dots",
            "The price of a semiring",
            {"panels": ["backend", "dtype", "n"], "value": "time_ratio", "subject": ON_CPU, "finding": "time"},
            prominence=59,
        ),
    ),
    budget=Budget.presets(
        Budget(rounds=5, seconds=4), Budget(rounds=5, seconds=8, processes=3), smoke=Budget(rounds=2, seconds=0.3)
    ),
    order=50,
)
