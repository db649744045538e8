"""Rate against block size, beside the caches that blocks are meant to stay in, and what model and balance ask for."""

from __future__ import annotations

from typing import Any

from experiments._parts import roofs
from experiments.ladder import peak_case
from harness.analysis import rates
from harness.analysis.findings.sentences import LEAST, PART, Finding, Value
from harness.analysis.traffic.model import balance_of, is_model
from harness.experiment import Budget, Case, Experiment, Figure, Json, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell

# Sweeps: backend, and the block sizes that take the value.
SWEEPS = {
    "tile": ("cpu-tiled", ("mc", "nc", "kc")),
    "kc": ("cpu-packed", ("kc",)),
    "mc": ("cpu-packed", ("mc",)),
    "nc": ("cpu-packed", ("nc",)),
}
# m, n and k of every sweep, and its longest block; what is swept is as long as its longest block.
SIZE = {"smoke": 96, "quick": 576, "full": 2048}
LONGEST = {"smoke": 96, "quick": 576, "full": 4096}
SMALLEST = {"smoke": 32, "quick": 32, "full": 32}
# Ratio of neighbouring values; of the sweeps in COARSE, along which rates change little, the second.
STEP, COARSE = {"smoke": (4, 4), "quick": (2, 4), "full": (2, 4)}, ("mc", "nc")
LENGTH = {"kc": "k", "mc": "m", "nc": "n"}

# Elements that must stay in cache for reuse, as a sum of products of block sizes.
WORKING_SETS = {
    "tile": (("mc", "kc"), ("kc", "nc"), ("mc", "nc")),
    "kc": (("mr", "kc"), ("kc", "nr")),
    "mc": (("mc", "kc"),),
    "nc": (("kc", "nc"),),
}
TITLES = {
    "tile": "cpu-tiled: tiles of A, B and C",
    "kc": "cpu-packed: micro-panels of A and B, by kc",
    "mc": "cpu-packed: block of A, by mc",
    "nc": "cpu-packed: row-panel of B, by nc",
}
# What passes while a block stays: from which memory, and how many elements for a pair, times the side of the block.
# A and B pass a square tile; C is read and written once in kc steps; B passes a block of A, A a row-panel of B.
PASSING = {"tile": ("memory", 2), "kc": ("L3", 2), "mc": ("L3", 1), "nc": ("memory", 1)}


def values(sweep: str, preset: str) -> list[int]:
    """Return the block sizes of a sweep, each `STEP` times the one before, and the whole of what is swept."""
    step = STEP[preset][sweep in COARSE]
    longest = LONGEST[preset] if sweep != "tile" else SIZE[preset]
    found = [SMALLEST[preset]]
    while found[-1] * step < longest:
        found.append(found[-1] * step)
    return [*found, longest]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return the roofs, and a case for each sweep, whose contenders are the values, and the blocks of the model."""
    all_cases: list[Case] = []
    for name, (backend, blocks) in SWEEPS.items():
        contenders = [
            backend_contender(backend, label=f"{backend} {name}={value}", **dict.fromkeys(blocks, value))
            for value in values(name, preset)
        ]
        model = backend_contender(backend, label=f"{backend} {name}=model")
        sizes: dict[str, Any] = dict.fromkeys("mnk", SIZE[preset])
        sizes |= {LENGTH[name]: LONGEST[preset]} if name in LENGTH else {}
        all_cases.append(product_case(Problem(**sizes), [*contenders, model], sweep=name))
    return [*all_cases, *roofs.on_cpu(machine), peak_case("plus_times")]


def chosen(cells: list[Cell], options: Json) -> Finding | None:
    """Return the part of the best rate of each sweep that the backend's own blocks have, and what others cost."""
    values, judged, costs = [], [], []
    for sweep, own in rates.group(rates.contenders(cells), lambda cell: rates.axis(cell, options["panels"])).items():
        done = sorted((cell for cell in own if cell.is_ok), key=lambda cell: cell.rate)
        model = next(filter(is_model, done), None)
        if model is not None and len(done) > 1:
            worst, best = done[0], done[-1]
            values.append(Value(exact(100 * model.rate / best.rate), (model,), place=sweep))
            judged += [(cell, best) for cell in (model, worst) if cell is not best]
            costs.append((best.rate / worst.rate, sweep))
    if not values:
        return None
    most, sweep = max(costs)
    balance = balance_of(values[0].cell, cells, *options["passing"]["tile"])
    notes = [f"A wrong {sweep} costs a factor of {most:.2g}"]
    notes += [f"Machine balance with {balance[1]} asks for tiles of {balance[0]:.0f}"] if balance else []
    over = "the best rate at least"
    return Finding("Blocks by the sizes of the caches", PART, values, over, LEAST, judged=judged, note="; ".join(notes))


EXPERIMENT = Experiment(
    name="block_size",
    question="Which block sizes are fast, and do the caches explain it?",
    cases=cases,
    figures=(
        Figure(
            "block_size",
            "working_set",
            "Rate against the working set of the blocks",
            {
                "panels": "sweep",
                "largest": "m",
                "working_sets": WORKING_SETS,
                "titles": TITLES,
                "passing": PASSING,
                "finding": chosen,
            },
            prominence=64,
        ),
    ),
    budget=Budget.presets(Budget(rounds=12, seconds=3), Budget(rounds=3, seconds=12, processes=3)),
    order=30,
)
