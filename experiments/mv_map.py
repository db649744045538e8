"""Matrix-vector products of every shape from 1 x 1 to 10^6 x 10^6, the vector on either side: where is which fast."""

from __future__ import annotations

from experiments._parts import vectors
from harness.experiment import Budget, Case, Experiment, Figure, needs_many_cores
from harness.machine import Machine

# Powers of ten that are rows and columns of the matrix.
POWERS = {"smoke": (1, 6), "quick": (2, 5), "full": (0, 1, 2, 3, 4, 5, 6)}
DTYPES = {"smoke": ("float32",), "quick": ("float32",), "full": ("float32", "float64")}
SIDES = {"smoke": (vectors.A_X,), "quick": (vectors.A_X,), "full": vectors.SIDES}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return how fast memory is read, then a product for each shape and side."""
    found = vectors.read_cases(machine)
    contenders = [vectors.gpu_contender(x) for x in (vectors.GPU_LIBRARY, vectors.GPU_SUBJECT, *vectors.GPU_RUNGS)]
    for dtype in DTYPES[preset]:
        for side in SIDES[preset]:
            for rows in (10**power for power in POWERS[preset]):
                for columns in (10**power for power in POWERS[preset]):
                    problem = vectors.sided(rows, columns, side, dtype)
                    axes = {"side": side, "rows": rows, "columns": columns}
                    found.append(vectors.cpu_case(problem, machine, **axes))
                    if machine.gpu:
                        found.append(vectors.gpu_case(problem, contenders, machine, **axes))
    return found


def _figure(side: str, dtype: str, *, on_gpu: bool) -> Figure:
    name = f"mv_map_{'gpu_' if on_gpu else ''}{side.replace(' ', '').lower()}_{dtype}"
    options = {
        "where": {"side": side, "dtype": dtype, "device": "gpu" if on_gpu else None},
        "subject": vectors.GPU_SUBJECT if on_gpu else vectors.SUBJECT,
        "finding": "of_read",
    }
    return Figure(name, "map", f"Matrix times vector, {side}, {dtype}{' on the GPU' if on_gpu else ''}", options)


EXPERIMENT = Experiment(
    name="mv_map",
    question="For which shapes is a matrix-vector product as fast as memory is read, and who is fastest?",
    cases=cases,
    figures=tuple(
        _figure(side, dtype, on_gpu=on_gpu)
        for on_gpu in (False, True)
        for dtype in ("float32", "float64")
        for side in vectors.SIDES
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=0.5), Budget(rounds=10, seconds=4, precision=0.02)),
    order=71,
    is_asked=needs_many_cores,
)
