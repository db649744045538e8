"""The loss of a product whose operands are in no cache, as in a program that uses other data between products.

On a GPU the cache is L2: on an H200, operands and result fit up to about n = 1500 in float64.
"""

from __future__ import annotations

from experiments._parts.gpu import VENDOR, gpu_case
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

CONTENDERS = [backend_contender(f"cpu-{name}") for name in ("numpy", "mkl", "simd")]
SIZES = {"smoke": (32,), "quick": (32, 128, 512), "full": (8, 16, 32, 64, 128, 256, 512, 1024)}
ON_GPU = [backend_contender(name) for name in ("gpu-tensor-core", VENDOR)]  # gemm takes the first
GPU_SIZES = {"smoke": (256,), "quick": (512, 1024, 2048, 4096), "full": (256, 512, 1024, 2048, 4096, 8192)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a square product for each size in the hot series, then in the cold one."""
    hot = [product_case(Problem(n, n, n), CONTENDERS) for n in SIZES[preset]]
    if machine.gpu:
        hot += [gpu_case(n, "plus_times", "float64", ON_GPU) for n in GPU_SIZES[preset]]
    return [*hot, *(case.cold() for case in hot)]


EXPERIMENT = Experiment(
    name="cold_caches",
    question="What does a product lose if its operands are in main memory and not in the caches?",
    cases=cases,
    figures=(
        Figure(
            "cold_caches",
            "lines",
            "Rate with hot and with cold caches",
            {"x": "n", "panels": ["problem", "device"], "subject": "cpu-simd", "finding": "cold"},
            prominence=66,
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=4),
        "full": Budget(rounds=10, seconds=2, processes=3, precision=0.02),
    },
    order=26,
)
