"""Whole products on a GPU as a share of its register-only peak, by semiring and dtype (16 bits: gpu-paired)."""

from __future__ import annotations

import numpy as np

from experiments._parts.gpu import SUBJECT, gpu_case, or_absent, peak_case
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender
from harness.machine import Machine
from harness.semiring import SEMIRINGS

SIZE = {"smoke": 256, "quick": 4096, "full": 4096}
NAMES = {
    "smoke": ("plus_times",),
    "quick": ("plus_times", "min_plus", "max_plus", "max_min", "plus_min", "min_times"),
}
DTYPES = {
    "smoke": ("float32",),
    "quick": ("float32", "float64", "float16", "int32", "int16"),
    "full": ("float32", "float64", "float16", "int32", "int16", "int64"),
}
ADDED_AND_COMPARED = ("min_plus", "max_plus")  # these have one instruction for two int16
# What a reader has to know of products at their peak, and far below it.
HOW_PEAKS = (
    "A peak may be up to 5 % too low. The loop that measures the peak has all in registers, but the compiler orders "
    "its instructions, and a minimum over float64 is several: whole products order them better."
)
PAIRED = "gpu-paired"  # computes 16-bit elements if an instruction works on two


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return, for each semiring and dtype, its ceiling and a product."""
    all_cases = []
    for name in NAMES.get(preset, NAMES["quick"]):
        for dtype in DTYPES[preset]:
            if SEMIRINGS[name].unsupported(np.dtype(dtype)) or (dtype == "int16" and name not in ADDED_AND_COMPARED):
                continue
            subject = PAIRED if np.dtype(dtype).itemsize == 2 else SUBJECT
            all_cases.append(peak_case(name, dtype))
            all_cases.append(gpu_case(SIZE[preset], name, dtype, [backend_contender(subject)], role="product"))
    return or_absent(all_cases, machine, role="product")


EXPERIMENT = Experiment(
    name="gpu_semirings",
    question="How much of what the registers of a GPU can do is left in whole products, over every semiring?",
    cases=cases,
    figures=(
        Figure(
            "gpu_semirings",
            "heatmap",
            f"{SUBJECT}, over 16 bits {PAIRED}, in percent of the measured ceiling",
            {
                "rows": "semiring",
                "columns": "dtype",
                "value": "of_peak",
                "x_label": "dtype",
                "subject": SUBJECT,
                "finding": "of_peak",
                "note": HOW_PEAKS,
            },
            prominence=83,
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=10, processes=3, precision=0.01)),
    order=68,
)
