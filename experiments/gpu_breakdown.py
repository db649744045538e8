"""A product on a GPU from arrays of the host, taken apart: allocate, copy there, compute, copy back, free.

Source of the stages, and of the shapes: course work on min-plus and ordinary products on GPUs.
"""

from __future__ import annotations

from experiments._parts.breakdown_task import MEMORIES
from experiments._parts.gpu import DEVICE, SUBJECT, VENDOR, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine
from harness.problem import Problem

TASK = "experiments._parts.breakdown_task:product"
# m, n, k, the semiring and who computes; over float64, as in the courses.
SQUARE = ((4096, 4096, 4096), "plus_times", VENDOR)
WIDE = ((8192, 2048, 8192), "min_plus", SUBJECT)
TALL = ((36864, 18432, 4608), "plus_times", VENDOR)
PRODUCTS = {"smoke": (((128, 96, 64), "plus_times", SUBJECT),), "quick": (SQUARE, WIDE), "full": (SQUARE, WIDE, TALL)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each product; its contenders differ by the memory of the arrays."""
    all_cases = []
    for sizes, semiring, backend in PRODUCTS[preset]:
        problem = Problem(*sizes, semiring)
        contenders = tuple(Contender(memory, {"backend": backend, "memory": memory}, task=TASK) for memory in MEMORIES)
        m, n, k = sizes
        axes = {"m": m, "n": n, "k": k, "dtype": "float64", "semiring": semiring, "backend": backend, **DEVICE}
        all_cases.append(Case(axes, contenders, {"problem": problem.to_json(), "seed": 1}))
    return or_absent(all_cases, machine)


EXPERIMENT = Experiment(
    name="gpu_breakdown",
    question="Where does the time of a product on a GPU go whose arrays are on the host, in the first call and later?",
    cases=cases,
    figures=(
        Figure(
            "gpu_breakdown",
            "stages",
            "Where a call from arrays of the host spends its time",
            {
                "finding": "stages",
                "stages": ("host to device", "device to host"),
                "what": "copying",
                "x_label": "ms a call",
                "note": "Every stage is waited for. Load: the library, kernels, which may be in the cache of compiled "
                "ones, and their plan; cuBLAS starts when it first computes. Rest: the call itself.",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=20, precision=0.02)),
    order=68,
)
