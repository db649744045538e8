"""One idea of the GPU rungs at a time: the time of a rung without it, over the time of the rung.

Beside each factor stands what a course report says of the idea. They measured products over float64 on older GPUs, one
on top of the other, so that a number depends on what was already there:

    report 1   "transposing B when packing" 2 x; "vectorized computation and warp tiling" +60 %; "double buffering"
               +10 to +15 %; "prefetching" 3 %; "vectorized load/store" 2 %, "should have used double2"
    report 2   "don't use double buffer, it speeds down": shared memory is full, so the tile would have to be halved;
               one % less in each load, "almost 75 %" to "over 75 %"; an if in the kernel "about 40 %"
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from experiments._parts.gpu import DEVICE, gpu_case, kernel_contender, or_absent
from harness.analysis import rates
from harness.analysis.findings import FINDINGS
from harness.analysis.findings.sentences import Finding
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from harness.store.store import Cell

KINDS = (("plus_times", "float32"), ("plus_times", "float64"), ("min_plus", "float32"))
SIZES = {"smoke": (256,), "quick": (4096,), "full": (1000, 2048, 4096, 8192)}

WARPS, PIPELINE, REGISTERS = "gpu-warp-tiled", "gpu-pipelined", "gpu-register-tiled"
SIZES_OF_REMAINDERS = {**SIZES, "quick": (1000,)}  # guards need tiles that stick out
BLOCKS = 2  # of gpu-warp-tiled that must fit on a multiprocessor: else registers would decide, not the idea
# Contenders that leave out at once what the two before them leave out, and what all before them do.
PAIR, NOTHING = "the last two", "all of these"

# By rung, each contender without an idea: its label, options of the rung, and the factor that a course report gives.
LEFT_OUT: dict[str, tuple[tuple[str, dict[str, int | str], str], ...]] = {
    WARPS: (
        ("scalar global loads", {"global_load": 4}, "1.02"),
        ("scalar shared loads", {"shared_load": 4}, "1.02"),
        ("A in rows", {"tile_a": "rows"}, "2"),
        (PAIR, {"shared_load": 4, "tile_a": "rows"}, ""),
        (NOTHING, {"global_load": 4, "shared_load": 4, "tile_a": "rows"}, "1.6"),
        ("A in padded rows", {"tile_a": "padded rows"}, ""),
        ("8-byte shared loads", {"shared_load": 8}, ""),
        ("32-byte shared loads", {"shared_load": 32}, "over 1"),
        ("32-byte global loads", {"global_load": 32}, "over 1"),
    ),
    PIPELINE: (
        ("one stage", {"stages": 1}, "1.1 to 1.15; < 1"),
        ("scalar copies", {"global_load": 4}, "1.02"),
        ("scalar shared loads", {"shared_load": 4}, "1.02"),
        ("fragments in turn", {"fragments": "rolled"}, "1.03"),
        (PAIR, {"shared_load": 4, "fragments": "rolled"}, ""),
        (NOTHING, {"stages": 1, "global_load": 4, "shared_load": 4, "fragments": "rolled"}, ""),
        ("fragments at their step", {"fragments": "at step"}, ""),
        ("end wrapped by %", {"past_end": "wrapped"}, ""),
    ),
    REGISTERS: (
        ("/ and % in each load", {"places": "each load"}, "over 1"),
        ("a guard in each load", {"edge": "conditional"}, "1.9"),
    ),
}

# Tiles and stages: bm, bn, bk, the tile of a warp and of a thread, and blocks that must fit.
SMALL_TILE = {"bm": 64, "bn": 64, "wm": 32, "wn": 32, "tm": 8, "tn": 4, "blocks": 1}
LARGE_TILE = {"bm": 128, "bn": 128, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "blocks": 1}
TILES = {
    "64 x 64 x 16": {**SMALL_TILE, "bk": 16},
    "64 x 64 x 32": {**SMALL_TILE, "bk": 32},  # of report 2
    "128 x 128 x 8": {**LARGE_TILE, "bk": 8},  # of report 1
    "128 x 128 x 16": {**LARGE_TILE, "bk": 16},
}
ONE_DEPTH = ("64 x 64 x 16", "128 x 128 x 16")  # for kinds of product that no report has
STAGES = (1, 2, 3, 4)

# Columns of B that gpu-row keeps in shared memory, and layouts of A, B, C: only from columns are its loads coalesced.
PANELS, LAYOUTS = (1, 4, 16), {"A by rows": "CCC", "A by columns": "FCC"}
SIZE_OF_ROWS = {"smoke": 256, "quick": 2048, "full": 4096}


def switches(rung: str) -> list[Contender]:
    """Return a rung with all of its ideas, and without each."""
    same = {"blocks": BLOCKS} if rung == WARPS else {}
    without = [
        kernel_contender(rung, label, notes={"course": course}, **options, **same)
        for label, options, course in LEFT_OUT[rung]
    ]
    return [kernel_contender(rung, **same), *without]


def stages(tile: str) -> list[Contender]:
    """Return gpu-pipelined by its stages: the first has no buffer to fill while it computes."""
    return [
        kernel_contender(PIPELINE, f"{count} stage{'s' * (count > 1)}", stages=count, **TILES[tile]) for count in STAGES
    ]


def rows() -> list[Contender]:
    """Return the kernel without shared memory, one thread a row by the columns of B that threads share, and tiles."""
    panels = [
        kernel_contender("gpu-row", f"gpu-row, {columns} of B", notes={"loads": f"1/{columns}"}, bn=columns, tn=columns)
        for columns in PANELS
    ]
    return [
        kernel_contender("gpu-naive", notes={"loads": "2"}),
        *panels,
        kernel_contender("gpu-tiled", notes={"loads": "1/16"}),
    ]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return for each kind and size a case of each rung, and one of each tile."""
    return or_absent(list(_cases(preset)), machine, role="switch", rung=WARPS)


