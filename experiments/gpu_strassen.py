"""Strassen's algorithm on a GPU: time over that of its base alone and errors, by size, level, form, base and dtype.

A lecture says that it is probably not worth it on a GPU, for its recursion and complex control flow. Here the host
unrolls the recursion, so the question is one of memory: sums of quarters move 27/4 n^2 elements a level, and a level
saves an eighth of 2 n^3 operations. So it should pay from n = 27 s R / W on, with s bytes of an element, R operations
and W bytes in a second.
"""

from __future__ import annotations

from experiments._parts.gpu import DEVICE, ERROR_TASK, SUBJECT, VENDOR, kind_of_size, or_absent
from harness.analysis.rates import plural
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender
from harness.machine import Machine
from harness.problem import Problem

BACKEND = "gpu-strassen"
BASES = (VENDOR, SUBJECT)
SIZES = {
    "smoke": (128,),
    "quick": (2048, 4096, 4097, 8192),
    "full": (1024, 1536, 2048, 2049, 3072, 4096, 4097, 6144, 8192, 8193, 12_288, 16_384),
}
DTYPES = {"smoke": ("float32",), "quick": ("float32", "float64"), "full": ("float32", "float64")}
LEVELS = (1, 2)
FAMILY = "normal"


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a square product for each base, dtype and size; contenders are the base alone and numbers of levels."""
    all_cases = [_case(n, dtype, base) for base in BASES for dtype in DTYPES[preset] for n in SIZES[preset]]
    return or_absent(all_cases, machine, base=SUBJECT, kind=kind_of_size(64))


def _case(n: int, dtype: str, base: str) -> Case:
    def recursive(levels: int, **options: str) -> Contender:
        words = [plural(levels, "level"), *options.values()]
        parameters: dict[str, int | str] = {"base": base, "crossover": -(-n // 2**levels), **options}
        return backend_contender(BACKEND, label=", ".join(words), task=ERROR_TASK, **parameters)

    contenders = (
        backend_contender(base, task=ERROR_TASK),
        *(recursive(levels) for levels in LEVELS),
        recursive(1, form="classic"),
    )
    axes = {"m": n, "n": n, "k": n, "semiring": "plus_times", "dtype": dtype, "base": base, "kind": kind_of_size(n)}
    problem = Problem(n, n, n, dtype=dtype).to_json()
    return Case({**axes, **DEVICE}, contenders, {"problem": problem, "family": FAMILY, "seed": 1})


OPTIONS = {"x": "n", "where": {"base": VENDOR}, "panels": ["base", "dtype"], "marker": "kind"}

EXPERIMENT = Experiment(
    name="gpu_strassen",
    question="Does Strassen's algorithm pay on a GPU, from which size on, and what does it cost in accuracy?",
    cases=cases,
    figures=(
        Figure(
            "gpu_strassen",
            "lines",
            "Strassen's algorithm on a GPU against its base",
            {**OPTIONS, "value": "time_ratio", "y_scale": "log", "finding": "time", "pick": "least"},
        ),
        Figure(
            "gpu_strassen_errors",
            "lines",
            "Errors of Strassen's algorithm on a GPU, 200 elements against exact sums",
            {**OPTIONS, "value": "greatest_error", "y_scale": "log", "finding": "error"},
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=2), Budget(rounds=15, seconds=10, precision=0.01)),
    order=67,
)
