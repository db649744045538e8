"""Every kind of size on a GPU, from 64 to 10,000: tensor cores, the vendor's library, and ways to treat partial tiles.

`gpu_size_sweep` has every size around powers of two. Here sizes are far apart, so that a figure shows the rate against
the size, and of each kind there are several: powers of two, multiples of a tile, one off, odd, primes, even.

Source of the question: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), figure 1.
"""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT, TILE, VENDOR, gpu_case, kind_of_size, or_absent
from harness.analysis import rates
from harness.analysis.findings.sentences import Finding, Measure
from harness.analysis.findings.sizes import first_size
from harness.analysis.ragged_sizes import REGULAR_KINDS
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal, Json, backend_contender
from harness.machine import Machine
from harness.store.store import Cell

LEAST = 64
SIZES = {
    "smoke": (64, 96, 131),
    "quick": (
        *(64, 65, 127, 128, 256, 257, 384, 509, 512, 640, 1000, 1024, 1025, 1531),
        *(2048, 2049, 2501, 3072, 3073, 4000, 4096, 4097, 8192, 10_000),
    ),
    "full": (
        *(64, 65, 96, 127, 128, 129, 192, 255, 256, 257, 333, 384, 385, 509, 511, 512, 513, 640, 641, 768, 769, 900),
        *(1000, 1023, 1024, 1025, 1151, 1152, 1280, 1301, 1500, 1531, 1536, 1537, 1792, 2000, 2047, 2048, 2049, 2303),
        *(2501, 2560, 3000, 3001, 3071, 3072, 3073, 3500, 3583, 4000, 4001, 4095, 4096, 4097, 4500, 5000, 5003, 5120),
        *(5121, 6000, 6001, 6143, 6144, 7000, 7001, 7168, 7169, 8000, 8001, 8191, 8192, 8193, 9000, 9001, 9216, 9973),
        *(9984, 9985, 10_000),
    ),
}
EDGES = tuple(backend_contender(SUBJECT, label=edge, edge=edge) for edge in ("redirected", "padded", "conditional"))
ORDINARY = (backend_contender(VENDOR), backend_contender("gpu-tensor-core"), backend_contender(SUBJECT), *EDGES)
CONTENDERS: dict[tuple[str, str], tuple[Contender, ...]] = {
    ("plus_times", "float32"): ORDINARY,
    ("plus_times", "float64"): ORDINARY,
    ("min_plus", "float32"): (backend_contender(SUBJECT), *EDGES),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a square product for each problem and size."""
    all_cases = [
        gpu_case(n, semiring, dtype, contenders, kind=kind_of_size(n))
        for (semiring, dtype), contenders in CONTENDERS.items()
        for n in SIZES[preset]
    ]
    return or_absent(all_cases, machine, kind=kind_of_size(LEAST))


# Ways to treat partial tiles are held against each other by `gpu_edges`.
USED = {"contender": [SUBJECT, "gpu-tensor-core", VENDOR]}
# Smaller products take less time than their launch.
LARGE = sorted({n for of_preset in SIZES.values() for n in of_preset if n >= 500} | {*SIZES["smoke"]})

# Sizes that no tile divides, of which a rate is asked.
RAGGED = {"dtype": ("float32",), "n": tuple(n for n in SIZES["full"] if 700 <= n <= 2400 and n % 32)}
MOST_OF_ITS_BEST = 0.9
GROWS = Measure("has", "have", f"{100 * MOST_OF_ITS_BEST:.0f} % of its best rate {{}}")


def grows(cells: list[Cell], options: Json) -> Finding | None:
    """Return from which size of whole tiles on the subject has most of its best rate, by problem."""
    own = [cell for cell in rates.timed(cells) if cell.contender == options["subject"]]
    values = []
    for problem, alike in rates.group(own, lambda cell: str(rates.axis(cell, "problem"))).items():
        regular = [(rates.axis(cell, "n"), cell.rate) for cell in alike if cell.axes.get("kind") in REGULAR_KINDS]
        if len(regular) > 1:
            least = MOST_OF_ITS_BEST * max(rate for _, rate in regular)
            values.append(first_size([(n, rate >= least) for n, rate in regular])._replace(place=problem))
    return Finding(options["subject"], GROWS, values) if values else None


EXPERIMENT = Experiment(
    name="gpu_sizes",
    question="How does the rate of a GPU depend on the size, and what does each kind of size cost?",
    cases=cases,
    figures=(
        Figure(
            "gpu_sizes",
            "lines",
            "Rate against size on a GPU",
            {"where": USED, "x": "n", "marker": "kind", "panels": "problem", "subject": SUBJECT, "finding": grows},
        ),
        Figure(
            "gpu_sizes_loss",
            "ragged",
            "Rate lost at sizes that fit no tile, on a GPU",
            {
                "where": {**USED, "n": LARGE},
                "rows": ["semiring", "dtype"],
                "subject": SUBJECT,
                "tile": TILE,
                "finding": "losses",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=2, sample_ms=2), Budget(rounds=15, seconds=2, precision=0.01)),
    order=61,
    goals=(
        Goal(SUBJECT, 0.93, VENDOR, RAGGED),
        Goal(SUBJECT, 1.0, VENDOR, RAGGED, mean=True),
    ),
)
