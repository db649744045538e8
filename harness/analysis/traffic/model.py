"""The rate that its loads allow a rung: from the loops that a cell states and the measured roofs of each memory. Pure.

    rate <= min(peak, operations / bytes from a memory x bandwidth of that memory), over all memories

What passes from a memory is what the one inside it has no room for. Arithmetic and all transfers are taken to overlap
perfectly. The model leaves out latency, instructions that are neither loads nor arithmetic, packing and transposition,
prefetching, the ways of a cache, and what threads or blocks share by chance.

Source: Williams, Waterman and Patterson, "Roofline" (2009); a roof for each memory: Ilic, Pratas and Sousa,
"Cache-aware Roofline Model" (2014).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from harness.analysis import peaks, rates
from harness.analysis.traffic import bounds
from harness.analysis.traffic.loads import (
    LINE_BYTES,
    NOTHING,
    SECTOR_BYTES,
    WAVEFRONT_BYTES,
    Loads,
    Sizes,
    depth_in,
    depth_of,
    loads,
)
from harness.interface.nest import Nest
from harness.store.store import Cell

NEAREST = ("L1", "shared")  # memories whose inner side is registers
MEMORY = "memory"
# What a title calls a memory. On a GPU L1 is a part of shared memory: kernels that fill none load from there.
_IN_WORDS = {"shared": "L1 or shared memory"}


class Level(NamedTuple):
    """A memory: its name, how fast it is read [GB/s], and the bytes that it holds (infinite: main memory)."""

    name: str
    bandwidth: float
    capacity: float

    @property
    def in_words(self) -> str:
        """Its name in a sentence."""
        return _IN_WORDS.get(self.name, self.name)


class RateBound(NamedTuple):
    """What loads allow a product: the rate [G operations/s], and the memory that allows least.

    `intensity` is operations for each byte that passes from that memory; `peak` the rate of arithmetic alone.
    """

    rate: float
    level: Level
    intensity: float
    peak: float

    @property
    def bound(self) -> str:
        """The name of what bounds the rate."""
        return "peak" if self.rate >= self.peak else self.level.name


def levels(cell: Cell, cells: Sequence[Cell]) -> list[Level]:
    """Return the measured memories of the device of `cell`, the nearest first."""
    device = rates.axis(cell, "device")
    found = {
        str(roof.axes.get("level", MEMORY)): roof
        for roof in cells
        if roof.is_ok and roof.axes.get("role") == "bandwidth" and rates.axis(roof, "device") == device
        if roof.threads == cell.threads or device
    }
    measured = [
        Level(name, peaks.roof_rate(roof), float(roof.facts.get("capacity_bytes") or math.inf))
        for name, roof in found.items()
    ]
    return sorted(measured, key=lambda level: (level.name not in NEAREST, level.capacity))


def nest_of(cell: Cell) -> Nest | None:
    """Return the loops that the backend of `cell` stated, or None."""
    record = cell.facts.get("nest")
    return Nest.from_json(record) if record else None


def sizes_of(cell: Cell) -> Sizes:
    """Return the sizes of the product of `cell` by index."""
    return {index: int(rates.axis(cell, name)) for index, name in zip("ijp", "mnk", strict=True)}


def itemsize(cell: Cell) -> int:
    """Return the bytes of an element."""
    dtype = str(rates.axis(cell, "dtype"))
    return 1 if dtype == "bool" else int("".join(filter(str.isdigit, dtype))) // 8


def loads_from(index: int, memories: Sequence[Level], nest: Nest, cell: Cell) -> Loads:
    """Return the bytes that pass from ``memories[index]`` to the memory inside it, or to registers."""
    sizes, size, is_gpu = sizes_of(cell), itemsize(cell), rates.is_on_device(cell)
    if index == 0:
        depth = depth_of(nest, "registers")
        line = WAVEFRONT_BYTES if is_gpu else 0
        return loads(nest, sizes, size, depth or len(nest.loops), line, is_packed=True)
    line, inner = SECTOR_BYTES if is_gpu else LINE_BYTES, memories[index - 1]
    depth = depth_of(nest, inner.name)
    if depth is None:
        depth = depth_in(nest, sizes, size, inner.capacity, line)
    return loads(nest, sizes, size, depth, line) if depth else NOTHING


def bytes_from(cell: Cell, cells: Sequence[Cell]) -> dict[Level, float]:
    """Return the bytes that the loops of `cell` load from each measured memory that they load from at all."""
    nest, memories = nest_of(cell), levels(cell, cells)
    if nest is None:
        return {}
    totals = {level: loads_from(index, memories, nest, cell).total for index, level in enumerate(memories)}
    return {level: total for level, total in totals.items() if total}


def predict(cell: Cell, cells: Sequence[Cell]) -> RateBound | None:
    """Return what its loads allow `cell`; None without its loops, a roof of the nearest memory, or a peak."""
    nest, memories, peak = nest_of(cell), levels(cell, cells), peaks.peak_of(cell, cells)
    if nest is None or peak is None or not cell.is_ok or not memories or memories[0].name not in NEAREST:
        return None
    operations = float(cell.facts["operations"])
    allowed, level, intensity = min(
        (operations / total * level.bandwidth, level, operations / total)
        for level, total in bytes_from(cell, cells).items()
    )
    top = peaks.roof_rate(peak)
    return RateBound(min(allowed, top), level, intensity, top)


def least(cell: Cell, cells: Sequence[Cell]) -> RateBound | None:
    """Return what moving every operand once allows `cell`, from the memory that holds all of them."""
    memories, peak, total = levels(cell, cells), peaks.peak_of(cell, cells), cell.facts.get("bytes_moved")
    if peak is None or not memories or not total or not cell.is_ok:
        return None
    level = next((memory for memory in memories if memory.capacity >= total), memories[-1])
    intensity, top = float(cell.facts["operations"]) / total, peaks.roof_rate(peak)
    return RateBound(min(intensity * level.bandwidth, top), level, intensity, top)


def roof_of(cell: Cell, cells: Sequence[Cell]) -> RateBound | None:
    """Return the roof of `cell`: by its own loads if it states its loops, else by the least."""
    return predict(cell, cells) or least(cell, cells)


def roofs_of(cell: Cell, cells: Sequence[Cell]) -> dict[Level, RateBound]:
    """Return what the loads of `cell` from each memory allow it: the lowest is `roof_of`, without which it is empty."""
    lowest = roof_of(cell, cells)
    if lowest is None:
        return {}
    intensities = {level: float(cell.facts["operations"]) / total for level, total in bytes_from(cell, cells).items()}
    found = {
        level: RateBound(min(intensity * level.bandwidth, lowest.peak), level, intensity, lowest.peak)
        for level, intensity in intensities.items()
    }
    return {**found, lowest.level: lowest}


def over_measured(cell: Cell, cells: Sequence[Cell]) -> float | None:
    """Return the predicted over the measured rate of `cell`, or None without a prediction."""
    allowed = predict(cell, cells)
    return None if allowed is None else allowed.rate / cell.rate


def balance_of(cell: Cell, cells: Sequence[Cell], memory: str, loads_of_a_block: float) -> tuple[float, str] | None:
    """Return the side of a block that machine balance asks for, and the memory that it is balanced with.

    Parameters
    ----------
    cell : Cell
        A product of the machine, semiring and dtype in question.
    cells : sequence of Cell
        Those that hold the roofs.
    memory : str
        What passes the block comes from there; main memory if that memory was not measured.
    loads_of_a_block : float
        See `bounds.balance`.
    """
    memories, peak = levels(cell, cells), peaks.peak_of(cell, cells)
    if not memories or peak is None or not loads_of_a_block:
        return None
    level = next((known for known in memories if known.name == memory), memories[-1])
    side = bounds.balance(peaks.roof_rate(peak), level.bandwidth, itemsize(cell), loads_of_a_block)
    return side, level.name


def is_model(cell: Cell) -> bool:
    """Return whether `cell` has the blocks that its backend chooses by itself, in a sweep of others."""
    return cell.contender.endswith("=model")
