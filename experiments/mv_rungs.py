"""The ladder of matrix-vector kernels on a GPU, at four shapes: what does each idea buy, and where."""

from __future__ import annotations

import dataclasses
import itertools

from experiments._parts import vectors
from experiments._parts.gpu import or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal, backend_contender
from harness.machine import Machine
from harness.semiring import as_semiring

# Rows and columns: few short rows would be alike, so from many short rows to few long ones.
SHAPES = {
    "smoke": ((1000, 1000),),
    "quick": ((10**6, 32), (10**5, 1000), (8192, 8192), (100, 10**6)),
    "full": ((10**6, 32), (10**5, 1000), (8192, 8192), (100, 10**6)),
}
# Rows and columns of which a rate is asked: from memory with long sides, others, and below 1 MB.
ASKED = (
    (16384, 16384), (100000, 10000), (1000000, 200), (200, 1000000), (12001, 12001), (8193, 16387),
    (8192, 8192), (1000000, 10), (1000000, 33), (4097, 4097), (10001, 10001), (1000, 1000000), (20000, 3001),
    (1000, 1000), (2000, 20000), (300, 300), (500, 400), (100, 100),
)  # fmt: skip
BYTES_OF_LARGE, BYTES_OF_SMALL = 1 << 29, 1 << 20
SMALL, MEDIUM, LARGE = "small", "medium", "large"
MIN_PLUS = "min_plus"
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
    if preset == "full":
        found += [_asked(*case, machine) for case in itertools.product(("float32", "float64"), ASKED, vectors.SIDES)]
    return found


def _asked(dtype: str, shape: tuple[int, int], side: str, machine: Machine) -> Case:
    """Return the case of one shape by our kernel and the library; if it is large, with min_plus and a plain read."""
    problem, (rows, columns) = vectors.sided(*shape, side, dtype), shape
    contenders, size = [vectors.gpu_contender(x) for x in (vectors.GPU_LIBRARY, vectors.GPU_SUBJECT)], SMALL
    if vectors.matrix_bytes(problem) > BYTES_OF_SMALL:
        size = MEDIUM
    if vectors.matrix_bytes(problem) >= BYTES_OF_LARGE:
        size = LARGE
        tropical = dataclasses.replace(problem, semiring=as_semiring("min_plus"))
        contenders.append(backend_contender(vectors.GPU_SUBJECT, label=MIN_PLUS, task=vectors.TASK, problem=tropical))
        contenders.append(Contender("read", task="backends.gpu._tasks.ceilings:read_of"))
    axes = {"side": side, "rows": rows, "columns": columns, "role": "asked", "size": size}
    return vectors.gpu_case(problem, contenders, machine, **axes)


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
                "where": {"role": None, "semiring": "plus_times", "dtype": "float32"},
                "rows": "contender",
                "columns": "shape",
                "x_label": "side of the vector, rows and columns of the matrix",
                "value": "of_read",
                "finding": "of_read",
                "subject": vectors.GPU_SUBJECT,
            },
            prominence=61,
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=20, precision=0.01)),
    order=72,
    goals=(
        Goal(MIN_PLUS, 0.95, vectors.GPU_SUBJECT),
        *(
            goal
            for side, of_read, of_library in ((vectors.A_X, 0.93, 1.0), (vectors.X_A, 0.9, 0.97))
            for goal in (
                Goal(vectors.GPU_SUBJECT, of_read, "read", {"side": side, "size": LARGE}),
                Goal(vectors.GPU_SUBJECT, of_library, vectors.GPU_LIBRARY, {"side": side, "size": (MEDIUM, LARGE)}),
            )
        ),
        Goal(vectors.GPU_SUBJECT, 0.8, vectors.GPU_LIBRARY, {"size": SMALL}),
        *(
            Goal(vectors.GPU_SUBJECT, asked, vectors.GPU_LIBRARY, {"side": vectors.A_X, "size": MEDIUM, **shape})
            for shape, asked in (
                ({"rows": 8192, "columns": 8192}, 1.3),
                ({"rows": 1000000, "columns": 10}, 3.0),
            )
        ),
    ),
)
