"""Partial tiles at edges: check every load, redirect once, mirror, pad first, split in two.

Operands are on the GPU, or in host memory, from where every call copies them. Then they may also be padded on the host
before the copy, or by the copy, in transit.

Source of redirecting and mirroring, of their comparison with conditions and padding, and of padding in transit: Nath,
Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), sections 3 and 5; of padding on the host:
course work on matrix products on GPUs.
"""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT, TRANSFER_TASK, gpu_case, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender
from harness.machine import Machine

EDGES = ("redirected", "conditional", "mirrored", "padded", "big-small")
ON_GPU, ON_HOST = "on the GPU", "on the host"
PADDED_ELSEWHERE = ("on the host", "in transit")


def _from_host(label: str, **arguments: object) -> Contender:
    return Contender(label, {"backend": SUBJECT, "copies": "always", **arguments}, task=TRANSFER_TASK)


# By the memory that holds A, B and C.
STRATEGIES = {
    ON_GPU: [backend_contender(SUBJECT, label=edge, edge=edge) for edge in EDGES],
    ON_HOST: [
        *(_from_host(edge, parameters={"edge": edge}) for edge in EDGES),
        *(_from_host(f"padded {where}", padding=where) for where in PADDED_ELSEWHERE),
    ],
}
FEW = (1000, 1023, 1024, 1025, 1100, 2047, 2048, 2049, 4090, 4095, 4096, 4097, 4100, 4110)
# Every size of some ranges, to find a strategy that is slow at a single size.
DRAWN = ("1024", "4096")
NEAR = {"1024": range(1000, 1101), "2048": range(2040, 2057), "4096": range(4090, 4111)}
EVERY = [n for sizes in NEAR.values() for n in sizes]
ALL = (*EVERY, 8191, 8192, 8193)
SIZES = {
    ("plus_times", "float32"): {"smoke": (255,), "quick": FEW, "full": ALL},
    ("plus_times", "float64"): {"smoke": (255,), "quick": FEW, "full": ALL},
    ("min_plus", "float32"): {"smoke": (255,), "quick": EVERY, "full": ALL},
    ("min_plus", "float64"): {"smoke": (255,), "quick": FEW, "full": ALL},
}
# The copies take longer than the product, so a few sizes suffice.
SIZES_ON_HOST = {"smoke": (255,), "quick": (1024, 1025, 4096, 4097), "full": FEW}
# Sizes one row and one column past whole tiles, where the ways differ most.
RAGGED = [255, 1025, 4097]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each semiring, dtype, memory and size."""
    all_cases = [
        gpu_case(n, semiring, dtype, STRATEGIES[memory], data=memory)
        for (semiring, dtype), on_gpu in SIZES.items()
        for memory, sizes in zip(STRATEGIES, (on_gpu, SIZES_ON_HOST), strict=True)
        for n in sizes[preset]
    ]
    return or_absent(all_cases, machine, data=ON_GPU)


def _bars(name: str, title: str, memory: str) -> Figure:
    """Return a figure of the ways at ragged sizes, with the memory that each takes."""
    options = {
        "panels": ["semiring", "dtype", "n"],
        "where": {"n": RAGGED, "data": memory, "semiring": "plus_times"},
        "peak": False,
        "extra_bytes": True,
        "finding": "best",
    }
    return Figure(name, "bars", title, options)


EXPERIMENT = Experiment(
    name="gpu_edges",
    question="How are tiles that stick out of a matrix best dealt with on a GPU?",
    cases=cases,
    figures=(
        *(
            Figure(
                f"gpu_edges_near_{size}",
                "lines",
                f"{SUBJECT}: edges around {size}",
                {
                    "x": "n",
                    "panels": "problem",
                    "value": "speed_up",
                    "every": True,
                    "where": {"n": list(sizes), "data": ON_GPU},
                    "finding": "speed",
                },
            )
            for size, sizes in NEAR.items()
            if size in DRAWN
        ),
        _bars(
            "gpu_edges_bytes", f"{SUBJECT}: ways to treat edges, operands on the GPU, and the memory they take", ON_GPU
        ),
        _bars(
            "gpu_edges_on_host", f"{SUBJECT}: ways to treat edges, operands copied from the host by each call", ON_HOST
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=2, sample_ms=2), Budget(rounds=15, seconds=4, precision=0.01)),
    order=64,
)
