"""Other systems that spread arrays, where installed, beside a strategy on as many ranks; all results are proven.

On the CPU all begin with operands spread beforehand. On several GPUs all draw the same operands there, and leave the
result there; each sample is a call that is waited for on the host.
"""

from __future__ import annotations

from experiments._parts.gpu_ranks import VENDOR, base_of, drawn_case, drawn_contender, gpus
from experiments._parts.peers import installed
from experiments._parts.ranks import SUBJECT, one_process, ranks_contender
from harness.analysis import rates, rivals
from harness.analysis.findings.sentences import SPEED, Finding, Value
from harness.analysis.ranks.model import decomposition
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json, needs_many_cores, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.store.store import Cell

TASK, GPU_TASK = "experiments._parts.peers_task:product", "experiments._parts.gpu_peers_task:product"
PRODUCTS = {
    "smoke": ((256, "float64"),),
    "quick": ((1024, "float64"), (1024, "float32")),
    "full": tuple((n, dtype) for n in (2048, 4096) for dtype in ("float64", "float32")),
}
ON_GPUS = {"smoke": 1024, "quick": 16384, "full": 16384}
# How the spread parts are called, by the package of the system.
PEERS = {
    "torch": "PyTorch DTensor, {} ranks",
    "jax": "JAX NamedSharding, {} devices",
    "dask": "Dask array, {} workers",
}
GPU_PEERS = {"torch": "PyTorch DTensor, {}", "jax": "JAX NamedSharding, {}"}


def contenders(ranks: int) -> list[Contender]:
    """Return one process with all threads, the strategy, and every peer that is installed.

    Without any the peers alone: each says what is missing.
    """
    names = installed(PEERS)
    peers = [Contender(PEERS[name].format(ranks), {"package": name}, ranks, TASK) for name in names or PEERS]
    return [one_process(ranks), ranks_contender(SUBJECT, ranks), *peers] if names else peers


def gpu_contenders(problem: Problem, count: int) -> list[Contender]:
    """Return the strategy on so many GPUs, by the vendor's products and by the fastest ones, and every peer."""
    bases = dict.fromkeys((VENDOR, base_of(problem)))
    ours = [
        drawn_contender(problem, count, label=f"{SUBJECT}, {base.removeprefix('gpu-')}, {gpus(count)}", base=base)
        for base in bases
    ]
    arguments = {"problem": problem.to_json()}
    peers = [
        Contender(label.format(gpus(count)), {**arguments, "package": name}, count, GPU_TASK)
        for name, label in GPU_PEERS.items()
    ]
    return [*ours, *peers]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each product, on as many ranks as there are cores and on two at least; then on several GPUs."""
    shared = contenders(max(2, machine.cores))
    found = [product_case(Problem(n, n, n, dtype=dtype), shared) for n, dtype in PRODUCTS[preset]]
    if machine.gpus > 1:
        problems = [Problem(*[ON_GPUS[preset]] * 3, dtype=dtype) for dtype in ("float64", "float32")]
        found += [drawn_case(problem, gpu_contenders(problem, machine.gpus)) for problem in problems]
    return found


def over_others(cells: list[Cell], options: Json) -> Finding | None:
    """Return the speed of the fastest strategy of each case over the fastest other system."""
    values = []
    for case in rates.group(rates.contenders(cells), lambda cell: (cell.case, cell.run)).values():
        ours = [cell for cell in case if cell.is_ok and decomposition(cell) is not None]
        best = max(ours, key=lambda cell: cell.rate, default=None)
        other = rivals.fastest_peer(best, case) if best else None
        if best is not None and other is not None:
            values.append(Value(rates.speed_up(best, other), (best, other)))
    if not values:
        return None
    most, names = max(values, key=lambda value: value.number), {value.rival.contender for value in values}
    over = names.pop() if len(names) == 1 else "the fastest other system"
    return Finding(most.cell.contender, SPEED, values, over, judged=[(v.cell, v.rival) for v in values])


EXPERIMENT = Experiment(
    name="dist_peers",
    question="How fast are other systems that spread arrays over ranks, devices or workers?",
    cases=cases,
    figures=(
        Figure(
            "dist_peers",
            "bars",
            f"{SUBJECT} and other systems that spread arrays",
            {
                "panels": ["problem", "n", "device"],
                "largest": "n",
                "within": ["problem", "device"],
                "peak": False,
                "finding": over_others,
            },
            prominence=71,
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=60, precision=0.02)),
    order=47,
    is_asked=needs_many_cores,
)
