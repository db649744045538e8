"""Linear systems by factors of low precision and refinement: from which size on are they faster than float64 alone."""

from __future__ import annotations

from experiments._parts.algorithms import algorithm_case, library, solver
from experiments._parts.peers import installed
from harness.experiment import Budget, Case, Experiment, Figure
from harness.machine import Machine

SIZES = {"smoke": (128,), "quick": (256, 512, 1024), "full": (256, 512, 1024, 2048, 4096)}
GPU_SIZES = {"smoke": (128,), "quick": (1024, 2048), "full": (1024, 2048, 4096, 8192)}
FACTORS = ("float64", "float32", "bfloat16")


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each size; the system is well-conditioned, so that all factors do."""
    places = [("", SIZES[preset], machine.cores)] + ([("gpu", GPU_SIZES[preset], 1)] if machine.gpu else [])
    return [
        algorithm_case(
            "refine",
            n,
            "float64",
            [
                *(solver("auto", f"factors of {dtype}", threads, factor_dtype=dtype) for dtype in installed(FACTORS)),
                library(device, threads),
            ],
            device=device,
        )
        for device, sizes, threads in places
        for n in sizes
    ]


EXPERIMENT = Experiment(
    name="refine",
    question="From which size on are factors of low precision and refinement faster than a solve in float64?",
    cases=cases,
    figures=(
        Figure(
            "refine",
            "lines",
            "Refined linear systems: speed over factors of float64",
            {
                "x": "n",
                "x_label": "n (log scale)",
                "value": "speed_up",
                "y_scale": "log",
                "panels": "setting",
                "finding": "speed",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=5, seconds=8, processes=3, precision=0.02)),
    order=92,
)
