"""The size of tiles on a GPU: TILE_WIDTH of the classic kernel, and the tiles of the pipelined one."""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT, gpu_case, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender
from harness.machine import Machine

WIDTHS = (8, 16, 32)
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


def contenders() -> list[Contender]:
    """Return the classic kernel by width, then the tuned one by tile."""
    classic = [backend_contender("gpu-tiled", label=f"gpu-tiled {w} x {w}", bm=w, bn=w, bk=w) for w in WIDTHS]
    names = "bm bn wm wn tm tn".split()
    tuned = [
        backend_contender(
            SUBJECT, label=f"{SUBJECT} {t[0]} x {t[1]}", bk=16, stages=2, blocks=1, **dict(zip(names, t, strict=True))
        )
        for t in TILES
    ]
    return classic + tuned


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return one product of each kind."""
    operations = (("plus_times", "float32"), ("min_plus", "float32"))
    return or_absent([gpu_case(SIZE[preset], *operation, contenders()) for operation in operations], machine)


EXPERIMENT = Experiment(
    name="gpu_tile_size",
    question="How large should tiles be on a GPU?",
    cases=cases,
    figures=(
        Figure(
            "gpu_tile_size",
            "bars",
            "Rate by the tile of a block",
            {"panels": "problem", "finding": "best"},
            prominence=63,
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=4),
        "full": Budget(rounds=15, seconds=30, precision=0.01),
    },
    order=66,
)
