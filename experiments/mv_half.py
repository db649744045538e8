"""Products that use half of a matrix, against the whole product: symv reads half of A, syrk and syr write half of D."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from experiments._parts import vectors
from experiments._parts.gpu import BANDWIDTH_TASK, DEVICE
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal, backend_contender
from harness.machine import Machine
from harness.problem import Problem

# Routine: triangle, and what else its problem has.
ROUTINES = {"symv": {"triangle": "a"}, "syrk": {"triangle": "d"}, "syr": {"triangle": "d", "accumulate": True}}
# Sizes m, n, k of each routine, on the CPU and on a GPU.
SIZES = {
    "smoke": (("symv", (256, 1, 256)), ("syrk", (96, 96, 64)), ("syr", (256, 256, 1))),
    "quick": (("symv", (4096, 1, 4096)), ("syrk", (1024, 1024, 512)), ("syr", (4096, 4096, 1))),
    "full": (
        *(("symv", (n, 1, n)) for n in (2000, 8192, 16384)),
        *(("syrk", (n, n, 1024)) for n in (512, 1024, 2048, 4096)),
        *(("syr", (n, n, 1)) for n in (2000, 8192, 16384)),
    ),
}
GPU_SIZES = {
    "smoke": SIZES["smoke"],
    "quick": (
        *(("symv", (n, 1, n)) for n in (4096, 8192)),
        *(("syrk", (n, n, n)) for n in (1024, 4096, 8192)),
        ("syr", (8192, 8192, 1)),
    ),
    "full": (
        *(("symv", (n, 1, n)) for n in (1000, 2000, 4096, 8192, 16384, 32768)),
        *(("syrk", (n, n, n)) for n in (1024, 2048, 4096, 8192)),
        *(("syr", (n, n, 1)) for n in (4096, 16384)),
    ),
}
DTYPES = {"smoke": ("float32",), "quick": ("float32",), "full": ("float32", "float64")}
SEMIRINGS = {"smoke": ("plus_times",), "quick": ("plus_times",), "full": ("plus_times", "min_plus")}

# Updates of as many elements, by m and n, the triangle, and how often they move these elements.
UPDATED = 16384
UPDATES = {
    "ger": ((UPDATED, UPDATED), "", 2),
    "syr": ((UPDATED, UPDATED), "d", 1),
    "axpy": ((UPDATED**2, 1), "", 3),
}
WHOLE_PRODUCT = "whole product"
# Who computes the whole product, by routine, then who computes half of it. Those of `BASED` have whole products
# computed by another backend, their base. It is that of the whole product: their times differ by the triangle alone.
WHOLE = dict.fromkeys(ROUTINES, "cpu-simd")
HALVES = dict.fromkeys(ROUTINES, ("cpu-simd", "cpu-triangle"))
BASED = ("cpu-triangle", "gpu-triangle")
GPU_WHOLE = {"symv": "gpu-mv-tuned", "syrk": "gpu-tuned", "syr": "gpu-tuned"}
GPU_HALVES = {
    "symv": ("gpu-symv", "gpu-triangle", "gpu-cublas-triangle"),
    "syrk": ("gpu-tuned", "gpu-triangle", "gpu-cublas-triangle"),
    "syr": ("gpu-rank-update", "gpu-triangle", "gpu-cublas-triangle"),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each routine and size, the whole product first."""
    whole_set = machine.gpu and preset == "full"
    places = [("", SIZES[preset], WHOLE, HALVES, machine.cores)]
    if machine.gpu:
        places.append(("gpu", GPU_SIZES[preset], GPU_WHOLE, GPU_HALVES, 1))
    return [
        _case(
            routine,
            Problem(*sizes, semiring, dtype),
            *_names(routine, semiring, dtype, whole, halves),
            threads,
            device,
            machine,
        )
        for device, shapes, whole, halves, threads in places
        for semiring in SEMIRINGS[preset]
        for dtype in DTYPES[preset]
        for routine, sizes in shapes
    ] + ([_update(routine, dtype) for dtype in DTYPES[preset] for routine in UPDATES] if whole_set else [])


