"""How many threads, and how many loads of each in flight, it takes to read memory at full rate: the occupancy crossing.

A thread has four columns of the matrix, side by side, and adds all rows: one load of 16 bytes a row. No sums are
shared, so that the number of columns says how many threads there are. The matrix always has the same size.
"""

from __future__ import annotations

from experiments._parts import vectors
from experiments._parts.gpu import or_absent
from harness.analysis import rates
from harness.analysis.findings.sentences import LEAST, Finding, Measure, Value
from harness.experiment import Budget, Case, Experiment, Figure, Json
from harness.machine import Machine
from harness.stats.statistics import exact
from harness.store.store import Cell

# Fewer than four cannot be asked for: the compiler unrolls a loop of one load, and has several in flight again.
LOADS = (4, 8)
COLUMNS_OF_THREAD, BESIDE = 4, 256
ELEMENTS = {"smoke": 1 << 22, "quick": 1 << 28, "full": 1 << 29}
# Threads in powers of two; an H200 holds 132 x 2048 = 270,336 at a time.
POWERS = {"smoke": (12, 14), "quick": range(12, 20), "full": range(11, 21)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return how fast memory is read, then a case for each number of threads."""
    if not machine.gpu:
        return or_absent([], machine, threads_at_once=64)
    contenders = [
        vectors.gpu_contender(
            vectors.GPU_SUBJECT,
            f"{loads} load{'s' * (loads > 1)} in flight",
            loads=loads,
            beside=BESIDE,
            shares=1,
        )
        for loads in LOADS
    ]
    one = vectors.gpu_contender("gpu-mv-thread", "gpu-mv-thread, 4 x the threads, 4 bytes a load")
    found = vectors.read_cases(machine)[1:]
    for power in POWERS[preset]:
        columns = COLUMNS_OF_THREAD << power
        problem = vectors.sided(ELEMENTS[preset] // columns, columns, vectors.X_A, "float32")
        axes = {"rows": problem.k, "columns": columns, "threads_at_once": 1 << power}
        found.append(vectors.gpu_case(problem, [*contenders, one], machine, **axes))
    return found


KNEE = 0.9  # of its best rate, from where on more threads hardly help
NEEDS = Measure("needs", "need", f"{{}} threads for {100 * KNEE:.0f} % of the best rate")


def knee(cells: list[Cell], options: Json) -> Finding | None:
    """Return the fewest threads that read at most of the best rate, by contender."""
    values = []
    for name, own in rates.group(rates.timed(cells), lambda c: c.contender).items():
        most = max(cell.rate for cell in own)
        threads = min(rates.axis(cell, options["x"]) for cell in own if cell.rate >= KNEE * most)
        values += [Value(exact(threads), place=name, words=f"{threads:,}")] if len(own) > 1 else []
    return Finding("Reading", NEEDS, values, pick=LEAST) if values else None


EXPERIMENT = Experiment(
    name="mv_threads",
    question="How many threads does it take to read memory at full rate, by loads in flight of each?",
    cases=cases,
    figures=(
        Figure(
            "mv_threads",
            "lines",
            "Rate of reading by threads that load at once",
            {
                "x": "threads_at_once",
                "x_label": "threads with loads of 16 bytes; an H200 holds 270,336 at a time",
                "value": "of_read",
                "finding": knee,
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=20, precision=0.01)),
    order=74,
)
