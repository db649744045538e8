"""Products of shapes from real programs: layers of published networks, panels, Viterbi, shortest paths.

One thread, and a GPU if there is one. The experiment measures how well a kernel fits a shape. On several threads a
shape narrow in m or n would also show the division of work, which `thread_scaling` measures. ``data/workloads.csv`` has
the shapes and their sources.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from experiments._parts.gpu import best_of_gpu
from experiments._parts.peers import SUBJECT, libraries_for
from harness.experiment import PRESETS, Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

TABLE = Path(__file__).parent / "data" / "workloads.csv"


@dataclass(frozen=True)
class Workload:
    """A product that a program computes.

    Parameters
    ----------
    name, group : str
    problem : Problem
    preset : str
        The smallest preset that has it; the larger ones have it too.
    source, note : str
        Reference for the sizes, and their meaning.
    """

    name: str
    group: str
    problem: Problem
    preset: str
    source: str
    note: str


def read() -> list[Workload]:
    """Return the table, in its order."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        Workload(
            row["name"],
            row["group"],
            Problem(int(row["m"]), int(row["n"]), int(row["k"]), row["semiring"], row["dtype"]),
            row["preset"],
            row["source"],
            row["note"],
        )
        for row in rows
    ]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case per workload of `preset`: every library that takes it, then what gemm takes."""
    legal = PRESETS[: PRESETS.index(preset) + 1]
    ours = [backend_contender(SUBJECT), *best_of_gpu(machine)]
    return [
        product_case(
            workload.problem,
            [*libraries_for(workload.problem, machine, preset), *ours],
            workload=workload.name,
            group=workload.group,
        )
        for workload in read()
        if workload.preset in legal
    ]


EXPERIMENT = Experiment(
    name="workloads",
    question="Which backend suits the shapes that real programs multiply?",
    cases=cases,
    figures=(
        Figure(
            "workloads",
            "heatmap",
            "Speed at the shapes of real programs",
            {
                "rows": "workload",
                "columns": "contender",
                "value": "speed_up",
                "x_label": "backend",
                "subject": SUBJECT,
                "finding": "speed",
                "over": "library",
            },
            prominence=74,
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=1.5), Budget(rounds=5, seconds=2, processes=3, precision=0.02)),
    order=80,
)
