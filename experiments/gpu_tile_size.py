"""The size of tiles on a GPU: TILE_WIDTH of the classic kernel, and the tiles of the pipelined one.

A course shows the classic kernel untiled and with tiles of 4 to 16, its inner loop unrolled or not. A tile of T x T
takes 2 n^3 / T loads from global memory, where gpu-naive takes 2 n^3.
"""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT, gpu_case, kernel_contender, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine

ROLLED = ", rolled"  # ends the names of contenders whose loop over the steps of a tile stays a loop
WIDTHS = (4, 8, 12, 16, 24, 32)
# bm, bn, wm, wn, tm, tn
TILES = (
    (32, 64, 32, 32, 8, 4),
    (64, 64, 32, 32, 8, 4),
    (64, 128, 32, 64, 8, 8),
    (128, 64, 64, 32, 8, 8),
    (128, 128, 32, 64, 8, 8),
    (128, 256, 64, 64, 16, 8),
)
SIZE = {"smoke": 128, "quick": 2048, "full": 4096}
KINDS = (("plus_times", "float32"), ("min_plus", "float32"))
COLUMNS = {"loads": "loads", "threads": "threads", "bytes": "shared_bytes", "blocks": "blocks"}


def classic() -> list[Contender]:
    """Return the kernel without tiles, and with tiles by their width, the loop over their steps unrolled or not."""
    untiled = kernel_contender("gpu-naive", "untiled", notes={"loads": "all"})
    return [
        untiled,
        *(
            kernel_contender("gpu-tiled", f"{w} x {w}{how}", bm=w, bn=w, bk=w, unroll=unroll, notes={"loads": f"1/{w}"})
            for how, unroll in (("", 1), (ROLLED, 0))
            for w in WIDTHS
        ),
    ]


def tuned() -> list[Contender]:
    """Return the pipelined kernel by its tile, whose loads are those of a square tile with the same sum of 1 / side."""
    names = "bm bn wm wn tm tn".split()
    return [
        kernel_contender(
            SUBJECT,
            f"{t[0]} x {t[1]}",
            notes={"loads": f"1/{2 * t[0] * t[1] / (t[0] + t[1]):.0f}"},
            **{"bk": 16, "stages": 2, "blocks": 1, **dict(zip(names, t, strict=True))},
        )
        for t in TILES
    ]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return for each kind of product a case of each kernel."""
    all_cases = [
        gpu_case(SIZE[preset], *kind, contenders, kernel=kernel)
        for kind in KINDS
        for kernel, contenders in (("classic", classic()), ("pipelined", tuned()))
    ]
    return or_absent(all_cases, machine, kernel="classic")


def _figure(name: str, kernel: str, says: str, finding: str, prominence: int) -> Figure:
    options = {
        "panels": "problem",
        "titles": "panels",
        "peak": False,
        "where": {"kernel": kernel},
        "table": COLUMNS,
        "finding": finding,
    }
    return Figure(name, "bars", f"{says}; loads over those of no tile, and what a block takes", options, prominence)


EXPERIMENT = Experiment(
    name="gpu_tile_size",
    question="How large should tiles be on a GPU?",
    cases=cases,
    figures=(
        _figure("gpu_tile_size", "classic", "gpu-tiled by the width of its tile", "speed", 63),
        _figure("gpu_tile_size_pipelined", "pipelined", f"{SUBJECT} by the tile of a block", "best", 0),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=30, precision=0.01)),
    order=66,
)