def _cases(preset: str) -> Iterator[Case]:
    for semiring, dtype in KINDS[:1] if preset == "smoke" else KINDS:
        for rung in LEFT_OUT:
            for n in (SIZES_OF_REMAINDERS if rung == REGISTERS else SIZES)[preset]:
                yield gpu_case(n, semiring, dtype, switches(rung), role="switch", rung=rung)
        for n in SIZES[preset]:
            for tile in TILES if dtype == "float64" else ONE_DEPTH:
                yield gpu_case(n, semiring, dtype, stages(tile), role="stages", tile=tile)
    n = SIZE_OF_ROWS[preset]
    for a, layout in LAYOUTS.items():
        problem = Problem(n, n, n, SEMIRINGS["plus_times"], np.dtype(np.float32), layout=layout)
        yield product_case(problem, rows(), **DEVICE, role="rows", a=a)


def left_out(cells: list[Cell], options: Json) -> Finding | None:
    """Return the time without ideas over that with all, and by problem what the factors of single ideas multiply to."""
    found, notes = FINDINGS["time"](cells, options), []
    every = [v for own in ([found.values, *found.others.values()] if found else ()) for v in own]
    for problem, own in rates.group(every, lambda value: rates.axis(value.cell, "problem")).items():
        ideas = [value.number.estimate for value in own if value.cell.contender in options["ideas"]]
        notes += [f"{problem}: the factors multiply to {math.prod(ideas):.2f}"] if ideas else []
    return dataclasses.replace(found, note="; ".join(notes)) if found else None


def _switches(name: str, rung: str, n: int) -> Figure:
    labels = [label for label, *_ in LEFT_OUT[rung]]
    options = {
        "panels": "problem",
        "titles": "panels",
        "peak": False,
        "value": "time_ratio",
        "sort": False,
        "where": {"role": "switch", "rung": rung, "n": [256, n]},
        "table": {"course": "course"},
        "finding": left_out,
        "ideas": labels[: labels.index(PAIR)] if PAIR in labels else [],
    }
    return Figure(name, "dots", f"Time over that of {rung}, n = {n}, and what course reports say", options)


def _stages(name: str, semiring: str, dtype: str) -> Figure:
    options = {
        "panels": "tile",
        "titles": "panels",
        "peak": False,
        "where": {"role": "stages", "semiring": semiring, "dtype": dtype, "n": [256, 4096]},
        "table": {"blocks": "blocks", "bytes": "shared_bytes"},
        "finding": "speed",
        "place": "tile",
    }
    says = f"gpu-pipelined, {semiring} {dtype}, n = 4096; blocks of a multiprocessor, shared bytes of each"
    return Figure(name, "bars", says, options)


EXPERIMENT = Experiment(
    name="gpu_ablation",
    question="What does each idea of a GPU kernel buy alone, and when does a double buffer pay?",
    cases=cases,
    figures=(
        _switches("gpu_ablation", WARPS, 4096),
        _switches("gpu_ablation_pipeline", PIPELINE, 4096),
        _switches("gpu_ablation_remainders", REGISTERS, 1000),
        _stages("gpu_stages", "plus_times", "float32"),
        _stages("gpu_stages_float64", "plus_times", "float64"),
        _stages("gpu_stages_min_plus", "min_plus", "float32"),
        Figure(
            "gpu_rows",
            "bars",
            "One thread a row over float32, by columns of B in shared memory; loads from global memory a pair",
            {
                "panels": "a",
                "titles": "panels",
                "peak": False,
                "where": {"role": "rows"},
                "table": {"loads": "loads"},
                "subject": "gpu-row",
                "place": "a",
                "finding": "time",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=2), Budget(rounds=15, seconds=6, processes=3, precision=0.01)),
    order=61,
)
