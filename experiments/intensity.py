"""Theory beside measurement: the rate that the loads of each rung allow, and the rate that it has.

Beside whole tiles a size is measured whose rows do not lie a power of two apart. How lines meet in the sets of a cache
is not in the model, and is seen in the difference.
"""

from __future__ import annotations

import math

from experiments._parts import gpu, roofs
from experiments.ladder import STEPS
from harness import registry
from harness.analysis import peaks, rates
from harness.analysis.findings.sentences import LEAST, Finding, Measure, Value
from harness.analysis.traffic import bounds, model
from harness.analysis.traffic.loads import depth_in, loads
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell

# The peak is timed in turns with the rungs: what slows the core down slows both.
RUNGS = (*STEPS, backend_contender("cpu-simd"), Contender("peak", task="backends.cpu._ceilings:peak_of"))
SIZES = {"smoke": (96,), "quick": (500, 512), "full": (1000, 1024)}
SEMIRINGS = {"smoke": ("plus_times",), "quick": ("plus_times",), "full": ("plus_times", "min_plus")}

ON_GPU = "naive row tiled register-tiled warp-tiled pipelined tuned".split()
GPU_SIZES = {"smoke": (256,), "quick": (4096,), "full": (2048, 4096, 8192)}
GPU_DTYPES = {"smoke": ("float32",), "quick": ("float32",), "full": ("float32", "float64")}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return the roofs of each memory and of arithmetic, and the rungs of the host and of a GPU."""
    names = SEMIRINGS[preset]
    problems = [Problem(n, n, n, name) for name in names for n in SIZES[preset]]
    products = [product_case(problem, list(RUNGS), role="product") for problem in problems]
    on_host = [*roofs.on_cpu(machine), *products]
    return on_host + (_gpu_cases(preset) if machine.gpu else [])


def _gpu_cases(preset: str) -> list[Case]:
    kinds = [(name, dtype) for name in SEMIRINGS[preset] for dtype in GPU_DTYPES[preset]]
    products = [gpu.gpu_case(n, *kind, gpu_rungs()) for kind in kinds for n in GPU_SIZES[preset]]
    return [*roofs.on_gpu(), *(gpu.peak_case(*kind) for kind in kinds), *products]


def gpu_rungs() -> list[Contender]:
    """Return the rungs of a GPU that this project has."""
    known = {entry.name for entry in registry.discover()}
    return [backend_contender(f"gpu-{name}") for name in ON_GPU if f"gpu-{name}" in known]


EXPLAINED = 1.3  # a rung is explained if its prediction is off by no more than this factor
EXPLAINS = Measure("explains", "explain", f"{{}} of {{over}} within a factor of {EXPLAINED}")
MOVES = Measure("moves", "move", "{} times the least {over}")


def explained(cells: list[Cell], options: Json) -> Finding | None:
    """Return how many rates loads alone predict, and which one is furthest from its prediction."""
    ratios = ((model.over_measured(cell, cells), cell) for cell in rates.timed(cells))
    found = [(ratio, cell) for ratio, cell in ratios if ratio is not None]
    if not found:
        return None
    near = sum(1 / EXPLAINED <= ratio <= EXPLAINED for ratio, _ in found)
    ratio, cell = max(found, key=lambda entry: abs(math.log(entry[0])))
    note = f"{cell.contender} is furthest off, at {1 / ratio:.2g} of the rate that its loads allow ({rates.size(cell)})"
    judged = [(cell, peaks.peak_of(cell, cells)) for _, cell in found]
    values = [Value(exact(near), words=str(near))]
    return Finding("The model of loads", EXPLAINS, values, f"{len(found)} rates", judged=judged, note=note)


def over_bound(cells: list[Cell], options: Json) -> Finding | None:
    """Return how many times the least loads of any order of loops the rungs of the host move into L1."""
    values = []
    for cell in rates.contenders(cells):
        nest = model.nest_of(cell) if cell.is_ok and not rates.is_on_device(cell) else None
        level = next((memory for memory in model.levels(cell, cells) if memory.name == "L1"), None)
        if nest is None or level is None:
            continue
        sizes, size = model.sizes_of(cell), model.itemsize(cell)
        depth = depth_in(nest, sizes, size, level.capacity, size)
        least = bounds.least_loads(sizes["i"], sizes["j"], sizes["p"], level.capacity / size)
        if depth and least:
            values.append(Value(exact(loads(nest, sizes, 1, depth).total / least), place=cell.contender))
    return Finding("The best rung", MOVES, values, "of any order of loops into L1", LEAST) if values else None


PANELS = {"panels": ["problem", "n", "device"]}
ORDINARY = {"semiring": "plus_times"}  # others move as much
EXPERIMENT = Experiment(
    name="intensity",
    question="Do loads alone explain how fast each rung of the ladder is?",
    cases=cases,
    figures=(
        Figure(
            "intensity",
            "predicted",
            "The rate that loads allow beside the measured one, rung by rung",
            {**PANELS, "where": ORDINARY, "finding": explained},
        ),
        Figure(
            "intensity_bound",
            "reuse",
            "Loads through a fast memory of any size, and the bound of Hong and Kung",
            {**PANELS, "where": {**ORDINARY, "n": [96, 512, 1024], "device": None}, "finding": over_bound},
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=3), Budget(rounds=3, seconds=8, processes=3)),
    order=61,
)
