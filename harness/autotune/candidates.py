"""Candidates of `tune` for cpu-simd: a few values of each parameter, on products for which it matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.machine import Machine
from harness.tuning.cpu import KIB, cache_sizes
from harness.tuning.simd import SimdNumbers

Shape = tuple[int, int, int]

# Register tiles by vector unit, rows x vectors: others that fill its registers. Each costs seconds of compiling.
TILES = {
    "avx512": ((6, 4), (12, 2), (4, 6)),
    "avx2": ((4, 3), (12, 1)),
    "neon": ((6, 4), (4, 6)),
    "portable": ((6, 2), (4, 3)),
}

# Squares: within L2, about it, and beyond it; nothing is special about them but that 384 is one block of k.
SQUARES = (384, 1000, 1536)


@dataclass(frozen=True)
class Stage:
    """One parameter.

    Parameters
    ----------
    name : str
    model : str
        The model's value, for the reader.
    candidates : mapping of str to mapping of str to int
        By what the reader sees: fields of `SimdNumbers` and their values.
    shapes : tuple of (m, n, k)
    threads : int
        How many the product may use.
    """

    name: str
    model: str
    candidates: Mapping[str, Mapping[str, int]]
    shapes: tuple[Shape, ...]
    threads: int = 1


def stages(model: SimdNumbers, machine: Machine, unit: str, itemsize: int) -> list[Stage]:
    """Return the stages for elements of `itemsize` bytes, those first that most of the others depend on."""
    l2, cores = cache_sizes(machine)[1], machine.cores
    tiles = {f"{mr} x {nv} vectors": {"mr": mr, "nv": nv} for mr, nv in TILES.get(unit, ())}
    kc = [model.kc // 2 // 8 * 8, model.kc * 2 // 3 // 8 * 8, model.kc * 4 // 3 // 8 * 8]
    found = [
        Stage("tile", "the unit's", tiles, _squares(*SQUARES)),
        Stage("kc", str(model.kc), {str(value): {"kc": value} for value in kc}, _squares(*SQUARES)),
        _bytes("a_bytes", model, [l2 // 8, l2 * 3 // 8, l2 // 2], _squares(1000, 1536)),
        _bytes("all_of_m_bytes", model, [0, l2, 2 * l2], _squares(256, 384, 520, 768)),
        _bytes(
            "nc_bytes",
            model,
            [model.nc_bytes // 2, model.nc_bytes * 2 // 3, model.nc_bytes * 2],
            ((512, 4 * model.nc_bytes // itemsize, model.kc), (2048, 2048, model.kc)),
        ),
        _counts("in_place_up_to", model, [0, 64, 128, 192, 256, 320], _squares(48, 96, 160, 224, 288)),
        _bytes("bad_stride_a", model, [4 * KIB, 8 * KIB, 32 * KIB], _rows_apart(itemsize)),
    ]
    if cores > 1:
        pairs = [model.pairs_per_thread * 4, model.pairs_per_thread * 2, model.pairs_per_thread // 2]
        found.append(_counts("pairs_per_thread", model, pairs, _squares(80, 112, 144, 176, 208), cores))
    return found


def _bytes(name: str, model: SimdNumbers, values: list[int], shapes: tuple[Shape, ...]) -> Stage:
    def shown(value: int) -> str:
        return f"{value / KIB:.0f} KiB"

    own = getattr(model, name)
    return Stage(name, shown(own), {shown(value): {name: value} for value in values if value != own}, shapes)


def _counts(name: str, model: SimdNumbers, values: list[int], shapes: tuple[Shape, ...], threads: int = 1) -> Stage:
    own = getattr(model, name)
    return Stage(name, str(own), {str(value): {name: value} for value in values if value != own}, shapes, threads)


def _squares(*sizes: int) -> tuple[Shape, ...]:
    return tuple((n, n, n) for n in sizes)


def _rows_apart(itemsize: int) -> tuple[Shape, ...]:
    """Return products whose rows of A are multiples of 4, 8 and 16 KiB apart, and of no more."""
    return tuple((512, 512, stride * KIB // itemsize) for stride in (4, 8, 16, 24))
