"""Whole products by cpu-simd as a share of the register-only peak, for every semiring and dtype.

The loop that measures the peak is timed alternately with the product, so that other load slows both.
"""

from __future__ import annotations

from experiments._parts.peers import SUBJECT, defined
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

PEAK = Contender("peak", task="backends.cpu._ceilings:peak_of")
SIZES = {"smoke": (65,), "quick": (257, 1024), "full": (257, 1024)}
PAIRS = {
    "smoke": [("plus_times", "float64")],
    "quick": [(name, dtype) for name in ("plus_times", "min_plus") for dtype in ("float64", "float32")],
    "full": defined(("float64", "float32", "int64", "int32", "int16", "int8")),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a square product of each semiring, dtype and size, with its peak."""
    contenders = [backend_contender(SUBJECT), PEAK]
    return [
        product_case(Problem(n, n, n, name, dtype), contenders, role="product")
        for name, dtype in PAIRS[preset]
        for n in SIZES[preset]
    ]


EXPERIMENT = Experiment(
    name="percent_of_peak",
    question="How much of the measured peak does cpu-simd reach, over every semiring and dtype?",
    cases=cases,
    figures=(
        Figure(
            "percent_of_peak",
            "strip",
            f"{SUBJECT} in percent of the measured peak, one thread",
            {
                "where": {"dtype": ["float64", "float32", "int32", "bool"]},
                "rows": "problem",
                "colours": "dtype",
                "markers": "n",
                "value": "of_peak",
                "subject": SUBJECT,
                "finding": "of_peak",
            },
            prominence=90,
        ),
    ),
    budget=Budget.presets(Budget(rounds=6, seconds=1.5), Budget(rounds=10, seconds=2, processes=3)),
    order=12,
)
