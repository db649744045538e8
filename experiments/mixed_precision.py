"""Narrow operands with wide sums (bfloat16, float16, int8), against wide operands and against libraries."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from experiments._parts.peers import ALL, ONE, installed, thread_counts
from harness.dtypes import mixed_dtypes
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

SUBJECT, PEERS = "cpu-mixed", ("cpu-mkl", "cpu-torch", "cpu-numkong")
WIDE = "cpu-simd"  # computes the same sizes with operands as wide as the sums: the alternative to mixed products
SIZES = {"smoke": (64,), "quick": (512,), "full": (257, 512, 1000, 1024, 1025, 2048)}
LONG = 4096
TILES, ASKED = "amx_tile", (512, 1000, 2048, LONG)  # of which the sizes are asked for
FOUR = "four threads"
OVER_OTHER = {"markers": "n", "value": "over_other", "subject": SUBJECT}


def problems(preset: str, machine: Machine) -> Iterator[Problem]:
    """Yield the products, by dtype of the operands and size; a long one where tiles of AMX compute it."""
    long = (LONG,) if preset == "full" and TILES in machine.simd else ()
    for narrow, wide in mixed_dtypes():
        for n in (*SIZES[preset], *long):
            yield Problem(n, n, n, dtype=wide, operand_dtype=narrow)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each product and number of threads."""
    return [
        product_case(
            problem,
            [
                *(_narrow(name, problem, threads) for name in installed((SUBJECT, *PEERS))),
                _wide(problem, threads),
            ],
            operands=problem.input_dtype.name,
            threads=threads,
            shared_by=called,
        )
        for called, threads in _counts(preset, machine).items()
        for problem in problems(preset, machine)
    ]


def _counts(preset: str, machine: Machine) -> dict[str, int]:
    few = {FOUR: 4} if preset == "full" and machine.cores > 4 else {}
    return {**thread_counts(machine), **few}


def _narrow(name: str, problem: Problem, threads: int) -> Contender:
    """Return a contender that computes with narrow operands; MKL without the scan that random ones do not need."""
    is_scanned = (name, problem.input_dtype.name) == ("cpu-mkl", "bfloat16")
    return backend_contender(name, threads=threads, **({"scan": 0} if is_scanned else {}))


def _wide(problem: Problem, threads: int) -> Contender:
    """Return the contender that computes a product of the same sizes with wide operands."""
    wide = dataclasses.replace(problem, operand_dtype=None)
    return backend_contender(WIDE, label=f"{WIDE} over {problem.dtype.name}", threads=threads, problem=wide)


EXPERIMENT = Experiment(
    name="mixed_precision",
    question="What do narrow operands gain, and who multiplies them fastest?",
    cases=cases,
    figures=(
        Figure(
            "mixed_precision",
            "strip",
            f"{SUBJECT} over the fastest other kernel, one thread: a library, or wide operands",
            {**OVER_OTHER, "rows": "operands", "where": {"shared_by": ONE}, "finding": "fastest"},
        ),
        Figure(
            "mixed_precision_peers",
            "strip",
            f"{SUBJECT} over the fastest other kernel, several threads: a library, or wide operands",
            {
                **OVER_OTHER,
                "rows": ["operands", "shared_by"],
                "where": {"shared_by": [FOUR, ALL]},
                "finding": "speed",
                "over": "kernel",
            },
        ),
        Figure(
            "mixed_precision_sizes",
            "lines",
            "Narrow operands and wide sums by size, one thread",
            {"x": "n", "compares": "n", "panels": "operands", "where": {"shared_by": ONE}, "finding": "fastest"},
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=1), Budget(rounds=5, seconds=2, processes=3, precision=0.02)),
    order=22,
    goals=(
        *(
            Goal(SUBJECT, asked, "cpu-torch", {"operands": ("bfloat16", "int8"), "n": sizes}, simd=TILES)
            for asked, sizes in ((0.9, ASKED[1:]), (0.6, ASKED[:1]))
        ),
        *(
            Goal(
                SUBJECT,
                1.0,
                "cpu-torch",
                {"operands": (name,), "shared_by": (called,), "n": ASKED},
                mean=True,
                simd=TILES,
            )
            for name in ("bfloat16", "int8")
            for called in (ONE, FOUR, ALL)
        ),
    ),
)
