"""What ``backend="auto"`` loses: its calls beside those of every backend that it may take, over shapes and dtypes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from experiments._parts.choice_task import AUTO
from experiments._parts.gpu import DEVICE
from experiments._parts.peers import thread_counts
from harness import registry
from harness.analysis import rates, rivals
from harness.analysis.conditions import is_firm
from harness.analysis.findings import regret
from harness.analysis.findings.sentences import MEDIAN, TIME, Finding, Value
from harness.dtypes import MIXED, mixed_dtypes
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json, product_case
from harness.interface import Backend
from harness.machine import Machine
from harness.problem import Problem
from harness.store.store import Cell
from harness.tuning.choice.contenders import FIRST_STEP

TASK = "experiments._parts.choice_task:call"
HOST, GPU = "host", "gpu"

# A product: m, n, k, and how many of them or a triangle, if so.
Shape = tuple[int, ...]

# Semirings and dtypes of which all shapes are swept, and those of which a few are.
MAIN = ("plus_times float64", "plus_times float32", "plus_times bfloat16", "min_plus float32")
OTHERS = (
    "plus_times float16",
    "plus_times int8 to int32",
    "plus_times int32",
    "plus_times int64",
    "min_plus float64",
    "max_times float32",
    "lor_land bool",
    "logaddexp_plus float32",
)
# Sizes, of which few are those that a table was measured at (`harness.autotune.grid`).
SQUARES = {
    "smoke": (48,),
    "quick": (33, 257, 512),
    "full": (32, 33, 100, 128, 200, 255, 512, 640, 777, 1000, 1025, 2047, 2048),
}
LARGE = {"smoke": (), "quick": (1531, 4096), "full": (3000, 4096, 4097, 8192, 16384)}
THIN = {
    "smoke": (),
    "quick": ((20, 2000, 2000), (2000, 2000, 20)),
    "full": (
        (20, 2000, 2000), (2000, 20, 2000), (2000, 2000, 20), (64, 64, 20000), (31, 31, 5000), (5000, 31, 5000),
        (300, 3000, 500), (2000, 2000, 1), (1500, 1500, 4), (100_000, 96, 96), (3000, 3001, 64),
    ),
}  # fmt: skip
VECTORS = {"smoke": (), "quick": ((1, 1000, 1000), (3000, 1, 1000)), "full": ((1, 1000, 1000), (3000, 1, 1000),
           (1, 77, 5000), (1, 4096, 4096), (8000, 1, 8001), (50_000, 1, 30))}  # fmt: skip
BATCHES = {"smoke": (), "quick": ((16, 16, 16, 1000),), "full": ((8, 8, 8, 512), (16, 16, 16, 1000),
           (31, 31, 31, 500), (64, 64, 64, 512), (100, 100, 100, 64), (256, 256, 256, 20))}  # fmt: skip
OF_OTHERS = {
    "smoke": (),
    "quick": ((100, 100, 100), (513, 513, 513)),
    "full": ((64, 64, 64), (100, 100, 100), (513, 513, 513), (1024, 1024, 1024), (2000, 2000, 30), (30, 2000, 2000)),
}
TRIANGLES = {"smoke": (), "quick": ((500, 500, 500),), "full": ((100, 100, 1000), (500, 500, 500), (2000, 2000, 256))}

# On a GPU the quick preset sweeps these alone: each contender has kernels that may have to be compiled.
QUICK_ON_GPU = {
    *itertools.product(MAIN[1:3], (*((n, n, n) for n in (512, 1531, 4096)), *THIN["quick"], VECTORS["quick"][1])),
    *itertools.product(MAIN[:1], ((1531, 1531, 1531), THIN["quick"][0])),
    *((words, (513, 513, 513)) for words in ("plus_times float16", "plus_times int32", "plus_times int64")),
    *((words, VECTORS["quick"][1]) for words in MAIN[3:]),
    *((words, BATCHES["quick"][0]) for words in MAIN[1:2]),
    *((words, TRIANGLES["quick"][0]) for words in MAIN[1:2]),
}

# On the host: most operations of a product for each thread; most pairs by a backend that is a loop of ufuncs.
MOST_OPERATIONS, MOST_PAIRS = {"smoke": 1e9, "quick": 3e8, "full": 2e10}, 4e6


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return the case of every product that leaves a choice: on the host with one thread and all, and on the GPU."""
    counts = thread_counts(machine)
    if preset != "full":  # with all threads alone
        counts = dict(list(counts.items())[-1:])
    all_cases = []
    for words, shape, triangle in _products(preset):
        problem = _problem(words, shape, triangle)
        if problem is None:
            continue
        has_choice = {place: len(_candidates(problem, on_device=place == GPU)) > 1 for place in (HOST, GPU)}
        is_swept = preset == "full" or words == MAIN[0] or shape in ((33, 33, 33), (100, 100, 100))
        for name, threads in counts.items() if has_choice[HOST] and is_swept else ():
            if problem.operations <= threads * MOST_OPERATIONS[preset] and max(shape) < 16384:
                all_cases.append(_case(problem, shape, f"{words}, {name}", HOST, threads))
        if machine.gpu and has_choice[GPU] and (preset != "quick" or (words, shape) in QUICK_ON_GPU):
            all_cases.append(_case(problem, shape, words, GPU, 1))
    return all_cases


