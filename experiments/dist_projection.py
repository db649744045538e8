"""A model of distributed products on thousands of ranks, from the local rate measured here and stated links.

Measured is what one rank computes: one process with all cores, and a GPU where there is one. All else is the model of
`harness.distributed.choice.model`; its error where `dist_scaling` has measured stands in a figure of its own.
"""

from __future__ import annotations

from experiments._parts.gpu import best_of_gpu
from experiments._parts.ranks import one_process
from harness.analysis import ranks, rates
from harness.analysis.findings.sentences import PART, Finding, Measure, Value
from harness.analysis.ranks import projection
from harness.distributed.links import LINKS
from harness.experiment import Budget, Case, Experiment, Figure, Json, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell

SIZES = {"smoke": 256, "quick": 1024, "full": 4096}
GPU_SIZES = {"smoke": 256, "quick": 8192, "full": 16384}
SEMIRINGS = ("plus_times", "min_plus")
# The link between ranks that are machines, and between GPUs, and the side of the product that is projected.
STATED = {"cpu": ("network", 1 << 14), "gpu": ("network of GPUs", 1 << 17)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return the local products, of all cores and of a GPU."""
    n, gpu_n = SIZES[preset], GPU_SIZES[preset]
    found = [product_case(Problem(n, n, n, semiring), [one_process(machine.cores)]) for semiring in SEMIRINGS]
    on_gpu = best_of_gpu(machine)
    if on_gpu:
        problems = [Problem(gpu_n, gpu_n, gpu_n, semiring, "float32") for semiring in SEMIRINGS]
        found += [product_case(problem, on_gpu, device="gpu") for problem in problems]
    return found


IS_NEAR = Measure("is", "are", f"within {ranks.TOLERANCE:.0f} % of the measured time at {{}} of {{over}}")


def projected(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of their speed the most ranks keep by the model, in cubes and in rows."""
    local = rates.timed(cells)
    if not local:
        return None
    cell = local[-1]
    _, n, *constants = options["links"]["gpu" if rates.is_on_device(cell) else "cpu"]
    forms = {"3-D grid": projection.THREE, "1-D grid": projection.ONE}
    last = {name: projection.efficiencies(cell, form, n, *constants)[-1] for name, form in forms.items()}
    count, _ = last["3-D grid"]
    cube, rows = (Value(exact(share), place=f"{name}, n={n}") for name, (_, share) in last.items())
    return Finding(f"By a model, each of {count:,} ranks", PART, [cube], "its speed alone", others={"in rows": [rows]})


def near(cells: list[Cell], options: Json) -> Finding | None:
    """Return at how many points the model is near, and how near one measurement of a product is to another."""
    errors, unsteady = ranks.model_errors(cells), ranks.unsteadiness(cells)
    within = sum(abs(error) <= ranks.TOLERANCE for _, error in errors)
    note = "" if unsteady is None else f"One rank alone differs by up to {unsteady:.0f} % between cases"
    values = [Value(exact(within), words=str(within))]
    return Finding("The model", IS_NEAR, values, f"{len(errors)} points", note=note) if errors else None


EXPERIMENT = Experiment(
    name="dist_projection",
    question="What does the model expect of thousands of ranks, and how far off is it where it can be checked?",
    cases=cases,
    figures=(
        Figure(
            "dist_projection",
            "projected",
            "Speed of many ranks by a model, of as many times that of one",
            {
                "where": {"semiring": "plus_times"},
                "links": {kind: (name, n, *LINKS[name]) for kind, (name, n) in STATED.items()},
                "finding": projected,
            },
        ),
        Figure(
            "dist_model_error",
            "model_error",
            "Error of the model where it was measured",
            {"of": "dist_scaling", "finding": near},
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=0.5), Budget(rounds=15, seconds=10, precision=0.02)),
    order=46,
)
