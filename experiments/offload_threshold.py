"""The size from which a GPU is faster despite copies: the best CPU backend against products whose copies are timed."""

from __future__ import annotations

import math

from experiments._parts.gpu import SUBJECT, TRANSFER_TASK, best_of_cpu, gpu_case, or_absent
from harness.analysis import offload, rates
from harness.analysis.findings.sentences import PAYS, Finding, Value
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json
from harness.machine import Machine
from harness.stats.statistics import exact
from harness.store.store import Cell

SIZES = {
    "smoke": (64,),
    "quick": (64, 128, 256, 512, 1024, 2048),
    "full": (32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048),
}
KINDS = {"smoke": (("plus_times", "float32"),), "quick": (("plus_times", "float32"), ("min_plus", "float32"))}


COPIED = [
    Contender(f"{SUBJECT}, copies {copies}", {"backend": SUBJECT, "copies": copies}, task=TRANSFER_TASK)
    for copies in ("always", "once")
]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each kind and size."""
    all_cases = [
        gpu_case(n, semiring, dtype, [*best_of_cpu(semiring, machine), *COPIED])
        for semiring, dtype in KINDS.get(preset, KINDS["quick"])
        for n in SIZES[preset]
    ]
    return or_absent(all_cases, machine)


def overtakes(cells: list[Cell], options: Json) -> Finding | None:
    """Return from which size on the GPU is surely faster than the CPU, copies included."""
    found = [
        (
            threshold.contender.replace(", ", " with ", 1),
            Value(
                exact(threshold.up_to or math.inf),
                place=threshold.problem,
                words=f"from n={threshold.up_to} on" if threshold.up_to else f"nowhere up to n={threshold.above}",
            ),
        )
        for threshold in offload.thresholds(rates.contenders(cells))
    ]
    if not found:
        return None
    (who, first), *rest = found
    others = {name: [value for _, value in own] for name, own in rates.group(rest, lambda entry: entry[0]).items()}
    return Finding(who, PAYS, [first], "the CPU", others=others)


EXPERIMENT = Experiment(
    name="offload_threshold",
    question="From which size on is a GPU worth the copies between host and GPU?",
    cases=cases,
    figures=(
        Figure(
            "offload_threshold",
            "lines",
            "With copies between host and GPU in the time",
            {"x": "n", "panels": "problem", "y_scale": "log", "finding": overtakes},
            prominence=76,
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=8, precision=0.01)),
    order=70,
)
