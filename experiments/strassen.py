"""Strassen's algorithm: its time over that of its base alone, and its error, against size, for one to three levels.

Beside Winograd's form of one level stands the classic one, with 18 sums for 15.

Where the curve of one level falls below 1, half of that size is the crossover for `harness.tuning.cpu`.
"""

from __future__ import annotations

from experiments._parts.gpu import ERROR_TASK
from harness import registry
from harness.analysis.rates import plural
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender
from harness.machine import Machine
from harness.problem import Problem

BACKEND, FAMILY = "cpu-strassen", "normal"

# Even sizes and odd ones, whose halves are rounded up at every level.
SIZES = {
    "smoke": (64, 65),
    "quick": (1024, 1536),
    "full": (512, 1024, 1025, 1536, 2048, 2049, 2560, 4096),
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

    def recursive(count: int, **options: str) -> Contender:
        half = -(-n // 2**count)  # the smallest half after so many levels, where recursion stops
        label = ", ".join([plural(count, "level"), *options.values()])
        parameters: dict[str, int | str] = {"base": base, "crossover": half, **options}
        return backend_contender(BACKEND, label=label, threads=threads, task=ERROR_TASK, **parameters)

    alone = backend_contender(base, threads=threads, task=ERROR_TASK)
    contenders = (alone, *map(recursive, levels), recursive(1, form="classic"))
    axes = {"m": n, "n": n, "k": n, "dtype": dtype, "semiring": "plus_times"}
    setting = f"{dtype}, {plural(threads, 'thread')}"
    arguments = {"problem": problem.to_json(), "family": FAMILY, "seed": 1}
    return Case({**axes, "setting": setting}, contenders, arguments)


# What a title calls the recursions.
WORDS = {
    "1 level": "one Strassen level",
    "1 level, classic": "one classic Strassen level",
    "2 levels": "two Strassen levels",
    "3 levels": "three Strassen levels",
}

EXPERIMENT = Experiment(
    name="strassen",
    question="From which size on do seven products instead of eight pay?",
    cases=cases,
    figures=(
        Figure(
            "strassen",
            "lines",
            "Strassen's algorithm against its base",
            {
                "where": {"dtype": "float64"},
                "x": "n",
                "value": "time_ratio",
                "limits": (0.9, 1.3),  # whether it pays is seen around 1
                "ends": True,
                "panels": "setting",
                "words": WORDS,
                "finding": "pays",
            },
            prominence=55,
        ),
        Figure(
            "strassen_errors",
            "lines",
            "Errors of Strassen's algorithm, 200 elements against exact sums",
            {
                "x": "n",
                "value": "greatest_error",
                "y_scale": "log",
                "panels": "setting",
                "where": {"threads": 1},  # more threads compute the same sums
                "finding": "error",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=4), Budget(rounds=3, seconds=4, processes=3)),
    order=90,
)
