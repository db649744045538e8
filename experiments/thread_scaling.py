"""Strong and weak scaling over threads, by the loop that threads share."""

from __future__ import annotations

from typing import Any

from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine
from harness.problem import Problem

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "cpu-transposed": ("cpu-transposed", {}),
    "cpu-packed, loop ic": ("cpu-packed", {"parallel_loop": "ic"}),
    "cpu-packed, loop jr": ("cpu-packed", {"parallel_loop": "jr"}),
    "cpu-tiled": ("cpu-tiled", {}),
    "cpu-simd": ("cpu-simd", {}),
    "cpu-numpy": ("cpu-numpy", {}),
}
SIZE = {"smoke": 192, "quick": 1024, "full": 2048}
MODES = {"smoke": ("strong",), "quick": ("strong", "weak"), "full": ("strong", "weak")}
SIZE_STEP = 8


def counts(cores: int) -> list[int]:
    """Return the numbers of threads: powers of two and the number of cores."""
    return sorted({cores, *(2**i for i in range(cores.bit_length()))} & set(range(1, cores + 1)))


def problem(mode: str, n: int, threads: int) -> Problem:
    """Return the product that threads share: the same for all if strong, `threads` times the pairs if weak."""
    side = n if mode == "strong" else round(n * threads ** (1 / 3) / SIZE_STEP) * SIZE_STEP
    return Problem(side, side, side)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each mode and method; its contenders are numbers of threads, so that speed-ups are paired."""
    n = SIZE[preset]
    return [
        Case(
            {"mode": mode, "method": method, "n": n, "semiring": "plus_times", "dtype": "float64"},
            tuple(
                Contender(
                    f"{method}, {threads} thread{'s' * (threads > 1)}",
                    {"backend": backend, "parameters": parameters, "problem": problem(mode, n, threads).to_json()},
                    threads,
                )
                for threads in counts(machine.cores)
            ),
            {"seed": 1},
        )
        for mode in MODES[preset]
        for method, (backend, parameters) in METHODS.items()
        if preset != "smoke" or method in ("cpu-packed, loop ic", "cpu-numpy")
    ]


EXPERIMENT = Experiment(
    name="thread_scaling",
    question="How much faster do more threads make it, and which loop should they share?",
    cases=cases,
    figures=(
        Figure(
            "strong_scaling",
            "scaling",
            "Strong scaling: the same product",
            {"where": {"mode": "strong"}, "finding": "threads"},
            prominence=58,
        ),
        Figure(
            "weak_scaling",
            "scaling",
            "Weak scaling: the same work for each thread",
            {"where": {"mode": "weak"}, "finding": "threads"},
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=5, seconds=3),
        "full": Budget(rounds=15, seconds=120, processes=2, precision=0.01),
    },
    order=40,
)
