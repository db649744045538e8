"""Small products on a GPU: up to some size the launch on the host takes longer than the computation."""

from __future__ import annotations

from experiments._parts.call_task import CUPY, GEMM, MIN_PLUS, contender
from experiments._parts.gpu import SUBJECT, VENDOR, gpu_case, or_absent
from harness.analysis import rates
from harness.analysis.conditions import is_launch_bound
from harness.analysis.findings.sentences import Finding, Measure, Value
from harness.experiment import Budget, Case, Experiment, Figure, Goal, Json, backend_contender
from harness.machine import Machine
from harness.stats.statistics import exact
from harness.store.store import Cell

SIZES = {
    "smoke": (64,),
    "quick": (16, 32, 64, 128, 256, 384, 512, 768, 1024),
    "full": (16, 24, 32, 48, 64, 96, 127, 128, 192, 256, 257, 384, 512, 640, 768, 896, 1024),
}
CONTENDERS = {"plus_times": (SUBJECT, VENDOR), "min_plus": (SUBJECT,)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each semiring and size."""
    all_cases = [
        gpu_case(n, semiring, "float32", map(backend_contender, names))
        for semiring, names in CONTENDERS.items()
        for n in SIZES[preset]
    ]
    if preset == "full":
        all_cases += [_launched(n) for n in (64, 256, 512, 1024)]
        all_cases += [
            _first(*kind) for kind in (("max_times", "float32"), ("max_min", "float64"), ("plus_min", "int32"))
        ]
    return or_absent(all_cases, machine)


def _launched(n: int) -> Case:
    """Return the case of what the host spends on a call."""
    contenders = [contender(name, where="gpu", host_time=True) for name in (CUPY, GEMM, MIN_PLUS)]
    return gpu_case(n, "plus_times", "float32", contenders, role="host time")


def _first(semiring: str, dtype: str) -> Case:
    """Return the case whose facts are the times of the first call of a kind, and of its first calls of other sizes."""
    return gpu_case(600, semiring, dtype, [contender(GEMM, where="gpu", after=[599, 583, 553])], role="first call")


# Many calls in each sample, so that the host does nothing but launch.
BOUND = Measure("takes", "take", "no longer than its launch {}")


def launch_bound(cells: list[Cell], options: Json) -> Finding | None:
    """Return up to which size the subject computes in no more time than the host takes to launch it, by problem."""
    own = [cell for cell in rates.timed(cells) if cell.contender == options["subject"]]
    values = []
    for problem, alike in rates.group(own, lambda cell: str(rates.axis(cell, "problem"))).items():
        most = max((rates.axis(cell, "n") for cell in alike if is_launch_bound(cell)), default=0)
        values.append(Value(exact(most), place=problem, words=f"up to n={most}" if most else "at no size"))
    return Finding(f"A product by {options['subject']}", BOUND, values) if values else None


EXPERIMENT = Experiment(
    name="gpu_small_products",
    question="Up to which size does a product on a GPU take less time than its launch?",
    cases=cases,
    figures=(
        Figure(
            "gpu_small_products",
            "lines",
            "Small products on the GPU, and what it takes to launch them",
            {
                "where": {"role": None},
                "x": "n",
                "panels": "problem",
                "value": "time",
                "y_scale": "log",
                "launches": True,
                "subject": SUBJECT,
                "finding": launch_bound,
            },
        ),
    ),
    budget=Budget.presets(
        Budget(rounds=10, seconds=1, sample_ms=1),
        Budget(rounds=20, seconds=4, sample_ms=1, processes=3, precision=0.01),
        smoke=Budget(rounds=2, seconds=0.1, sample_ms=1),
    ),
    order=66,
    goals=(
        Goal(GEMM, 1 / 1.5, CUPY),
        Goal(MIN_PLUS, 1 / 2.5, CUPY),
        Goal(GEMM, 1.0, fact="first_s", where={"role": "first call"}),
        Goal(GEMM, 0.01, fact="longest_after_s", where={"role": "first call"}),
    ),
)
