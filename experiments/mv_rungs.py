"""The ladder of matrix-vector kernels on a GPU, at four shapes: what does each idea buy, and where."""

from __future__ import annotations

from experiments._parts import vectors
from experiments._parts.gpu import or_absent
from harness.experiment import Budget, Case, Experiment, Figure
from harness.machine import Machine

# Rows and columns: few short rows would be alike, so from many short rows to few long ones.
SHAPES = {
    "smoke": ((1000, 1000),),
    "quick": ((10**6, 32), (10**5, 1000), (8192, 8192), (100, 10**6)),
    "full": ((10**6, 32), (10**5, 1000), (8192, 8192), (100, 10**6)),
}
SETTINGS = {
    "smoke": (("plus_times", "float32"),),
    "quick": (("plus_times", "float32"),),
    "full": (("plus_times", "float32"), ("plus_times", "float64"), ("min_plus", "float32")),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return how fast memory is read, then all rungs for each shape and side."""
    if not machine.gpu:
        return or_absent([], machine, shape="64 x 64")
    found = vectors.read_cases(machine)[1:]
    names = (*vectors.GPU_RUNGS, vectors.GPU_SUBJECT, vectors.GPU_LIBRARY)
    for semiring, dtype in SETTINGS[preset]:
        for side in vectors.SIDES:
            for rows, columns in SHAPES[preset]:
                problem = vectors.sided(rows, columns, side, dtype, semiring)
                shape = f"{side}, {rows:,} x {columns:,}"
                axes = {"side": side, "shape": shape, "rows": rows, "columns": columns}
                found.append(vectors.gpu_case(problem, map(vectors.gpu_contender, names), machine, **axes))
    return found


EXPERIMENT = Experiment(
    name="mv_rungs",
    question="What does each step of the ladder of matrix-vector kernels buy on a GPU, by shape?",
    cases=cases,
    figures=(
        Figure(
            "mv_rungs",
            "heatmap",
            "Matrix-vector kernels",
            {
                "where": {"semiring": "plus_times", "dtype": "float32"},
                "rows": "contender",
                "columns": "shape",
                "x_label": "side of the vector, rows and columns of the matrix",
                "value": "of_read",
                "finding": "read_shares",
                "subject": vectors.GPU_SUBJECT,
            },
            prominence=61,
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=2),
        "full": Budget(rounds=15, seconds=20, precision=0.01),
    },
    order=72,
)
