"""Rate against size, the loss at sizes that no tile divides, and the extra work of padding them."""

from __future__ import annotations

import itertools
import math

from experiments._parts.peers import COMMONEST, FASTEST, SUBJECT, fastest_peers, libraries_for
from harness.analysis import rates
from harness.analysis.findings.sentences import LEAST, Finding, Measure
from harness.analysis.findings.sizes import first_size
from harness.analysis.ragged_sizes import extra_work
from harness.experiment import (
    Budget,
    Case,
    Contender,
    Experiment,
    Figure,
    Json,
    backend_contender,
    needs_many_cores,
    product_case,
)
from harness.machine import Machine
from harness.problem import Problem
from harness.store.store import Cell

RUNGS = [*(backend_contender(f"cpu-{name}") for name in ("transposed", "tiled", "packed")), backend_contender(SUBJECT)]

# The kinds "power of two" and "tile multiple" fit every register tile of 2, 4, 8 and 16; the others are ragged.
SIZES = {
    "smoke": {"power of two": (32, 64), "multiple ± 1": (65,)},
    "quick": {
        "power of two": (64, 128, 256, 512),
        "tile multiple": (96, 192, 384, 768),
        "multiple ± 1": (65, 129, 257, 511, 513),
        "prime": (157, 389, 641),
        "odd": (225, 333),
    },
    "full": {
        "power of two": (16, 32, 64, 128, 256, 512, 1024),
        "tile multiple": (48, 96, 192, 384, 576, 768, 1152),
        "multiple ± 1": (31, 33, 63, 65, 127, 129, 255, 257, 511, 513, 769, 1023, 1025),
        "prime": (37, 79, 157, 389, 641, 907),
        "odd": (45, 105, 225, 333, 675),
    },
}
PROBLEMS = {
    "smoke": (("plus_times", "float64"),),
    "quick": (("plus_times", "float64"),),
    "full": (("plus_times", "float64"), ("min_plus", "float64")),
}
TILES = (4, 16, 64, 128)  # of micro-kernels on the CPU, of the paper and of blocks on a GPU
# Who has a line against size: the ladder has the other rungs, and no other library is faster than these.
DRAWN = [SUBJECT, COMMONEST, *itertools.chain(*FASTEST)]
# What loses at ragged sizes: the rungs, and two libraries beside them.
LOSING = [*(rung.label for rung in RUNGS), "cpu-numpy", "cpu-mkl"]
OF_DOUBLE = {
    "where": {"semiring": "plus_times", "dtype": "float64", "contender": LOSING},
    "subject": SUBJECT,
    "finding": "losses",
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a square product for each size, by rising size: the libraries, of which quick has the fastest; rungs."""
    sizes = sorted((n, kind) for kind, of_kind in SIZES[preset].items() for n in of_kind)
    return [
        product_case(problem, _contenders(problem, machine, preset), kind=kind)
        for semiring, dtype in PROBLEMS[preset]
        for n, kind in sizes
        for problem in [Problem(n, n, n, semiring, dtype)]
    ]


def _contenders(problem: Problem, machine: Machine, preset: str) -> list[Contender]:
    if preset == "quick":
        return [*fastest_peers(machine)[1:], *RUNGS[1:]]
    return [*libraries_for(problem, machine, preset), *RUNGS]


LITTLE = 10  # percent of work in vain
PADS = Measure("adds", "add", f"at most {LITTLE} % of work {{}}")


def padding(cells: list[Cell], options: Json) -> Finding | None:
    """Return the size from which on padding to the smallest and the largest tile computes little in vain."""
    last, values = max((rates.axis(cell, "n") or 0 for cell in cells), default=0), []
    for tile in (min(options["tiles"]), max(options["tiles"])) if last else ():
        whole = math.ceil(1 / (math.sqrt(1 + LITTLE / 100) - 1)) * tile  # from here on one tile more is little
        found = first_size([(n, extra_work(n, n, tile, tile) <= LITTLE) for n in range(1, whole + 1)])
        if found.number.estimate > last:
            found = first_size([(last, False)])
        values.append(found._replace(place=f"tiles of {tile} x {tile}"))
    return Finding("Padding to whole tiles", PADS, values, pick=LEAST) if values else None


EXPERIMENT = Experiment(
    name="size_sweep",
    question="How does the rate depend on the size, and what does a size cost that fits no tile?",
    cases=cases,
    figures=(
        Figure(
            "size_sweep",
            "lines",
            "Rate against size",
            {
                "x": "n",
                "marker": "kind",
                "panels": "problem",
                "merged": True,
                "ends": True,
                "where": {"backend": DRAWN},
                "subject": SUBJECT,
                "finding": "speed",
                "over": "library",
            },
        ),
        Figure("ragged_loss", "ragged", "What sizes that fit no tile lose", OF_DOUBLE, prominence=86),
        Figure(
            "extra_work",
            "extra_work",
            "Extra work if edges were padded to whole tiles",
            {"tiles": TILES, "finding": padding},
        ),
    ),
    budget=Budget.presets(Budget(rounds=6, seconds=2), Budget(rounds=5, seconds=0.7, processes=3, precision=0.02)),
    order=20,
    is_asked=needs_many_cores,
)
