"""Hessenberg reduction, bound by products with a vector: windows of one matrix, at odd addresses; figure 11 of a paper.

Source: Nath, Tomov and Dongarra, "Accelerating GPU kernels for dense linear algebra" (VECPAR 2010), figure 11.
"""

from __future__ import annotations

from experiments._parts.algorithms import algorithm_case, library, solver
from harness.experiment import Budget, Case, Experiment, Figure, needs_many_cores
from harness.machine import Machine

SIZES = {"smoke": (96,), "quick": (96, 192, 288), "full": (256, 512, 1024, 2048, 3072)}
GPU_SIZES = {"smoke": (96,), "quick": (1024, 2048), "full": (1024, 2048, 4096, 6144, 8192)}
DTYPES = {"smoke": ("float64",), "quick": ("float64",), "full": ("float64", "float32")}
# Backends of the products with a vector; beside those on a GPU, that of the other products.
BACKENDS = ("cpu-numpy", "cpu-simd")
GPU_VECTORS, GPU_BACKEND = ("gpu-mv-cublas", "gpu-mv-tuned", "gpu-mv-grid", "gpu-mv-thread"), "gpu-cublas"


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each size and place."""
    found = []
    for dtype in DTYPES[preset]:
        on_cpu = [solver(backend, threads=machine.cores) for backend in BACKENDS]
        on_gpu = [solver(GPU_BACKEND, label=vectors, vector_backend=vectors) for vectors in GPU_VECTORS]
        found += [
            algorithm_case("hessenberg", n, dtype, [*on_cpu, library(threads=machine.cores)]) for n in SIZES[preset]
        ]
        if machine.gpu:
            found += [algorithm_case("hessenberg", n, dtype, on_gpu, device="gpu") for n in GPU_SIZES[preset]]
    return found


def _figure(name: str, title: str, value: str, finding: str) -> Figure:
    options = {"x": "n", "x_label": "n (log scale)", "value": value, "panels": "setting", "finding": finding}
    options |= {"peak": False, "algorithm": "the reduction"}
    return Figure(name, "lines", title, options)


EXPERIMENT = Experiment(
    name="hessenberg",
    question="What does a faster product with a vector buy the Hessenberg reduction?",
    cases=cases,
    figures=(
        _figure("hessenberg", "Hessenberg reduction by its products with vectors", "rate", "speed"),
        _figure("hessenberg_shares", "Hessenberg reduction", "share", "in_products"),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=10, seconds=120, precision=0.02)),
    order=94,
    is_asked=needs_many_cores,
)
