"""Ranks times threads at equal cores, from one rank with all threads to as many ranks as cores."""

from __future__ import annotations

from experiments._parts.ranks import SUBJECT, one_process, or_absent, ranks_contender
from harness.experiment import Budget, Case, Contender, Experiment, Figure, needs_many_cores, product_case
from harness.machine import Machine
from harness.problem import Problem

PRODUCTS = {
    "smoke": ((256, "plus_times"),),
    "quick": ((1024, "plus_times"), (1024, "min_plus")),
    "full": tuple((n, semiring) for n in (1024, 2048, 4096) for semiring in ("plus_times", "min_plus")),
}
# What the quick preset has beside them where so many cores share a product.
MANY_CORES, OF_MANY_CORES = 8, ((2048, "plus_times"), (4096, "plus_times"))


def contenders(cores: int) -> list[Contender]:
    """Return one process with all threads, then every way to share out `cores` cores, most ranks last."""
    splits = [(ranks, cores // ranks) for ranks in range(1, cores + 1) if cores % ranks == 0]
    shared = [
        ranks_contender(SUBJECT, ranks, label=f"{ranks} x {threads}", rank_threads=threads) for ranks, threads in splits
    ]
    return [one_process(cores), *shared]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each product."""
    shared = contenders(machine.cores)
    products = PRODUCTS[preset] + (OF_MANY_CORES if preset == "quick" and machine.cores >= MANY_CORES else ())
    return or_absent([product_case(Problem(n, n, n, semiring), shared) for n, semiring in products])


EXPERIMENT = Experiment(
    name="dist_ranks_threads",
    question="How should cores be shared out: many ranks of few threads, or few ranks of many?",
    cases=cases,
    figures=(
        Figure(
            "dist_ranks_threads",
            "bars",
            f"{SUBJECT}, ranks x threads",
            {
                "panels": ["problem", "n"],
                "largest": "n",
                "within": "problem",
                "peak": False,
                "finding": "speed",
                "reference_words": "one process",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=60, precision=0.02)),
    order=43,
    is_asked=needs_many_cores,
)
