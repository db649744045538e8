"""The bytes that a rank allocates, counted, on every grid of some ranks, all of k at once and in panels.

Beside them the formula by which a memory cap is checked, and one copy of all matrices spread evenly. Panels are sent by
MPI, as between hosts: ranks that share memory need none.
"""

from __future__ import annotations

from experiments._parts.ranks import or_absent
from experiments.dist_volume import SIZES, count_cases, counted
from harness.experiment import Budget, Case, Experiment, Figure
from harness.machine import Machine

RANKS = {"smoke": (2,), "quick": (4,), "full": (4, 8, 12, 16)}
PANELS = {"smoke": 4, "quick": 8, "full": 15}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each number of ranks."""
    panels = (0, PANELS[preset])
    variants = (*({"backend": "dist-3d", "panel": panel} for panel in panels), {"backend": "dist-root", "panel": 0})
    by_mpi = tuple({**variant, "transport": "mpi"} for variant in variants)
    return or_absent(count_cases(SIZES[preset], RANKS[preset], by_mpi))


EXPERIMENT = Experiment(
    name="dist_memory",
    question="How much memory does a rank need on each grid, at once and in panels, over the formula?",
    cases=cases,
    figures=(
        Figure(
            "dist_memory",
            "grids",
            "Memory of the fullest rank, by grid, on the most ranks that counted",
            {"counts": "bytes", "largest": "ranks", "within": "device", "finding": counted},
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=0.5), Budget(rounds=3, seconds=2)),
    order=45,
)
