"""Which wall a product runs into, by shape: the memory's or the arithmetic's, both measured here."""

from __future__ import annotations

from experiments.ladder import peak_case, steps
from harness.experiment import Budget, Case, Contender, Experiment, Figure, product_case
from harness.machine import Machine
from harness.problem import Problem

# (m, n, k): few operations for each byte, some, and many.
SHAPES = {
    "smoke": {"matrix-vector": (512, 1, 512), "square": (128, 128, 128)},
    "quick": {"matrix-vector": (4096, 1, 4096), "tall-skinny": (4096, 16, 512), "square": (512, 512, 512)},
    "full": {"matrix-vector": (6144, 1, 6144), "tall-skinny": (16384, 16, 1024), "square": (1536, 1536, 1536)},
}
SEMIRINGS = {"smoke": ("plus_times",), "quick": ("plus_times",), "full": ("plus_times", "min_plus")}

# A buffer much larger than the last cache, and one that stays in L2, for the slanted roofs.
BEYOND_CACHE, SMALLEST_BUFFER = 4, 64 << 20


def bandwidth_case(level: str, size_bytes: int) -> Case:
    """Return the case that measures how fast a buffer of `size_bytes` is read."""
    bandwidth = Contender("bandwidth", task="backends.cpu._ceilings:bandwidth")
    return Case({"role": "bandwidth", "level": level}, (bandwidth,), {"size_bytes": size_bytes})


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return the roofs, then every step of the ladder on each shape."""
    roofs = [bandwidth_case("memory", max(BEYOND_CACHE * machine.l3, SMALLEST_BUFFER))]
    if machine.l2 and preset != "smoke":
        roofs.append(bandwidth_case("L2", machine.l2 // 2))
    roofs += [peak_case(name) for name in SEMIRINGS[preset]]
    contenders = steps() if preset != "smoke" else steps()[-2:]
    return roofs + [
        product_case(Problem(*sizes, name), contenders, role="product", shape=shape)
        for name in SEMIRINGS[preset]
        for shape, sizes in SHAPES[preset].items()
    ]


EXPERIMENT = Experiment(
    name="roofline",
    question="Is a product held back by memory or by arithmetic, and how far below that roof is it?",
    cases=cases,
    figures=(Figure("roofline", "roofline", "Roofline, one thread", {"panels": "semiring", "point": "shape"}),),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=4),
        "full": Budget(rounds=15, seconds=150, processes=2, precision=0.01),
    },
    order=60,
)
