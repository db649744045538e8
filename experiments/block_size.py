"""Rate against block size, beside the caches that the blocks are meant to stay in."""

from __future__ import annotations

from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

SIZE = {"smoke": 96, "quick": 512, "full": 1536}

# Each sweep: backend, the block sizes that take the value, and the values.
SWEEPS = {
    "tile": ("cpu-tiled", ("mc", "nc", "kc"), (8, 16, 32, 64, 128, 256, 512, 1024)),
    "kc": ("cpu-packed", ("kc",), (16, 32, 64, 128, 256, 512, 1024)),
    "mc": ("cpu-packed", ("mc",), (8, 16, 32, 64, 128, 256, 512, 1024)),
}

# Elements that must stay in cache for reuse, as a sum of products of block sizes.
WORKING_SETS = {
    "tile": (("mc", "kc"), ("kc", "nc"), ("mc", "nc")),
    "kc": (("mr", "kc"), ("kc", "nr")),
    "mc": (("mc", "kc"),),
}
TITLES = {
    "tile": "cpu-tiled: tiles of A, B and C",
    "kc": "cpu-packed: micro-panels of A and B, by kc",
    "mc": "cpu-packed: block of A, by mc",
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each sweep, its contenders the values; the largest value is the whole matrix or less."""
    n = SIZE[preset]
    all_cases = []
    for name, (backend, blocks, values) in SWEEPS.items():
        fitting = [value for value in values if value <= n]
        contenders = [
            backend_contender(backend, label=f"{backend} {name}={value}", **dict.fromkeys(blocks, value))
            for value in (fitting if preset != "smoke" else fitting[::2])
        ]
        all_cases.append(product_case(Problem(n, n, n), contenders, sweep=name))
    return all_cases


EXPERIMENT = Experiment(
    name="block_size",
    question="Which block sizes are fast, and do the caches explain it?",
    cases=cases,
    figures=(
        Figure(
            "block_size",
            "working_set",
            "Rate against the working set of the blocks",
            {"panels": "sweep", "working_sets": WORKING_SETS, "titles": TITLES, "finding": "best"},
            prominence=64,
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=4, seconds=5),
        "full": Budget(rounds=15, seconds=300, processes=2, precision=0.01),
    },
    order=30,
)
