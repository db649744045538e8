"""Small products on a GPU: up to some size the launch on the host takes longer than the computation."""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT, VENDOR, gpu_case, or_absent
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender
from harness.machine import Machine

SIZES = {
    "smoke": (64,),
    "quick": (16, 32, 64, 128, 256, 384, 512, 768, 1024),
    "full": (16, 24, 32, 48, 64, 96, 127, 128, 192, 256, 257, 384, 512, 640, 768, 896, 1024),
}
CONTENDERS = {"plus_times": (SUBJECT, VENDOR), "min_plus": (SUBJECT,)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each semiring and size."""
    all_cases = [
        gpu_case(n, semiring, "float32", map(backend_contender, names))
        for semiring, names in CONTENDERS.items()
        for n in SIZES[preset]
    ]
    return or_absent(all_cases, machine)


# Many calls in each sample, so that the host does nothing but launch.
EXPERIMENT = Experiment(
    name="gpu_small_products",
    question="Up to which size does a product on a GPU take less time than its launch?",
    cases=cases,
    figures=(
        Figure(
            "gpu_small_products",
            "lines",
            "Small products on the GPU, and what it takes to launch them",
            {
                "x": "n",
                "panels": "problem",
                "value": "time",
                "y_scale": "log",
                "launches": True,
                "subject": SUBJECT,
                "finding": "launches",
            },
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1, sample_ms=1),
        "quick": Budget(rounds=10, seconds=1, sample_ms=1),
        "full": Budget(rounds=20, seconds=4, sample_ms=1, processes=3, precision=0.01),
    },
    order=66,
)
