"""Products with one or two small sizes, where packing costs time but is hardly reused, against the fastest peer."""

from __future__ import annotations

from experiments._parts.peers import SUBJECT, against_peers
from harness.experiment import Budget, Case, Experiment, Figure, Goal, product_case
from harness.machine import Machine
from harness.problem import Problem

# Name of each shape, and m, n, k, from the thinnest on.
UPDATE = ("small k", (4000, 4000, 16))  # by all threads too
SHAPES = {
    "smoke": (("matrix-vector", (128, 1, 128)), ("tall-skinny", (512, 8, 64))),
    "quick": (
        ("matrix-vector", (2048, 1, 2048)),
        ("tall-skinny", (8192, 16, 256)),
        ("short-wide", (16, 8192, 256)),
        ("small k", (1024, 1024, 16)),
        ("long k", (32, 32, 16384)),
    ),
    "full": (
        ("matrix-vector", (4096, 1, 4096)),
        ("vector-matrix", (1, 4096, 4096)),
        ("outer product", (4096, 4096, 1)),
        ("tall-skinny", (32768, 4, 512)),
        ("tall-skinny", (32768, 16, 512)),
        ("tall-skinny", (16384, 50, 50)),
        ("short-wide", (4, 32768, 512)),
        ("short-wide", (16, 32768, 512)),
        ("small k", (2048, 2048, 4)),
        ("small k", (2048, 2048, 16)),
        ("small k", (2048, 2048, 64)),
        UPDATE,
        ("long k", (32, 32, 65536)),
    ),
}
DTYPES = {"smoke": ("float64",), "quick": ("float64",), "full": ("float64", "float32")}
ROWS = ["shape", "size"]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product of each shape."""
    alone = [
        product_case(
            Problem(*sizes, dtype=dtype), against_peers(), shape=shape, size=" x ".join(str(size) for size in sizes)
        )
        for dtype in DTYPES[preset]
        for shape, sizes in SHAPES[preset]
    ]
    if preset != "full" or machine.cores == 1:
        return alone
    shape, sizes = UPDATE
    axes = {"shape": f"{shape}, all threads", "size": " x ".join(map(str, sizes)), "threads": machine.cores}
    peers = against_peers(machine.cores)
    return alone + [product_case(Problem(*sizes, dtype=dtype), peers, **axes) for dtype in DTYPES[preset]]


EXPERIMENT = Experiment(
    name="thin_shapes",
    question="How fast are products that are long in one direction only?",
    cases=cases,
    figures=(
        Figure(
            "thin_shapes",
            "strip",
            f"{SUBJECT} over the fastest library on thin shapes, one thread",
            {
                "rows": ROWS,
                "colours": "dtype",
                "value": "over_fastest",
                "subject": SUBJECT,
                "finding": "speed",
                "over": "library",
            },
            prominence=78,
        ),
        Figure(
            "thin_shapes_rates",
            "heatmap",
            "Rates on thin shapes, plus_times float64",
            {
                "where": {"dtype": "float64"},
                "rows": ROWS,
                "columns": "contender",
                "value": "rate",
                "x_label": "backend",
                "finding": "fastest",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=2), Budget(rounds=5, seconds=2, processes=3, precision=0.02)),
    order=82,
    goals=(Goal(SUBJECT, 1.0, "cpu-numpy", {"size": ("4000 x 4000 x 16",)}),),
)
