"""Other systems that spread arrays, where installed, beside a strategy on as many ranks; all on the CPU, all proven."""

from __future__ import annotations

from experiments._parts.ranks import SUBJECT, one_process, ranks_contender
from harness.experiment import Budget, Case, Contender, Experiment, Figure, product_case
from harness.machine import Machine
from harness.problem import Problem

TASK = "experiments._parts.peers_task:product"
PRODUCTS = {
    "smoke": ((256, "float64"),),
    "quick": ((1024, "float64"), (1024, "float32")),
    "full": tuple((n, dtype) for n in (2048, 4096) for dtype in ("float64", "float32")),
}
# How the spread parts are called, by the package of the system.
PEERS = {
    "torch": "PyTorch DTensor, {} ranks",
    "jax": "JAX NamedSharding, {} devices",
    "dask": "Dask array, {} workers",
}


def contenders(ranks: int) -> list[Contender]:
    """Return one process with all threads, the strategy, and every peer; one that is missing says so."""
    peers = [Contender(label.format(ranks), {"package": name}, ranks, TASK) for name, label in PEERS.items()]
    return [one_process(ranks), ranks_contender(SUBJECT, ranks), *peers]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each product, on as many ranks as there are cores and on two at least."""
    shared = contenders(max(2, machine.cores))
    return [product_case(Problem(n, n, n, dtype=dtype), shared) for n, dtype in PRODUCTS[preset]]


EXPERIMENT = Experiment(
    name="dist_peers",
    question="How fast are other systems that spread arrays over ranks, devices or workers?",
    cases=cases,
    figures=(
        Figure(
            "dist_peers",
            "bars",
            f"{SUBJECT} and other systems that spread arrays",
            {"panels": ["problem", "n"], "peak": False},
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=2),
        "full": Budget(rounds=15, seconds=60, precision=0.02),
    },
    order=47,
)