def _products(preset: str) -> Iterator[tuple[str, Shape, str]]:
    """Yield semiring and dtype, sizes and triangle of every product."""
    squares = [(n, n, n) for n in (*SQUARES[preset], *LARGE[preset])]
    of_main: Sequence[Shape] = [*squares, *THIN[preset], *VECTORS[preset], *BATCHES[preset]]
    others = OTHERS if preset == "full" else OTHERS[:-3]  # each of the others has a kernel to be compiled
    for words, shape in itertools.chain(itertools.product(MAIN, of_main), itertools.product(others, OF_OTHERS[preset])):
        yield words, shape, ""
    for words, shape in itertools.product(MAIN[:2], TRIANGLES[preset]):
        yield words, shape, "d"


def _problem(words: str, shape: Shape, triangle: str) -> Problem | None:
    """Return a product; None where bfloat16 is not installed."""
    semiring, narrow, *wide = words.replace(" to ", " ").split()
    mixed = {x.name: x for x, _ in mixed_dtypes()}
    is_mixed = bool(wide) or narrow in ("bfloat16", "float16")
    if is_mixed and narrow not in mixed:
        return None
    dtype, operands = (np.dtype(MIXED[narrow]), mixed[narrow]) if is_mixed else (np.dtype(narrow), None)
    m, n, k, *products = shape
    return Problem(m, n, k, semiring, dtype, operand_dtype=operands, triangle=triangle, batch=tuple(products))  # type: ignore[arg-type]


def _case(problem: Problem, shape: Shape, setting: str, place: str, threads: int) -> Case:
    names = (AUTO, *_candidates(problem, on_device=place == GPU))
    contenders = [Contender(name, {"name": name}, threads, TASK) for name in names]
    products = f"{shape[3]} of " if len(shape) > 3 else ""
    words = products + " x ".join(map(str, shape[:3])) + (", a triangle" if problem.triangle else "")
    axes = {"shape": words, "setting": setting, "place": place, **(DEVICE if place == GPU else {})}
    case = product_case(problem, contenders, **axes)
    return dataclasses.replace(case, arguments={**case.arguments, "where": place})


def _candidates(problem: Problem, *, on_device: bool) -> list[str]:
    """Return the backends that auto may take without a user's own table, whether or not they are available here.

    On the host not NumPy's loops of ufuncs for more pairs than `MOST_PAIRS`: they take tens of times as long there.
    """
    one, names = problem.of_one(), []
    for backend in (entry.backend for entry in registry.discover() if entry.backend):
        is_meant = ("device arrays" in backend.takes) == on_device and backend.step >= FIRST_STEP[on_device]
        is_slow = backend.name == "cpu-numpy" and problem.pairs > MOST_PAIRS and not _is_blas(problem)
        if is_meant and not is_slow and registry.refusal(backend, one) is None and not _is_barred(backend, one):
            names.append(backend.name)
    return names


def _is_barred(backend: Backend, problem: Problem) -> bool:
    is_other = backend.loosens(problem) or not backend.keeps_arithmetic(problem)
    return is_other or backend.is_optional or backend.starts_processes


def _is_blas(problem: Problem) -> bool:
    return problem.semiring.is_ordinary and problem.dtype.kind == "f" and not problem.is_mixed


LITTLE = 1.10  # regrets up to this are of no account


def lost(cells: list[Cell], options: Json) -> Finding | None:
    """Return the time of auto over that of the best backend: the median; of those that it missed the worst."""
    own = [cell for cell in rates.contenders(cells) if cell.contender == options["subject"]]
    values = [Value(at, (c,), place=_product(c, cells)) for c in own if (at := regret.regret(c, cells)) is not None]
    missed = [(at, cell) for at, cell in regret.missed(own, cells)]
    firm = [cell for at, cell in missed if is_firm(cell) and at.low > LITTLE]
    notes = [f"It took the fastest backend for {len(values) - len(missed)} of {len(values)} products"]
    if missed:
        at, cell = max(missed, key=lambda entry: (entry[1] in firm, entry[0]))
        samples = rates.plural(len(cell.all_samples_ns), "sample")
        chance = "" if cell in firm or at.estimate <= LITTLE else f"; may be chance: {samples}"
        notes.append(f"of the others at worst {at.estimate:.2f} ({_product(cell, cells)}{chance})")
        notes += [f"{len(firm)} are certainly above {LITTLE:.2f}"] if len(firm) > 1 else []
    return Finding(AUTO, TIME, values, "the best backend", MEDIAN, note="; ".join(notes)) if values else None


def _product(cell: Cell, cells: list[Cell]) -> str:
    best = rivals.fastest_other(cell, cells)
    return f"{rates.axis(cell, 'setting')}, {rates.axis(cell, 'shape')}" + (f": {best.contender}" if best else "")


def _figure(name: str, place: str, title: str) -> Figure:
    options = {
        "rows": "setting",
        "subject": AUTO,
        "value": "regret",
        "where": {"place": place},
        "finding": lost,
        "spread": False,  # of a row of many products samples would hide the medians
        "note": "A dot is the median of a product. Where auto took the fastest backend, both sides run the same code, "
        "in processes of their own; a miss is a product where another was faster.",
    }
    return Figure(name, "strip", title, options)


EXPERIMENT = Experiment(
    name="auto_regret",
    question="How much time does the automatic choice lose to the best backend that it could have taken?",
    cases=cases,
    figures=(
        _figure("auto_regret", HOST, "The choice of auto on the host, a dot a product"),
        _figure("auto_regret_gpu", GPU, "The choice of auto on the GPU, a dot a product"),
    ),
    budget=Budget.presets(
        Budget(rounds=5, seconds=0.4, sample_ms=1),
        Budget(rounds=5, seconds=0.4, processes=3, sample_ms=2, precision=0.02),
    ),
    order=18,
)
