"""Cells of experiments on ranks that were never measured: their times are those of the model, or off by a factor."""

from __future__ import annotations

import dataclasses

import numpy as np

from harness.distributed.choice.model import Rates, choose_grid, memory_bytes, predict
from harness.distributed.choice.volumes import grids, lower_bound
from harness.distributed.grid import BLOCKS, FACES, Decomposition, Grid
from harness.distributed.links import Link
from harness.distributed.transport.base import Schedule
from harness.experiment import Experiment
from harness.machine import Machine
from harness.problem import Problem
from harness.store.store import Cell
from tests._support.synthetic import MACHINE, cells

TWO_GPUS = dataclasses.replace(MACHINE, gpu={"name": "Test GPU", "driver": "1", "memory_mib": "143771", "count": "2"})
RATES = Rates(10e9, Link(4e9, 5e-6, 1.2e9), start_s=10e-6)
COMMAND_S = 20e-6
FLAT = {"dist-1d": "nk", "dist-2d": "k"}


def planted(
    experiment: Experiment, preset: str = "quick", *, off: float = 1.0, machine: Machine = MACHINE
) -> list[Cell]:
    """Return cells of every case; products on several ranks take `off` times what the model says."""
    return [_counted(_timed(cell, off)) for cell in cells(experiment, preset, machine=machine)]


def _timed(cell: Cell, off: float) -> Cell:
    parameters = cell.arguments.get("parameters", {})
    if "ranks" not in parameters:
        return cell if "package" not in cell.arguments else dataclasses.replace(cell, facts=_work(cell))
    problem, ranks, backend = cell.facts["problem"], parameters["ranks"], cell.arguments["backend"]
    word = np.dtype(problem["dtype"]).itemsize
    m, n, k, layout = problem["m"], problem["n"], problem["k"], FACES if backend == "dist-root" else BLOCKS
    chosen = choose_grid(m, n, k, ranks, word, rates=RATES, layout=layout, flat=FLAT.get(backend, ""))
    grid = chosen if parameters.get("grid", "auto") == "auto" else Grid.parse(parameters["grid"])
    sizes = Decomposition(m, n, k, grid, layout)
    panels = parameters.get("panel", "auto"), parameters.get("in_flight", "auto")
    schedule = Schedule.of(*panels, k=k, on_device=cell.axes.get("device") == "gpu")
    is_overlapped = len(sizes.panels(0, schedule.panel)) > 1 and schedule.in_flight > 1
    told = predict(sizes, word, RATES, panel=schedule.panel, overlapped=is_overlapped)
    exposed_s = told.total_s - told.compute_s - told.reduce_s
    moved = m * k + k * n + m * n - sizes.a(0).words - sizes.b(0).words - sizes.d(0).words
    scattered_s = moved * word / RATES.link.bytes_per_s if backend == "dist-root" else 0.0
    factor = off if ranks > 1 and cell.axes.get("role") != "link" else 1.0
    total_s = (told.total_s + scattered_s + COMMAND_S) * factor
    gathered = {"exposed communication": exposed_s} if is_overlapped else {"gather B": told.gather_s}
    stages = {"redistribute": scattered_s, **gathered, "compute": told.compute_s, "reduce": told.reduce_s}
    stages |= {} if is_overlapped else {"rest": COMMAND_S}
    words = sizes.most(lambda rank: sum(sizes.words(rank).values()))
    facts = {**cell.facts, "grid": str(grid), "layout": layout.name, "words": words, "software": {"mpi": "MPICH 5.0.2"}}
    facts |= {"panel": schedule.panel, "in_flight": schedule.in_flight}
    if cell.arguments.get("first_call"):
        facts["first_call_s"] = {"start of ranks": 1.0, "load": 0.5, "allocate": 0.01, **stages}
    samples = [1e9 * total_s] * 6
    readings = {name: [[1e9 * seconds] * len(samples)] for name, seconds in stages.items()}
    return dataclasses.replace(cell, facts=facts, samples_ns=[samples], record={**cell.record, "readings": readings})


def _work(cell: Cell) -> dict:
    """Return the facts of a peer, which names no backend."""
    problem = Problem(*(cell.axes[x] for x in ("m", "n", "k", "semiring")), np.dtype(cell.axes["dtype"]))
    return {"operations": problem.operations, "bytes_moved": problem.bytes_moved, "problem": problem.to_json()}


def _counted(cell: Cell) -> Cell:
    if "variants" not in cell.arguments:
        return cell
    n, ranks = cell.axes["n"], cell.arguments["ranks"]
    counts = [
        _count(variant, Decomposition(n, n, n, g)) for variant in cell.arguments["variants"] for g in grids(ranks)
    ]
    return dataclasses.replace(cell, facts={**cell.facts, "grids": counts})


def _count(variant: dict, sizes: Decomposition) -> dict:
    """Return a count: words are those of the formula, bytes are half of it."""
    words = sizes.most(lambda rank: sum(sizes.words(rank).values()))
    needed = memory_bytes(sizes, 8, panel=variant["panel"])
    return {
        **variant,
        "grid": str(sizes.grid),
        "words": words,
        "formula_words": words,
        "bound_words": lower_bound(sizes.m, sizes.n, sizes.k, sizes.grid.size),
        "bytes": needed,
        "formula_bytes": 2 * needed,
        "bound_bytes": 8 * (sizes.m * sizes.k + sizes.k * sizes.n + sizes.m * sizes.n) / sizes.grid.size,
    }
