"""Every size around powers of two on a GPU: the vendor's library is slower at odd sizes."""

from __future__ import annotations

from collections.abc import Iterator

from experiments._parts.gpu import SUBJECT, VENDOR, gpu_case, or_absent
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender
from harness.machine import Machine

# The first and the last size of each sweep, with step 1, by name.
FEW = {
    "around 1024": (1020, 1028),
    "around 2048": (2044, 2052),
    "around 4096": (4092, 4100),
    "around 8192": (8191, 8193),
}
DENSE = {"around 4096": (4000, 4128)}
MANY = {"around 1024": (960, 1088), "around 2048": (1984, 2112), "around 8192": (8188, 8196), **DENSE}
SWEEPS: dict[str, dict[str, dict[str, tuple[int, int]]]] = {
    "smoke": {"float32": {"around 256": (255, 257)}},
    "quick": {"float32": FEW | DENSE, "float64": FEW},
    "full": {"float32": MANY, "float64": MANY},
}
WHOLE = 32  # a size that this divides is a whole tile: the rows of a warp
CONTENDERS = {"float32": (SUBJECT, "gpu-tensor-core", VENDOR), "float64": ("gpu-tensor-core", VENDOR)}


def sweeps(preset: str) -> Iterator[tuple[str, str, int]]:
    """Yield the name of each sweep, its dtype, and a size."""
    for dtype, ranges in SWEEPS[preset].items():
        for called, (first, last) in ranges.items():
            for n in range(first, last + 1):
                yield f"{dtype}, {called}", dtype, n


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each size of each sweep."""
    all_cases = [
        gpu_case(n, "plus_times", dtype, map(backend_contender, CONTENDERS[dtype]), sweep=sweep)
        for sweep, dtype, n in sweeps(preset)
    ]
    return or_absent(all_cases, machine, sweep="no GPU")


EXPERIMENT = Experiment(
    name="gpu_size_sweep",
    question="Which sizes are slow on a GPU, and does the vendor's library have dips where other kernels have none?",
    cases=cases,
    figures=(
        Figure(
            "gpu_size_sweep",
            "ragged",
            "Rate lost at every size around powers of two, on the GPU",
            {"sweeps": "sweep", "whole": WHOLE, "rows": "dtype", "subject": SUBJECT, "finding": "losses"},
            prominence=84,
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=0.5, sample_ms=2), Budget(rounds=15, seconds=2, precision=0.01)),
    order=62,
)
