"""Every size around powers of two on a GPU: the vendor's library has dips at odd ones."""

from __future__ import annotations

from collections.abc import Iterator

from experiments._gpu import SUBJECT, VENDOR, gpu_case, or_absent
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender
from harness.machine import Machine

# How far around each size, with step 1.
AROUND = {
    "smoke": {256: 1},
    "quick": {1024: 4, 2048: 4, 4096: 4, 8192: 1},
    "full": {1024: 64, 2048: 64, 4096: 64, 8192: 4},
}
KINDS = {"smoke": ("float32",), "quick": ("float32", "float64"), "full": ("float32", "float64")}
CONTENDERS = {"float32": (SUBJECT, "gpu-tensor-core", VENDOR), "float64": ("gpu-tensor-core", VENDOR)}


def sweeps(preset: str) -> Iterator[tuple[str, str, int]]:
    """Yield what each sweep is called, its dtype, and a size."""
    for dtype in KINDS[preset]:
        for center, reach in AROUND[preset].items():
            for n in range(center - reach, center + reach + 1):
                yield f"{dtype}, around {center}", dtype, n


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each size of each sweep."""
    found = [
        gpu_case(n, "plus_times", dtype, map(backend_contender, CONTENDERS[dtype]), sweep=sweep)
        for sweep, dtype, n in sweeps(preset)
    ]
    return or_absent(found, machine, sweep="no GPU")


EXPERIMENT = Experiment(
    name="gpu_size_sweep",
    question="Which sizes are slow on a GPU, and does the vendor's library have dips where other kernels have none?",
    cases=cases,
    figures=(
        Figure("gpu_size_sweep", "dense", "Rate at every size, on the GPU", {"panels": "sweep", "x": "n"}),
        Figure("gpu_size_dips", "dips", "The worst size of each sweep, on the GPU", {"rows": "sweep", "x": "n"}),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1),
        "quick": Budget(rounds=3, seconds=0.5, sample_ms=2),
        "full": Budget(rounds=15, seconds=2, precision=0.01),
    },
    order=62,
)
