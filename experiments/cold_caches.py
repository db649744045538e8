"""The loss of a product whose operands are in no cache, as in a program that uses other data between products.

On a GPU the cache is L2: on an H200, operands and result fit up to about n = 1500 in float64.
"""

from __future__ import annotations

from experiments._parts.gpu import VENDOR, gpu_case
from harness.analysis import rates
from harness.analysis.findings.sentences import FIRST, LOSS, Finding, Value
from harness.experiment import COLD, HOT, Budget, Case, Experiment, Figure, Json, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell

CONTENDERS = [backend_contender(f"cpu-{name}") for name in ("numpy", "mkl", "simd")]
SIZES = {"smoke": (32,), "quick": (32, 128, 512), "full": (8, 16, 32, 64, 128, 256, 512, 1024)}
ON_GPU = [backend_contender(name) for name in ("gpu-tensor-core", VENDOR)]  # gemm takes the first
GPU_SIZES = {"smoke": (256,), "quick": (512, 1024, 2048, 4096), "full": (256, 512, 1024, 2048, 4096, 8192)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a square product for each size in the hot series, then in the cold one."""
    hot = [product_case(Problem(n, n, n), CONTENDERS) for n in SIZES[preset]]
    if machine.gpu:
        hot += [gpu_case(n, "plus_times", "float64", ON_GPU) for n in GPU_SIZES[preset]]
    return [*hot, *(case.cold() for case in hot)]


def cold(cells: list[Cell], options: Json) -> Finding | None:
    """Return the part of its rate that the subject loses to cold caches on the host, from the smallest size on."""
    timed = [c for c in rates.timed(cells) if rates.axis(c, "backend") == options["subject"]]
    own = {(c.axes.get("series", HOT), _product(c)): c for c in timed if not rates.is_on_device(c)}
    pairs = [(cell, own.get((HOT, product))) for (series, product), cell in own.items() if series == COLD]
    values = [
        Value(exact(max(0.0, 100 * (1 - cell.rate / hot.rate))), (cell, hot), rates.size(cell))
        for cell, hot in sorted(pairs, key=lambda pair: rates.axis(pair[0], "n"))
        if hot is not None
    ]
    return Finding(options["subject"], LOSS, values, "to operands in main memory", FIRST) if values else None


def _product(cell: Cell) -> tuple[object, ...]:
    return tuple(rates.axis(cell, name) for name in ("semiring", "dtype", "m", "n", "k", "threads"))


EXPERIMENT = Experiment(
    name="cold_caches",
    question="What does a product lose if its operands are in main memory and not in the caches?",
    cases=cases,
    figures=(
        Figure(
            "cold_caches",
            "lines",
            "Rate with hot and with cold caches",
            {"x": "n", "panels": ["problem", "device"], "subject": "cpu-simd", "finding": cold},
            prominence=66,
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=4), Budget(rounds=10, seconds=2, processes=3, precision=0.02)),
    order=26,
)
