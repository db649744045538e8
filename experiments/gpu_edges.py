"""Partial tiles at edges, treated in four ways: check every load, redirect once, pad first, split in two.

Operands are on the GPU, or in host memory, from where every call copies them.

Source of redirecting, and of its comparison with conditions and padding: Nath, Tomov, Dongarra, "Accelerating GPU
Kernels for Dense Linear Algebra" (2010), sections 3 and 5.
"""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT, TRANSFER_TASK, gpu_case, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender
from harness.machine import Machine

EDGES = ("redirected", "conditional", "padded", "big-small")
# By the memory that holds A, B and C.
STRATEGIES = {
    "on the GPU": [backend_contender(SUBJECT, label=edge, edge=edge) for edge in EDGES],
    "on the host": [
        Contender(edge, {"backend": SUBJECT, "copies": "always", "parameters": {"edge": edge}}, task=TRANSFER_TASK)
        for edge in EDGES
    ],
}
FEW = (1000, 1023, 1024, 1025, 1100, 2047, 2048, 2049, 4090, 4095, 4096, 4097, 4100, 4110)
# Every size of some ranges, to find a strategy that is slow at a single size.
DRAWN = ("1024", "4096")
NEAR = {"1024": range(1000, 1101), "2048": range(2040, 2057), "4096": range(4090, 4111)}
EVERY = [n for sizes in NEAR.values() for n in sizes]
SIZES = {
    "plus_times": {"smoke": (255,), "quick": FEW, "full": (*EVERY, 8191, 8192, 8193)},
    "min_plus": {"smoke": (255,), "quick": EVERY, "full": (*EVERY, 8191, 8192, 8193)},
}
# The copies take longer than the product, so a few sizes suffice.
SIZES_ON_HOST = {"smoke": (255,), "quick": (1024, 1025, 4096, 4097), "full": FEW}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each semiring, memory and size."""
    all_cases = [
        gpu_case(n, semiring, "float32", STRATEGIES[memory], data=memory)
        for semiring, on_gpu in SIZES.items()
        for memory, sizes in zip(STRATEGIES, (on_gpu, SIZES_ON_HOST), strict=True)
        for n in sizes[preset]
    ]
    return or_absent(all_cases, machine, data="on the GPU")


EXPERIMENT = Experiment(
    name="gpu_edges",
    question="How are tiles that stick out of a matrix best dealt with on a GPU?",
    cases=cases,
    figures=(
        *(
            Figure(
                f"gpu_edges_near_{size}",
                "dense",
                f"{SUBJECT}: edges around {size}",
                {
                    "x": "n",
                    "panels": "problem",
                    "where": {"n": list(sizes), "data": "on the GPU"},
                    "finding": "fastest",
                },
            )
            for size, sizes in NEAR.items()
            if size in DRAWN
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1),
        "quick": Budget(rounds=3, seconds=1, sample_ms=2),
        "full": Budget(rounds=15, seconds=4, precision=0.01),
    },
    order=64,
)
