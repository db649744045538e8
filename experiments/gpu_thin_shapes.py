"""Products on a GPU with few tiles of C, where blocks share the steps of k, or with few steps of k.

A factorisation updates what lies beside a panel of 64 columns by a product with k = 64, of odd sizes if the matrix has
one: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), table 1, has n = 1001 to 10001.
"""

from __future__ import annotations

from experiments._parts.gpu import DEVICE, SUBJECT, VENDOR, or_absent
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

PANEL = "ragged panel"
OF_DOUBLE = (PANEL,)  # shapes that are measured over float64 too
# Name of each shape, and m, n, k.
SHAPES = {
    "smoke": (("long k", (64, 64, 1024)),),
    "quick": (
        ("long k", (256, 256, 65536)),
        ("small square", (512, 512, 512)),
        ("few rows", (128, 8192, 8192)),
        ("tall-skinny", (256_000, 4, 100)),
        ("tall-skinny", (100_000, 20, 100)),
        ("tall-skinny", (65536, 64, 64)),
        ("small k", (4096, 4096, 64)),
        *((PANEL, (n, n, 64)) for n in (1001, 4001, 8001)),
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
        ("tall-skinny", (256_000, 4, 100)),
        ("tall-skinny", (100_000, 20, 100)),
        ("tall-skinny", (40_000, 20, 301)),
        ("tall-skinny", (65536, 16, 512)),
        ("tall-skinny", (65536, 64, 64)),
        ("small k", (4096, 4096, 16)),
        ("small k", (4096, 4096, 64)),
        *((PANEL, (n, n, 64)) for n in range(1001, 10_002, 1000)),
        *((PANEL, (n, n - 64, 64)) for n in (1001, 4001, 8001)),
    ),
}
DTYPES = ("float32", "float64")


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product of each shape."""
    contenders = [
        backend_contender(VENDOR),
        backend_contender(SUBJECT),
        backend_contender(SUBJECT, label=f"{SUBJECT}, k not shared", shares=1),
        backend_contender("gpu-tensor-core"),
    ]
    all_cases = [
        product_case(
            Problem(*sizes, "plus_times", dtype), contenders, shape=shape, size=" x ".join(map(str, sizes)), **DEVICE
        )
        for dtype in DTYPES
        for shape, sizes in SHAPES[preset]
        if dtype == "float32" or shape in OF_DOUBLE
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
            f"Over {VENDOR} on thin and small shapes",
            {
                "rows": ["shape", "size", "dtype"],
                "columns": "contender",
                "x_label": "backend",
                "subject": SUBJECT,
                "place": ["size", "dtype"],
                "finding": "subject_over_reference",
            },
            prominence=77,
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1),
        "quick": Budget(rounds=3, seconds=0.5, sample_ms=2),
        "full": Budget(rounds=15, seconds=4, processes=3, precision=0.01),
    },
    order=65,
)
