"""One idea of the CPU ladder at a time: the time of a rung without it, over the time of the rung."""

from __future__ import annotations

import math

from harness.analysis.findings import switches
from harness.analysis.findings.sentences import SPEED, Finding, Value
from harness.analysis.rates import plural
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.store.store import Cell
from harness.tuning.cpu import course_mc

SIZE = {"smoke": 96, "quick": 512, "full": 512}
SIZE_OF_ORDERS = {"smoke": 64, "quick": 256, "full": 256}
ORDERS = {"ikj": "rows of C", "jki": "columns of C", "kij": "rank-1 updates"}

# The path from cpu-naive to cpu-packed: idea, the rung in whose case it is measured, the contender without it, with it.
STEPS = (
    ("contiguous rows", "whole path", "cpu-naive", "cpu-transposed, no SIMD"),
    ("SIMD", "cpu-transposed", "no SIMD", "cpu-transposed"),
    ("cache tiles", "cpu-tiled", "cpu-transposed", "no 2x2 reuse"),
    ("2x2 reuse", "cpu-tiled", "no 2x2 reuse", "cpu-tiled"),
    ("register tile", "cpu-packed", "cpu-tiled", "no packing"),
    ("packing", "cpu-packed", "no packing", "cpu-packed"),
)
WHOLE = ("whole path", "cpu-naive", "cpu-packed")


def rungs(n: int) -> dict[str, list[Contender]]:
    """Return by rung the rung itself, then it without single ideas, and rungs below that a step begins or ends at.

    Contenders that take seconds have a case of their own, so that they leave time for samples of the others.
    """
    naive, transposed, tiled, packed = (backend_contender(f"cpu-{x}") for x in "naive transposed tiled packed".split())
    no_simd = {x.label: backend_contender(x.label, label="no SIMD", simd="off") for x in (transposed, tiled, packed)}
    no_reuse = backend_contender("cpu-tiled", label="no 2x2 reuse", reuse=1)
    no_packing = backend_contender("cpu-packed", label="no packing", packing="off")
    no_blocks = backend_contender("cpu-packed", label="no cache blocks", mc=n, nc=n, kc=n)
    return {
        "whole path": [packed, backend_contender("cpu-transposed", label="cpu-transposed, no SIMD", simd="off"), naive],
        "cpu-transposed": [transposed, no_simd["cpu-transposed"]],
        "cpu-tiled": [tiled, no_simd["cpu-tiled"], no_reuse, transposed],
        "cpu-packed": [packed, no_simd["cpu-packed"], no_packing, no_blocks, tiled],
    }


def shared(n: int, threads: int) -> dict[str, list[Contender]]:
    """Return by rung the ways in which threads can share it."""
    mc = course_mc(n, threads)
    return {
        "cpu-tiled": [
            backend_contender("cpu-tiled", threads=threads),
            backend_contender("cpu-tiled", label="tiles in chunks", threads=threads, schedule="chunks"),
        ],
        "cpu-packed": [
            backend_contender("cpu-packed", threads=threads),
            backend_contender("cpu-packed", label=f"mc={mc} (course)", threads=threads, mc=mc),
        ],
    }


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each rung on one thread, for those that all cores share, and one for the orders of loops."""
    n, small = SIZE[preset], SIZE_OF_ORDERS[preset]
    switches = [(_short(rung), rung, contenders) for rung, contenders in rungs(n).items()]
    if preset != "smoke" and machine.cores > 1:
        of_all = plural(machine.cores, "thread")
        switches += [
            (f"{_short(rung)}, {of_all}", rung, contenders) for rung, contenders in shared(n, machine.cores).items()
        ]
    naive = [backend_contender("cpu-naive"), backend_contender("cpu-naive", label="no SIMD", simd="off")]
    naive += [backend_contender("cpu-naive", label=f"{order}: {what}", loops=order) for order, what in ORDERS.items()]
    return [
        *(
            product_case(Problem(n, n, n), contenders, role="switch", rung=rung, panel=panel)
            for panel, rung, contenders in switches
        ),
        product_case(Problem(small, small, small), naive, role="order", rung="cpu-naive", panel="naive"),
    ]


def _short(rung: str) -> str:
    return rung.removeprefix("cpu-")


def factors(cells: list[Cell], options: Json) -> Finding | None:
    """Return the gain of all ideas, those of each, and what these multiply to."""
    found = switches.ablated(cells, options)
    if found is None:
        return None
    _, known, whole = found
    ideas = {idea: [Value(factor)] for idea, _, factor in known}
    product = math.prod(factor.estimate for _, _, factor in known)
    note = f"The factors of all ideas multiply to {product:.3g}"
    return Finding(options["whole"][-1], SPEED, [Value(whole)], "the definition", others=ideas, note=note)


EXPERIMENT = Experiment(
    name="ablation",
    question="What does each idea of the ladder buy alone, and do the ideas multiply?",
    cases=cases,
    figures=(
        Figure(
            "ablation",
            "factors",
            "Each idea of the ladder alone, plus_times float64, one thread",
            {"where": {"threads": 1, "role": "switch"}, "finding": factors, "steps": STEPS, "whole": WHOLE},
        ),
        Figure(
            "ablation_orders",
            "bars",
            "The definition: three loops i, j, k, in other orders too",
            {
                "panels": "rung",
                "peak": False,
                "where": {"role": "order"},
                "finding": "speed",
                "reference_words": "the definition",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=4, seconds=4), Budget(rounds=5, seconds=8, processes=3, precision=0.02)),
    order=13,
)
