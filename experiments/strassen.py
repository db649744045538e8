"""The gain by Strassen's algorithm: its time over that of its base alone, against size, for one to three levels.

Where the curve of one level falls below 1, half of that size is the crossover for `harness.tuning.cpu`.
"""

from __future__ import annotations

from harness import registry
from harness.analysis.rates import plural
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

BACKEND = "cpu-strassen"

# Even sizes and odd ones, whose halves are rounded up at every level.
SIZES = {
    "smoke": (64, 65),
    "quick": (1024, 1025, 2048),
    "full": (512, 513, 768, 1024, 1025, 1536, 1537, 2048, 2049, 2560, 3000, 3001),
}
LEVELS = {"smoke": (1,), "quick": (1, 2), "full": (1, 2, 3)}
DTYPES = {"smoke": ("float64",), "quick": ("float64",), "full": ("float64", "float32")}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a square product for each size; the contenders are the base alone and each number of levels."""
    threads = (1,) if preset != "full" else tuple(sorted({1, machine.cores}))
    settings = [(dtype, count) for dtype in DTYPES[preset] for count in threads]
    return [_case(n, dtype, count, LEVELS[preset], machine) for dtype, count in settings for n in SIZES[preset]]


def _case(n: int, dtype: str, threads: int, levels: tuple[int, ...], machine: Machine) -> Case:
    problem = Problem(n, n, n, dtype=dtype)
    base = str(registry.find(BACKEND).plan(problem, machine).options["base"])
    recursive = [
        backend_contender(BACKEND, label=plural(count, "level"), threads=threads, base=base, crossover=half)
        for count in levels
        for half in (-(-n // 2**count),)  # the smallest half after so many levels, where recursion stops
    ]
    setting = f"{dtype}, {plural(threads, 'thread')}"
    return product_case(problem, [backend_contender(base, threads=threads), *recursive], setting=setting)


EXPERIMENT = Experiment(
    name="strassen",
    question="From which size on do seven products instead of eight pay?",
    cases=cases,
    figures=(
        Figure(
            "strassen",
            "lines",
            "Strassen's algorithm against its base",
            {"x": "n", "value": "time_ratio", "panels": "setting", "finding": "pays"},
            prominence=55,
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=6),
        "full": Budget(rounds=10, seconds=60, processes=2, precision=0.01),
    },
    order=90,
)
