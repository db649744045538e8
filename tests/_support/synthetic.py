"""Cells that were never measured, for tests of what is drawn and written from them."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Mapping

from experiments.ladder import LESSON
from harness.analysis.rates import READ
from harness.experiment import Case, Experiment
from harness.interface import Nest
from harness.machine import Machine
from harness.plan import Blocking
from harness.problem import Problem
from harness.store.store import Cell

MACHINE = Machine(
    cpu="Test CPU", cores=4, threads=4, l1d=32 << 10, l2=1 << 20, l3=8 << 20, packages={"numpy": "2.0", "numba": "0.60"}
)
PEAK, BANDWIDTH = 50.0, 20.0  # G operations/s, GB/s
SAMPLES = 8
CAPACITIES = {"L2": 8 << 20, "shared": 1 << 17}  # of a GPU
LIBRARIES = ("cpu-numpy", "gpu-cublas")
NEST = Nest.of(("j", 64), ("p", 64), ("i", 64), ("j", 4), ("i", 4), ("p", 1, "registers"))
RATES = {"cpu-naive": 1.0, "cpu-transposed": 2.0, "cpu-tiled": 4.0, "cpu-packed": 10.0, "cpu-numpy": 40.0}


def cells(
    experiment: Experiment, preset: str = "quick", *, failing: tuple[str, ...] = (), machine: Machine = MACHINE
) -> list[Cell]:
    """Return cells for every case: backends in `failing` failed, the others have the rate of `RATES`."""
    cases = experiment.cases(preset, machine)
    noise = random.Random(1)
    return [
        _cell(experiment, preset, case, index, noise, failing)
        for case in cases
        for index in range(len(case.contenders))
    ]


def _cell(
    experiment: Experiment, preset: str, case: Case, index: int, noise: random.Random, failing: tuple[str, ...]
) -> Cell:
    contender = case.contenders[index]
    arguments = {**case.arguments, **contender.arguments}
    facts, elapsed_ns = _facts(arguments, contender.threads, contender.label)
    is_product = case.axes.get("role") in (None, "product", LESSON)
    failed = arguments.get("backend") in failing or ("all" in failing and is_product)
    samples = [elapsed_ns * noise.uniform(0.99, 1.01) for _ in itertools.repeat(None, SAMPLES)]
    return Cell(
        experiment=experiment.name,
        preset=preset,
        case=case.key,
        axes=case.axes,
        contender=contender.label,
        arguments=contender.arguments,
        threads=contender.threads,
        reference=case.reference,
        status="failed" if failed else "ok",
        reason="element [3, 4] differs | by much\n  expected 1" if failed else "",
        samples_ns=[] if failed else [samples],
        facts={} if failed else facts,
        machine=MACHINE.key,
        key=f"{case.key}-{index}",
        run="20260101T000000",
        time="2026-01-01T00:00:00+00:00",
        record={"unmet": "", "commit": "abc"},
    )


def _facts(arguments: dict, threads: int, label: str) -> tuple[dict, float]:
    if label == READ and "problem" in arguments:  # in turns with a product
        size = Problem.from_json(dict(arguments["problem"])).bytes_moved
        return {"operations": 0, "bytes_moved": size}, size / BANDWIDTH
    if "size_bytes" in arguments or "level" in arguments:
        capacity = arguments.get("capacity_bytes", CAPACITIES.get(arguments.get("level"), 0))
        return {"bytes_moved": 10**6, "capacity_bytes": capacity}, 10**6 / BANDWIDTH
    computed_by = arguments.get("backend", arguments.get("name"))
    if computed_by is None or "problem" not in arguments:
        return {"operations": 10**6, "residual": 1e-7, "share": 0.25}, 10**6 / PEAK
    problem = Problem.from_json(dict(arguments["problem"]))
    blocks = {**Blocking(64, 64, 64, 4, 4).__dict__, **arguments.get("parameters", {})}
    facts = {
        "operations": problem.operations,
        "bytes_moved": problem.bytes_moved,
        "plan": {"threads": threads, **blocks},
        "problem": problem.to_json(),
        **({} if computed_by in LIBRARIES else {"nest": NEST.to_json()}),
    }
    return facts, problem.operations / (RATES.get(computed_by, 5.0) * threads)


def at_rates(experiment: Experiment, rates: Mapping[str, float], preset: str = "quick", **where: object) -> list[Cell]:
    """Return cells of one case of an experiment: of each contender called in `rates`, at that rate."""
    some = [cell for cell in cells(experiment, preset) if all(cell.axes.get(k) == v for k, v in where.items())]
    own = {cell.contender: cell for cell in some}
    return [
        dataclasses.replace(own[name], samples_ns=[[own[name].facts["operations"] / rate] * SAMPLES])
        for name, rate in rates.items()
    ]
