"""The words that a rank receives, counted, on every grid of some ranks, beside the formula and the lower bound.

Counting needs no time: there may be more ranks than cores, and matrices are small. On GPUs every engine counts, on one
rank a GPU; on more ranks, which share them, those that allow it.
"""

from __future__ import annotations

from collections.abc import Iterable

from experiments._parts.gpu import DEVICE
from experiments._parts.gpu_ranks import ENGINES, base_of
from experiments._parts.ranks import COUNT_TASK, or_absent
from harness.analysis import rates
from harness.analysis.findings.sentences import Finding, Measure, Value
from harness.analysis.ranks.model import FROM_ROOT
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell

# Sides that most of the ranks divide.
SIZES = {"smoke": 24, "quick": 96, "full": 240}
RANKS = {"smoke": (2,), "quick": (4,), "full": (4, 6, 7, 8, 12, 16)}
# Pieces spread evenly and gathered, and whole blocks on the faces of the grid, as programs on rank 0 scatter them.
VARIANTS = ({"backend": "dist-3d", "panel": 0}, {"backend": "dist-root", "panel": 0})


# Ranks on GPUs, beside one on each: if they are more, they share GPUs, which NCCL refuses.
GPU_RANKS = {"smoke": (2,), "quick": (4,), "full": (4, 6, 8)}
SHARING = ("copy", "staged")


def count_cases(n: int, counts: Iterable[int], variants: tuple[dict[str, object], ...], **axes: object) -> list[Case]:
    """Return a case for each number of ranks, with one contender that computes on all grids."""
    every = {p: Contender("every grid", {"ranks": p, "variants": variants}, task=COUNT_TASK) for p in counts}
    return [product_case(Problem(n, n, n), [counter], ranks=ranks, **axes) for ranks, counter in every.items()]


def gpu_cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for as many ranks as GPUs, by every engine, and for more ranks that share them."""
    n, every = SIZES[preset], machine.gpus
    base = base_of(Problem(n, n, n))
    found = []
    for ranks in sorted({every, *GPU_RANKS[preset]} - {0, 1}) if every else ():
        shares = ranks > every
        variants = tuple(
            {"backend": "dist-3d", "panel": 0, "base": base, "transport": engine, "share_gpu": int(shares)}
            for engine in (SHARING if shares else ENGINES)
        )
        found += count_cases(n, [ranks], variants, **DEVICE)
    return found


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each number of ranks, on processors and on GPUs."""
    return or_absent([*count_cases(SIZES[preset], RANKS[preset], VARIANTS), *gpu_cases(preset, machine)])


# What a rank has counted, and what that is held against.
COUNTED = {
    "words": Measure("receives", "receive", "at most {} times what it must"),
    "bytes": Measure("needs", "need", "at most {} times its part of one copy"),
}


def counted(cells: list[Cell], options: Json) -> Finding | None:
    """Return what was counted over the lower bound, and how many counts equal the formula."""
    what, done = options["counts"], rates.timed(cells)
    counts = [count for cell in done for count in cell.facts.get("grids") or () if count[f"formula_{what}"]]
    values = [Value(exact(c[what] / c[f"bound_{what}"]), place=_grid(c)) for c in counts if c[f"bound_{what}"]]
    equal = sum(count[what] == count[f"formula_{what}"] for count in counts)
    note = f"{equal} of {len(counts)} counts equal the formula"
    return Finding("A rank", COUNTED[what], values, note=note) if values else None


def _grid(count: Json) -> str:
    """Return who counted: the grid, and the strategy and its panels if they are not the plain ones."""
    panels = f"panels of {count['panel']}" if count.get("panel") else ""
    strategy = "from rank 0" if count.get("backend") == FROM_ROOT else ""
    return ", ".join(filter(None, (str(count["grid"]), strategy, panels)))


EXPERIMENT = Experiment(
    name="dist_volume",
    question="How many words does a rank receive on each grid, over the formula and over what it must receive?",
    cases=cases,
    figures=(
        Figure(
            "dist_volume",
            "grids",
            "Words that a rank receives, by grid, on the most ranks that counted",
            {"counts": "words", "largest": "ranks", "within": "device", "finding": counted},
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=0.5), Budget(rounds=3, seconds=2)),
    order=44,
)
