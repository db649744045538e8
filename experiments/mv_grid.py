"""T rows by Z threads a block of `gpu-mv-grid`: the winner moves with the length of the rows."""

from __future__ import annotations

from experiments._parts import vectors
from experiments._parts.gpu import or_absent
from harness.experiment import Budget, Case, Experiment, Figure
from harness.machine import Machine

BACKEND, THREADS = "gpu-mv-grid", 256
DEEP = {"smoke": (1, 256), "quick": (1, 4, 8, 32, 128, 256), "full": (1, 2, 4, 8, 16, 32, 64, 128, 256)}
SHAPES = {
    "smoke": ((1000, 1000),),
    "quick": ((10**6, 100), (10**5, 1000), (10**4, 10**4), (1000, 10**5)),
    "full": ((10**6, 10), (10**6, 100), (10**5, 1000), (10**4, 10**4), (1000, 10**5), (100, 10**6)),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return how fast memory is read, then every T x Z for each shape."""
    if not machine.gpu:
        return or_absent([], machine, shape="64 x 64")
    contenders = [vectors.gpu_contender(BACKEND, f"{THREADS // z} x {z}", t=THREADS // z, z=z) for z in DEEP[preset]]
    found = vectors.read_cases(machine)[1:]
    for rows, columns in SHAPES[preset]:
        problem = vectors.sided(rows, columns, vectors.A_X, "float32")
        axes = {"shape": f"{rows:,} x {columns:,}", "rows": rows, "columns": columns}
        found.append(vectors.gpu_case(problem, contenders, machine, **axes))
    return found


EXPERIMENT = Experiment(
    name="mv_grid",
    question="How many rows and how many threads a row should a block have, by shape?",
    cases=cases,
    figures=(
        Figure(
            "mv_grid",
            "heatmap",
            f"T rows x Z threads of {BACKEND}",
            {"rows": "contender", "columns": "shape", "value": "of_read", "x_label": "shape", "finding": "fastest"},
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=20, precision=0.01)),
    order=73,
)
