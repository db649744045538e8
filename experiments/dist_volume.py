"""The words that a rank receives, counted, on every grid of some ranks, beside the formula and the lower bound.

Counting needs no time: there may be more ranks than cores, and matrices are small.
"""

from __future__ import annotations

from experiments._parts.ranks import COUNT_TASK, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine
from harness.problem import Problem

# Sides that most of the ranks divide.
SIZES = {"smoke": 24, "quick": 96, "full": 240}
RANKS = {"smoke": (2,), "quick": (4, 6, 8), "full": (4, 6, 7, 8, 12, 16)}
# Pieces spread evenly and gathered, and whole blocks on the faces of the grid, as programs on rank 0 scatter them.
VARIANTS = ({"backend": "dist-3d", "panel": 0}, {"backend": "dist-root", "panel": 0})


def count_cases(n: int, counts: tuple[int, ...], variants: tuple[dict[str, object], ...]) -> list[Case]:
    """Return a case for each number of ranks, with one contender that computes on all grids."""
    problem = Problem(n, n, n).to_json()
    sizes = {name: problem[name] for name in ("m", "n", "k", "dtype", "semiring")}
    return [
        Case(
            {**sizes, "ranks": ranks},
            (Contender("every grid", {"ranks": ranks, "variants": variants}, task=COUNT_TASK),),
            {"problem": problem, "seed": 1},
        )
        for ranks in counts
    ]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each number of ranks."""
    return or_absent(count_cases(SIZES[preset], RANKS[preset], VARIANTS))


EXPERIMENT = Experiment(
    name="dist_volume",
    question="How many words does a rank receive on each grid, over the formula and over what it must receive?",
    cases=cases,
    figures=(Figure("dist_volume", "grids", "Words that a rank receives, by grid", {"counts": "words"}),),
    budget={
        "smoke": Budget(rounds=1, seconds=0.1),
        "quick": Budget(rounds=3, seconds=0.5),
        "full": Budget(rounds=3, seconds=2),
    },
    order=44,
)
