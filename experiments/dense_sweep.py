"""Every size of a range: slow edges of a kernel show as dips that a few chosen sizes would miss.

Each sweep changes m, n and k together, or only one of them while the other two stay. What counts is the part of the
peak that a size loses against whole tiles nearby: the peak is timed in turns with it, and the sizes are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from experiments._parts.peers import SUBJECT
from experiments.percent_of_peak import PEAK
from harness.analysis.ragged_sizes.swept import WHOLE
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, needs_many_cores, product_case
from harness.machine import Machine
from harness.problem import Problem

BACKENDS = {
    "smoke": (SUBJECT, "cpu-numpy"),
    "quick": (SUBJECT, "cpu-numpy"),
    "full": (SUBJECT, "cpu-numpy", "cpu-mkl"),
}

# Whole tiles of the quick preset; beside 544 they show how far whole tiles differ.
WHOLE_TILES = (32 * WHOLE, 35 * WHOLE, 37 * WHOLE)
# Sizes of the square sweeps by name.
RANGES: dict[str, dict[str, Iterable[int]]] = {
    "smoke": {"m = n = k, 60 to 66": range(60, 67, 3)},
    "quick": {"m = n = k, 500 to 600": sorted({*range(500, 601, 11), *WHOLE_TILES})},
    "full": {"m = n = k, 500 to 600": range(500, 601), "m = n = k, 1000 to 1060": range(1000, 1061)},
}
# Powers of two, where rows share cache sets, and the range around each.
POWERS = {"smoke": (), "quick": (256, 512), "full": (128, 256, 512, 1024, 2048)}
AROUND = {"smoke": (), "quick": (-1, 0, 1), "full": range(-4, 5)}
# Sizes of the one dimension that varies over ragged sizes; the other two are FIXED.
FIXED = 512
RAGGED: dict[str, Iterable[int]] = {"smoke": (), "quick": (505, 512, 515), "full": range(496, 529)}


def sweeps(preset: str) -> Iterator[tuple[str, int, tuple[int, int, int]]]:
    """Yield the name of each sweep, its varying size, and m, n and k."""
    for called, sizes in RANGES[preset].items():
        yield from ((called, n, (n, n, n)) for n in sizes)
    for power in POWERS[preset]:
        sizes = [power + step for step in AROUND[preset]]
        yield from ((f"m = n = k, around {power}", n, (n, n, n)) for n in sizes)
    for axis, name in enumerate("mnk"):
        for size in RAGGED[preset]:
            shape = [FIXED] * 3
            shape[axis] = size
            yield f"only {name}, others {FIXED}", size, (shape[0], shape[1], shape[2])


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each size of each sweep."""
    contenders = [*(backend_contender(name) for name in BACKENDS[preset]), PEAK]
    return [
        product_case(Problem(*shape), contenders, sweep=called, size=size) for called, size, shape in sweeps(preset)
    ]


EXPERIMENT = Experiment(
    name="dense_sweep",
    question="Is there a size between the usual ones at which the rate drops?",
    cases=cases,
    figures=(
        Figure(
            "dense_sweep",
            "ragged",
            "Rate lost at every size of a range, plus_times float64",
            {"sweeps": "sweep", "x": "size", "subject": SUBJECT, "finding": "losses"},
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=0.4), Budget(rounds=15, seconds=2, precision=0.01)),
    order=24,
    is_asked=needs_many_cores,
)
