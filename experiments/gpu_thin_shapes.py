"""Products on a GPU with few tiles of C: unless blocks share the steps of k, most of the GPU is idle."""

from __future__ import annotations

from experiments._parts.gpu import DEVICE, SUBJECT, VENDOR, or_absent
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

# Name of each shape, and m, n, k.
SHAPES = {
    "smoke": (("long k", (64, 64, 1024)),),
    "quick": (
        ("long k", (256, 256, 65536)),
        ("small square", (512, 512, 512)),
        ("few rows", (128, 8192, 8192)),
        ("tall-skinny", (65536, 64, 64)),
        ("small k", (4096, 4096, 64)),
    ),
    "full": (
        ("long k", (64, 64, 65536)),
        ("long k", (65, 65, 4096)),
        ("long k", (256, 256, 65536)),
        ("small square", (256, 256, 256)),
        ("small square", (512, 512, 512)),
        ("small square", (768, 768, 768)),
        ("few rows", (16, 8192, 8192)),
        ("few rows", (128, 8192, 8192)),
        ("tall-skinny", (65536, 16, 512)),
        ("tall-skinny", (65536, 64, 64)),
        ("small k", (4096, 4096, 16)),
        ("small k", (4096, 4096, 64)),
    ),
}
DTYPE = "float32"


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product of each shape."""
    contenders = [
        backend_contender(VENDOR),
        backend_contender(SUBJECT),
        backend_contender(SUBJECT, label=f"{SUBJECT}, k not shared", shares=1),
    ]
    all_cases = [
        product_case(
            Problem(*sizes, "plus_times", DTYPE), contenders, shape=shape, size=" x ".join(map(str, sizes)), **DEVICE
        )
        for shape, sizes in SHAPES[preset]
    ]
    return or_absent(all_cases, machine, shape="small square", size="64 x 64 x 64")


EXPERIMENT = Experiment(
    name="gpu_thin_shapes",
    question="How fast are products on a GPU that have few tiles, or few steps of k?",
    cases=cases,
    figures=(
        Figure(
            "gpu_thin_shapes",
            "heatmap",
            f"Over {VENDOR} on thin and small shapes, float32",
            {"rows": ["shape", "size"], "columns": "contender", "x_label": "backend", "finding": "over_reference"},
            prominence=77,
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1),
        "quick": Budget(rounds=3, seconds=0.5, sample_ms=2),
        "full": Budget(rounds=15, seconds=4, processes=2, precision=0.01),
    },
    order=65,
)
