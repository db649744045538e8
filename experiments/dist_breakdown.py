"""The stages of a distributed product by strategy: what is computed, what is sent, and what only a first call takes.

``dist-root`` is the strategy of the course reports: scatter from rank 0, broadcast, reduce, gather to rank 0. It sends
by MPI, as their programs do. The others share memory, which ranks of one host do by default; beside them the plane of
ranks sends by MPI too, also with panels gathered ahead. On GPUs ``dist-root`` copies to them and back too. There the
engines stand side by side, panels in turn and ahead.
"""

from __future__ import annotations

from experiments._parts.gpu import DEVICE
from experiments._parts.gpu_ranks import AHEAD, ENGINES, IN_TURN, base_of, gpus
from experiments._parts.ranks import STRATEGIES, SUBJECT, or_absent, ranks_contender
from harness.experiment import Budget, Case, Contender, Experiment, Figure, needs_many_cores, product_case
from harness.machine import Machine
from harness.problem import Problem

PRODUCTS = {
    "smoke": ((256, "plus_times"),),
    "quick": ((1024, "plus_times"),),
    "full": ((4096, "plus_times"), (4096, "min_plus")),
}
GPU_SIZES = {"smoke": 512, "quick": 4096, "full": 8192}
FEWEST = ("dist-root",)  # what the smoke preset has: it begins on rank 0, and those by MPI do not
BY_MPI = {"transport": "mpi"}
# Panels of k in memory, all but one of them gathered ahead; the parts that k is cut into.
PANELS_AHEAD, PARTS_OF_K = 2, 4


def first_and_warm(made: Contender) -> Contender:
    """Return the contender whose first call is timed as well, the start of its ranks included."""
    return Contender(made.label, {**made.arguments, "first_call": True}, made.threads, made.task)


def contenders(ranks: int, n: int, strategies: tuple[str, ...] = STRATEGIES) -> list[Contender]:
    """Return every strategy on so many ranks, then the plane of ranks by MPI, all at once and panels ahead."""
    plain = [
        ranks_contender(strategy, ranks, label=strategy, **(BY_MPI if strategy == "dist-root" else {}))
        for strategy in strategies
    ]
    ahead = {"panel": n // PARTS_OF_K, "in_flight": PANELS_AHEAD}
    by_mpi = [
        ranks_contender("dist-2d", ranks, label="dist-2d, MPI", **BY_MPI),
        ranks_contender("dist-2d", ranks, label="dist-2d, MPI, overlapped", **BY_MPI, **ahead),
    ]
    return [first_and_warm(made) for made in (*plain, *by_mpi)]


def gpu_contenders(problem: Problem, ranks: int) -> list[Contender]:
    """Return the strategy whose data lie on the host, then every engine between GPUs, panels in turn and ahead."""
    options: dict[str, int | str] = {"base": base_of(problem), "panel": problem.k // PARTS_OF_K}
    made = [ranks_contender("dist-root", ranks, label=f"dist-root, {gpus(ranks)}", in_flight=IN_TURN, **options)]
    ways = {"in turn": IN_TURN, "ahead": AHEAD}
    for engine, called in ENGINES.items() if ranks > 1 else ():
        for way, in_flight in ways.items():
            label = f"{SUBJECT}, {called}, {way}"
            made.append(ranks_contender(SUBJECT, ranks, label=label, transport=engine, in_flight=in_flight, **options))
    return [first_and_warm(each) for each in made]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each product, on as many ranks as there are cores and on two at least."""
    ranks = max(2, machine.cores)
    strategies = FEWEST if preset == "smoke" else STRATEGIES
    found = [
        product_case(Problem(n, n, n, semiring), contenders(ranks, n, strategies), ranks=ranks)
        for n, semiring in PRODUCTS[preset]
    ]
    if machine.gpus:
        problem = Problem(*[GPU_SIZES[preset]] * 3)
        found.append(product_case(problem, gpu_contenders(problem, machine.gpus), ranks=machine.gpus, **DEVICE))
    return or_absent(found)


ONE_PRODUCT = {"largest": "n", "within": "semiring", "finding": "stages"}
EXPERIMENT = Experiment(
    name="dist_breakdown",
    question="Where does the time of a distributed product go, in the first call and in a warm one?",
    cases=cases,
    figures=(
        Figure(
            "dist_breakdown",
            "stages",
            "Where a distributed call spends its time",
            {**ONE_PRODUCT, "where": {"semiring": "plus_times", "device": None}},
            prominence=60,
        ),
        Figure(
            "dist_breakdown_gpu",
            "stages",
            "Where a distributed call on GPUs spends its time",
            {**ONE_PRODUCT, "where": {"device": "gpu"}},
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=60, precision=0.02)),
    order=43,
    is_asked=needs_many_cores,
)