def _names(
    routine: str, semiring: str, dtype: str, whole: Mapping[str, str], halves: Mapping[str, tuple[str, ...]]
) -> tuple[str, tuple[str, ...]]:
    """Return who computes the whole product, and who half of it: tensor cores are faster over float64."""
    base, others = whole[routine], halves[routine]
    if (base, routine, semiring, dtype) == ("gpu-tuned", "syrk", "plus_times", "float64"):
        return "gpu-tensor-core", ("gpu-tensor-core", *others[1:])
    return base, others


def _case(
    routine: str, whole: Problem, base: str, halves: tuple[str, ...], threads: int, device: str, machine: Machine
) -> Case:
    """Return a case whose first contender computes all that others need half of; declined if memory is too small."""
    half = dataclasses.replace(whole, **ROUTINES[routine])
    full = dataclasses.replace(half, triangle="")
    entries = [(WHOLE_PRODUCT, base, full), *((name, name, half) for name in halves)]
    contenders = tuple(
        backend_contender(
            name, label=label, threads=threads, problem=problem, **({"base": base} if name in BASED else {})
        )
        for label, name, problem in entries
    )
    place = {"semiring": whole.semiring.name, "dtype": whole.dtype.name, "m": whole.m, "n": whole.n, "k": whole.k}
    axes = {**place, "routine": routine, "size": f"{routine}, {whole.m:,} x {max(whole.n, whole.k):,}"}
    if device:
        return Case({**axes, "device": device}, contenders, {"seed": 1})
    able = vectors.fits(full.bytes_moved, machine)
    return Case(axes, contenders if able else vectors.out_of_memory(contenders), {"seed": 1} if able else {})


def _update(routine: str, dtype: str) -> Case:
    """Return the case of an update on the GPU, beside a copy that moves as many bytes."""
    (m, n), triangle, moved = UPDATES[routine]
    problem = Problem(m, n, 1, dtype=dtype, accumulate=True, triangle=triangle)
    copy = Contender("copy", {"size_bytes": moved * UPDATED**2 * problem.dtype.itemsize // 2}, task=BANDWIDTH_TASK)
    update = backend_contender("gpu-rank-update", problem=problem)
    update = dataclasses.replace(update, arguments={**update.arguments, "seed": 1})
    axes = {"m": m, "n": n, "k": 1, "semiring": "plus_times", "dtype": dtype, "routine": routine, **DEVICE}
    return Case({**axes, "role": "update"}, (copy, update))


def _figure(*, on_gpu: bool) -> Figure:
    options = {
        "where": {"device": "gpu" if on_gpu else None, "semiring": "plus_times", "dtype": "float32", "role": None},
        "rows": "size",
        "columns": "contender",
        "x_label": "backend",
        "value": "time_ratio",
        "finding": "fastest",
        "reference_words": f"the {WHOLE_PRODUCT}",
    }
    place = " on the GPU" if on_gpu else ""
    return Figure(f"mv_half{'_gpu' * on_gpu}", "heatmap", f"Half of a matrix{place}", options)


SYRK = ("gpu-tuned", "gpu-tensor-core")
EXPERIMENT = Experiment(
    name="mv_half",
    question="How much of the time of the whole product do symv, syrk and syr take?",
    cases=cases,
    figures=(_figure(on_gpu=False), _figure(on_gpu=True)),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=10, seconds=8, precision=0.02)),
    order=76,
    goals=(
        Goal("gpu-symv", 1.7, WHOLE_PRODUCT, {"routine": "symv", "m": (8192, 16384), "semiring": "plus_times"}),
        Goal("gpu-symv", 1.1, "gpu-cublas-triangle", {"m": (8192, 16384)}),
        *(
            Goal(SYRK, asked, over, {"routine": "syrk", "m": m, "semiring": "plus_times", **DEVICE})
            for m, part in ((4096, 0.57), (8192, 0.55))
            for asked, over in ((1 / part, WHOLE_PRODUCT), (1.0, "gpu-cublas-triangle"))
        ),
        Goal("gpu-rank-update", 0.95, "copy"),
    ),
)
