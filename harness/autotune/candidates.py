"""Candidates of `tune` for cpu-simd: a few values of each parameter, on products for which it matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.machine import Machine
from harness.tuning.cpu import KIB, cache_sizes
from harness.tuning.simd import SimdNumbers

Shape = tuple[int, int, int]

# Register tiles by vector unit, rows x vectors: alternatives that fill its registers. Each costs seconds of compiling.
TILES = {
    "avx512": ((6, 4), (12, 2), (4, 6)),
    "avx2": ((4, 3), (12, 1)),
    "neon": ((6, 4), (4, 6)),
    "portable": ((6, 2), (4, 3)),
}

# Squares: within L2, about its size, and beyond it. 384 is one block of k; nothing else is special about them.
SQUARES = (384, 1000, 1536)

# Numbers that are shown in KiB.
SIZES = ("a_bytes", "all_of_m_bytes", "nc_bytes", "bad_stride_a")


@dataclass(frozen=True)
class Stage:
    """One parameter of the search."""

    name: str
    model: str  # the model's value, for the reader
    candidates: Mapping[str, Mapping[str, int]]  # names and values of numbers, by the label that the reader sees
    shapes: tuple[Shape, ...]  # m, n and k of the products
    threads: int = 1


def stages(model: SimdNumbers, machine: Machine, unit: str, itemsize: int) -> list[Stage]:
    """Return the stages for elements of `itemsize` bytes, those first that most of the others depend on."""
    l2, cores = cache_sizes(machine)[1], machine.cores
    tiles = {f"{mr} x {nv} vectors": {"mr": mr, "nv": nv} for mr, nv in TILES.get(unit, ())}
    kc = [model.kc // 2 // 8 * 8, model.kc * 2 // 3 // 8 * 8, model.kc * 4 // 3 // 8 * 8]
    made = [
        Stage("tile", "the unit's", tiles, _squares(*SQUARES)),
        Stage("kc", str(model.kc), {str(value): {"kc": value} for value in kc}, _squares(*SQUARES)),
        _stage("a_bytes", model, [l2 // 8, l2 * 3 // 8, l2 // 2], _squares(1000, 1536)),
        _stage("all_of_m_bytes", model, [0, l2, 2 * l2], _squares(256, 384, 520, 768)),
        _stage(
            "nc_bytes",
            model,
            [model.nc_bytes // 2, model.nc_bytes * 2 // 3, model.nc_bytes * 2],
            ((512, 4 * model.nc_bytes // itemsize, model.kc), (2048, 2048, model.kc)),
        ),
        _stage("in_place_up_to", model, [0, 64, 128, 192, 256, 320], _squares(48, 96, 160, 224, 288)),
        _stage("bad_stride_a", model, [4 * KIB, 8 * KIB, 32 * KIB], _rows_apart(itemsize)),
    ]
    if cores > 1:
        pairs = [model.pairs_per_thread * 4, model.pairs_per_thread * 2, model.pairs_per_thread // 2]
        made.append(_stage("pairs_per_thread", model, pairs, _squares(80, 112, 144, 176, 208), cores))
    return made


def _stage(name: str, model: SimdNumbers, values: list[int], shapes: tuple[Shape, ...], threads: int = 1) -> Stage:
    """Return the stage of one number, whose candidates are the `values` other than the model's."""
    chosen, is_size = getattr(model, name), name in SIZES
    labels = {value: f"{value / KIB:.0f} KiB" if is_size else str(value) for value in (chosen, *values)}
    candidates = {labels[value]: {name: value} for value in values if value != chosen}
    return Stage(name, labels[chosen], candidates, shapes, threads)


def _squares(*sizes: int) -> tuple[Shape, ...]:
    return tuple((n, n, n) for n in sizes)


def _rows_apart(itemsize: int) -> tuple[Shape, ...]:
    """Return products whose rows of A are multiples of 4, 8 and 16 KiB apart, and of no more."""
    return tuple((512, 512, stride * KIB // itemsize) for stride in (4, 8, 16, 24))
