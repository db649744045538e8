"""Small products: prepared once and run, which times the kernel, and as whole calls, which includes overhead."""

from __future__ import annotations

from experiments._parts.call_task import CALL, CALL_OF_LIBRARY, NEW_OF_LIBRARY, NEW_RESULT, ON_ONE_THREAD, contender
from experiments._parts.peers import SUBJECT, against_peers, thread_counts
from harness.experiment import Budget, Case, Experiment, Figure, product_case
from harness.machine import Machine
from harness.problem import Problem

SIZES = {"smoke": (16,), "quick": (16, 31, 64, 128), "full": (4, 8, 16, 24, 31, 32, 48, 64, 96, 127, 128)}
DTYPES = {"smoke": ("float64",), "quick": ("float64",), "full": ("float64", "float32")}
COMMON = (CALL, ON_ONE_THREAD, CALL_OF_LIBRARY)
CALLS = {"smoke": COMMON, "quick": COMMON, "full": (*COMMON, NEW_RESULT, NEW_OF_LIBRARY)}
PREPARED, WHOLE = "prepared once", "whole call"


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return, for each dtype and size, the product by every library and the whole call of user code."""
    # A call with defaults may use every core; at these sizes neither contender does.
    threads = max(thread_counts(machine).values())
    calls = [contender(name, threads) for name in CALLS[preset]]
    all_cases = []
    for dtype in DTYPES[preset]:
        for n in SIZES[preset]:
            problem = Problem(n, n, n, dtype=dtype)
            all_cases.append(product_case(problem, against_peers(), role="product", form=PREPARED))
            all_cases.append(product_case(problem, calls, role="product", form=WHOLE))
    return all_cases


EXPERIMENT = Experiment(
    name="small_products",
    question="How fast are small products, and what does a call cost around them?",
    cases=cases,
    figures=(
        Figure(
            "small_products",
            "lines",
            f"Prepared once: {SUBJECT} over the fastest library",
            {
                "x": "n",
                "panels": "problem",
                "value": "over_fastest",
                "subject": SUBJECT,
                "where": {"form": PREPARED},
                "finding": "speed",
                "over": "library",
            },
        ),
        Figure(
            "small_products_calls",
            "lines",
            "Whole calls, checks and all",
            {
                "x": "n",
                "panels": "problem",
                "value": "time",
                "y_scale": "log",
                "where": {"form": WHOLE},
                "subject": CALL,
                "finding": "speed",
                "over": "library",
            },
            prominence=80,
        ),
    ),
    budget=Budget.presets(
        Budget(rounds=5, seconds=0.7, sample_ms=1),
        Budget(rounds=8, seconds=2, sample_ms=1, processes=5, precision=0.01),
    ),
    order=16,
)
