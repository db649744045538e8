"""A model of distributed products on thousands of ranks, from the local rate measured here and stated links.

Measured is what one rank computes: one process with all cores, and a GPU where there is one. All else is the model of
`harness.distributed.choice.model`; its error where `dist_scaling` has measured stands in a figure of its own.
"""

from __future__ import annotations

from experiments._parts.gpu import best_of_gpu
from experiments._parts.ranks import one_process
from harness.distributed.links import LINKS
from harness.experiment import Budget, Case, Experiment, Figure, product_case
from harness.machine import Machine
from harness.problem import Problem

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
                "finding": "projection",
            },
        ),
        Figure(
            "dist_model_error",
            "model_error",
            "Error of the model where it was measured",
            {"of": "dist_scaling", "finding": "model_error"},
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1),
        "quick": Budget(rounds=3, seconds=0.5),
        "full": Budget(rounds=15, seconds=10, precision=0.02),
    },
    order=46,
)
