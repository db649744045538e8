"""QR by blocks at sizes that fit no tile, by the backend of its products, against the library's own: table 1.

Panels are factored by the array library, on the GPU by cuSOLVER. The share of time in products says what bounds the
whole.

Source: Nath, Tomov and Dongarra, "Accelerating GPU kernels for dense linear algebra" (VECPAR 2010), table 1.
"""

from __future__ import annotations

from experiments._parts.algorithms import algorithm_case, library, solver
from harness.experiment import Budget, Case, Experiment, Figure, needs_many_cores
from harness.machine import Machine

# Sizes that fit no tile, and multiples of 64 near them as control.
ODD, CONTROL = "sizes that fit no tile", "multiples of 64"
SIZES = {
    "smoke": {ODD: (129,), CONTROL: (128,)},
    "quick": {ODD: (257, 513), CONTROL: (256, 512)},
    "full": {ODD: (1001, 2001, 3001, 4001), CONTROL: (1024, 2048, 3072, 4096)},
}
GPU_SIZES = {
    "smoke": SIZES["smoke"],
    "quick": {ODD: (1001, 2001, 4001), CONTROL: (1024, 2048, 4096)},
    "full": {
        ODD: (1001, 2001, 3001, 4001, 5001, 6001, 8001, 10001),
        CONTROL: (1024, 2048, 3072, 4096, 5120, 6144, 8192, 10240),
    },
}
DTYPES = {"smoke": ("float32",), "quick": ("float32",), "full": ("float32", "float64")}
BACKENDS = {"": ("cpu-numpy", "cpu-simd"), "gpu": ("gpu-cublas", "gpu-tuned", "gpu-tensor-core")}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each size, dtype and place."""
    places = [("", SIZES[preset], machine.cores)] + ([("gpu", GPU_SIZES[preset], 1)] if machine.gpu else [])
    return [
        algorithm_case(
            "qr",
            n,
            dtype,
            [*(solver(backend, threads=threads) for backend in BACKENDS[device]), library(device, threads)],
            device=device,
            kind=kind,
        )
        for device, sizes, threads in places
        for dtype in DTYPES[preset]
        for kind, own in sizes.items()
        for n in own
    ]


def _figure(name: str, title: str, value: str, finding: str, device: str | None) -> Figure:
    """Return a figure of the sizes that fit no tile, which the question is about."""
    options = {
        "where": {"kind": ODD, "device": device},
        "x": "n",
        "x_label": "n (log scale)",
        "value": value,
        "panels": "setting",
        "peak": False,
        "finding": finding,
        "algorithm": "QR",
    }
    return Figure(name, "lines", title, options)


EXPERIMENT = Experiment(
    name="qr",
    question="What does a faster product buy the QR factorisation, at sizes that fit no tile?",
    cases=cases,
    figures=(
        _figure("qr", "QR by the backend of its products", "rate", "speed", None),
        _figure("qr_shares", "QR: the part of its time in products", "share", "in_products", None),
        _figure("qr_gpu", "QR on the GPU by the backend of its products", "rate", "speed", "gpu"),
        _figure("qr_shares_gpu", "QR on the GPU: the part of its time in products", "share", "in_products", "gpu"),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=10, seconds=50, precision=0.02)),
    order=93,
    is_asked=needs_many_cores,
)
