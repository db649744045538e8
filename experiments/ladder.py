"""The gain by each classic optimisation, rung by rung, and the distance of each rung from the measured peak.

At sizes that are no power of two, as most are. A power of two stands beside them: there every row of B begins in the
same few sets of a cache, and loops that walk down a column of B lose most of their rate.
"""

from __future__ import annotations

import itertools

from experiments._parts.peers import FASTEST, FIRST_LIBRARY_STEP, fastest_libraries
from harness import registry
from harness.analysis import rates
from harness.analysis.findings.sentences import SPEED, Finding, Value
from harness.experiment import (
    NARROW_PEAK,
    PEAK_TASK,
    Budget,
    Case,
    Contender,
    Experiment,
    Figure,
    Json,
    backend_contender,
    product_case,
)
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell

STEPS = (
    backend_contender("cpu-naive"),
    backend_contender("cpu-transposed"),
    backend_contender("cpu-tiled", label="cpu-tiled reuse=1", reuse=1),
    backend_contender("cpu-tiled", label="cpu-tiled reuse=2", reuse=2),
    backend_contender("cpu-packed"),
)
VENDOR = backend_contender("cpu-numpy")

SIZES = {"smoke": (100,), "quick": (300, 500, 800), "full": (500, 700, 1000, 1400)}
# A power of two, and a size a little below.
LESSON_SIZES = {"smoke": (100, 128), "quick": (500, 512), "full": (1000, 1024)}
LESSON = "power of two"
# Of products of complex numbers: their rungs differ from those of real ones in what they gain.
COMPLEX_SIZES = {"smoke": (), "quick": (), "full": (500, 700, 1000)}
COMPLEX, COMPLEX_DTYPE = "complex numbers", "complex64"
SEMIRINGS = {
    "smoke": ("plus_times",),
    "quick": ("plus_times", "min_plus"),
    "full": ("plus_times", "min_plus", "max_times"),
}


def steps() -> list[Contender]:
    """Return the rungs from the lowest to the vendor's library, with any further CPU backend that is no library."""
    known = {contender.arguments["backend"] for contender in (*STEPS, VENDOR)}
    # all rungs compute the same product, which excludes backends of narrow operands
    one = Problem(1, 1, 1)
    rungs = [entry for entry in registry.discover() if entry.backend and not registry.refusal(entry.backend, one)]
    step_of = {entry.name: entry.backend.step for entry in rungs if entry.backend}
    newer = sorted((step, name) for name, step in step_of.items() if name.startswith("cpu-") and name not in known)
    return [*STEPS, *(backend_contender(name) for step, name in newer if step < FIRST_LIBRARY_STEP), VENDOR]


def peak_case(semiring: str, dtype: str = "float64", threads: int = 1, *, narrow: bool = False) -> Case:
    """Return the case that measures the register-only peak, the base of percentages of peak.

    With `narrow` that of AVX2 beside it: the roof of libraries that do not know a processor with AVX-512.
    """
    arguments = {"semiring": semiring, "dtype": dtype}
    peak = Contender("peak", threads=threads, task=PEAK_TASK)
    of_avx2 = [Contender(NARROW_PEAK, {"unit": "avx2"}, threads, PEAK_TASK)] if narrow else []
    return Case({"role": "peak", **arguments, "threads": threads}, (peak, *of_avx2), arguments)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return square products of each semiring and its peak, and the rungs where all sizes are a power of two."""
    contenders = [*steps(), *fastest_libraries(machine)]
    products = [
        product_case(Problem(n, n, n, name), contenders, role="product")
        for name in SEMIRINGS[preset]
        for n in SIZES[preset]
    ]
    rungs = [*STEPS, backend_contender("cpu-simd")]
    lesson = [product_case(Problem(n, n, n), rungs, role=LESSON) for n in LESSON_SIZES[preset]]
    of_complex = [
        product_case(Problem(n, n, n, dtype=COMPLEX_DTYPE), contenders, role=COMPLEX) for n in COMPLEX_SIZES[preset]
    ]
    peaks = [peak_case(name) for name in SEMIRINGS[preset]]
    peaks += [peak_case("plus_times", COMPLEX_DTYPE)] if of_complex else []
    return [*products, *peaks, *lesson, *of_complex]


def at_a_power_of_two(cells: list[Cell], options: Json) -> Finding | None:
    """Return the rate of the subject where all sizes are a power of two, over that at the size below."""
    own = [c for c in rates.timed(cells) if rates.axis(c, "backend") == options["subject"]]
    if len(own) < 2:
        return None
    below, at = sorted(own, key=lambda cell: rates.axis(cell, "n"))[-2:]
    judged = [(cell, None) for cell in own]
    who, over = f"{options['subject']} at n={rates.axis(at, 'n')}", f"at n={rates.axis(below, 'n')}"
    return Finding(who, SPEED, [Value(exact(at.rate / below.rate))], over, judged=judged)


DRAWN = {
    "panels": "semiring",
    "over_sizes": "mean",
    "labels": "ladder",
    "subject": "cpu-simd",
    "finding": "ladder",
    "beside": ["cpu-strassen", "cpu-numpy", *itertools.chain(*FASTEST)],
}

EXPERIMENT = Experiment(
    name="ladder",
    question="What does each classic optimisation of a matrix product buy?",
    cases=cases,
    figures=(
        Figure(
            "ladder",
            "bars",
            "The ladder: what each step buys",
            {**DRAWN, "where": {"role": "product"}},
            prominence=94,
        ),
        Figure(
            "power_of_two",
            "bars",
            "The same loops where all sizes are a power of two",
            {
                "panels": "n",
                "where": {"role": LESSON},
                "subject": "cpu-naive",
                "compares": "n",
                "finding": at_a_power_of_two,
            },
            prominence=60,
        ),
    ),
    # Enough for six samples of cpu-naive, which a verdict needs.
    budget=Budget.presets(
        Budget(rounds=3, seconds=30),
        Budget(rounds=5, seconds=60, processes=3, precision=0.02),
        smoke=Budget(rounds=2, seconds=0.4),
    ),
    order=10,
)
