"""`tune --gpu`: find tiles of gpu-tuned that are better on this GPU than the table's.

The search is that of `harness.autotune.search`. The kernels of a heat are compiled by NVRTC in worker processes, which
need no GPU (`Backend.compile`). Contenders are then proven right, and timed by events. Winners are kept for the
architecture.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar

from harness.autotune.candidates import Stage
from harness.autotune.search import Tuner
from harness.errors import BackendUnavailable
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning import stored as tuning_stored
from harness.tuning.gpu import stored as stored_gpu

BACKEND = "gpu-tuned"

# Tiles of C of a block (bm, bn), a warp (wm, wn) and a thread (tm, tn), for elements of up to 4 bytes and of 8.
TILES = {
    4: (
        (64, 64, 32, 32, 8, 4),
        (64, 128, 32, 64, 8, 8),
        (128, 64, 64, 32, 8, 8),
        (128, 128, 32, 64, 8, 8),
        (128, 128, 64, 64, 16, 8),
        (128, 256, 64, 64, 16, 8),
    ),
    8: (
        (64, 64, 32, 32, 8, 4),
        (64, 128, 32, 32, 8, 4),
        (64, 128, 32, 64, 8, 8),
        (128, 64, 64, 32, 8, 8),
        (128, 128, 32, 32, 8, 4),
    ),
}
DEPTHS, STAGES, ORDERS = (16, 32), (2, 3, 4), range(5)
# Approximate threads that share the registers of a multiprocessor; they decide how many blocks are to fit.
THREADS = (256, 512)

# Squares that are raced: with whole tiles of every kind, and one that has few of them.
SQUARES = (4096, 2048)

_LAUNCH = tuple("bm bn wm wn tm tn".split())


class GpuTuner(Tuner):
    """A tuning of gpu-tuned on the current GPU."""

    products: ClassVar = (
        ("float32", "plus_times"),
        ("float64", "plus_times"),
        ("float32", "min_plus"),
        ("float64", "min_plus"),
        ("int32", "min_plus"),
    )

    def __post_init__(self) -> None:
        self._is_busy = False  # the load of the host does not disturb times of the GPU
        if not self.backend.architecture():
            raise BackendUnavailable(f"{self.backend.name} has no GPU here to be tuned for")

    @property
    def owner(self) -> tuning_stored.Chip:
        """The architecture of the current GPU."""
        return tuning_stored.Chip(self.backend.architecture(), self.machine.gpu)

    def _stages(self, problem: Problem) -> tuple[str, list[Stage]]:
        """Return the kind that `problem` stands for, and its stages."""
        kind = stored_gpu.kind(problem)
        return kind, stages(self._plan(_square(problem, SQUARES[0]), kind, {}, 1))


def stages(plan: Plan) -> list[Stage]:
    """Return the stages for tiles, stages and order other than those of `plan`: tiles first, since others depend."""
    launch, shapes = plan.launch, tuple((n, n, n) for n in SQUARES)
    assert launch is not None
    model = _label({**dataclasses.asdict(launch), **plan.options})
    tiles = {_label(numbers): numbers for numbers in _tiles(8 if plan.problem.dtype.itemsize == 8 else 4)}
    tiles.pop(model, None)
    return [
        Stage("tiles", model, tiles, shapes),
        Stage("stages", str(launch.stages), _others("stages", STAGES, launch.stages), shapes),
        Stage("order", str(plan.options["order"]), _others("order", ORDERS, int(plan.options["order"])), shapes),
    ]


def _tiles(itemsize: int) -> Iterator[dict[str, int]]:
    """Yield the tiles at each depth, with the numbers of blocks that are to fit on a multiprocessor at once."""
    for sizes in TILES[itemsize]:
        numbers = dict(zip(_LAUNCH, sizes, strict=True))
        threads = numbers["bm"] // numbers["tm"] * (numbers["bn"] // numbers["tn"])
        for bk in DEPTHS:
            for blocks in sorted({max(count // threads, 1) for count in THREADS}):
                yield {**numbers, "bk": bk, "blocks": blocks}


def _label(numbers: Mapping[str, int | str]) -> str:
    """Return the label for the reader: ``"64 x 128 x 16 by 32 x 64 by 8 x 8, 4 blocks"``."""
    return "{bm} x {bn} x {bk} by {wm} x {wn} by {tm} x {tn}, {blocks} blocks".format(**numbers)


def _others(name: str, values: range | tuple[int, ...], model: int) -> dict[str, dict[str, int]]:
    return {str(value): {name: value} for value in values if value != model}


def _square(problem: Problem, n: int) -> Problem:
    return dataclasses.replace(problem, m=n, n=n, k=n)
