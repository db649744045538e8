"""Products on a GPU that are thin, flat or deep: which ones, and what was fastest near those that were measured.

Near a product of ``thin_measured.json`` the fastest launch there is taken; elsewhere the candidate of least time
(`tile_model`; its numbers are in `thin_tiles`).
"""

from __future__ import annotations

import functools
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from harness.dtypes import dtype_name
from harness.problem import Problem
from harness.tuning.device import Device
from harness.tuning.gpu.family import Choice
from harness.tuning.gpu.tile_family import TileFamily
from harness.tuning.gpu.tile_model import is_ragged
from harness.tuning.measured import Measured

# The fastest tile, shares, blocks of a cluster and stagger of measured products, by dtype of A and B and sizes. They
# hold for products whose sizes differ by this factor at most, each, and whose rows are aligned alike.
MEASURED, NEAR = Path(__file__).with_name("thin_measured.json"), 1.1
# Bytes of an element of A and B, and of C.
_ITEMSIZES = {"float32": (4, 4), "float64": (8, 8), "bfloat16": (2, 4)}

# Products that are thin, flat or deep: a side of C is at most NARROW, or MIDDLE and the other is so many times as long;
# k is at most SHORT, or so many times as long as the sides of C, which has so few tiles for half of a GPU.
NARROW, MIDDLE, FLAT, SHORT, DEEP, ELEMENTS_OF_FEW = 128, 512, 8, 32, 4, 128 * 128


def is_thin(problem: Problem, device: Device) -> bool:
    """Return whether a product is thin, flat or deep: other rules are for products with many tiles and a long k."""
    if problem.triangle == "d":
        return False
    least, most = sorted((problem.m, problem.n))
    is_narrow = least <= NARROW or (least <= MIDDLE and most >= FLAT * least)
    is_deep = problem.m * problem.n <= device.multiprocessors // 2 * ELEMENTS_OF_FEW and problem.k >= DEEP * most
    return is_narrow or is_deep or problem.k <= SHORT


def measured(problem: Problem, families: Mapping[str, TileFamily], device: Device) -> tuple[str, Choice] | None:
    """Return the family by name, and the choice, that was fastest at the nearest measured product; None: none is near.

    Measured were products of plus_times on an H100 or H200; those of float16 count as bfloat16.
    """
    dtype, sizes = (
        "bfloat16" if problem.is_mixed else dtype_name(problem.input_dtype),
        (problem.m, problem.n, problem.k),
    )
    if not device.is_measured or dtype not in _ITEMSIZES or not all(sizes):
        return None
    table = _fastest().get((dtype, *is_ragged(problem.lines, *_ITEMSIZES[dtype])))
    for _, (*of_tile, shares, together, stagger, cluster) in table.near(_point(sizes)) if table else ():
        for name, family in families.items():
            if tile := family.by_numbers.get(tuple(of_tile)):
                return name, Choice(tile, shares, together, stagger, cluster)
    return None


def _point(sizes: tuple[int, ...]) -> list[float]:
    return [math.log(size) for size in sizes]


@functools.cache
def _fastest() -> dict[tuple[str, bool, bool, bool], Measured[list[int]]]:
    """Return what was measured, by dtype and by which rows are not aligned."""
    groups: dict[tuple[str, bool, bool, bool], list[tuple[list[float], list[int]]]] = defaultdict(list)
    for dtype, by_sizes in json.loads(MEASURED.read_text(encoding="utf-8"))["fastest"].items():
        for text, numbers in by_sizes.items():
            m, n, k = map(int, text.split("x"))
            groups[dtype, *is_ragged((k, n, n), *_ITEMSIZES[dtype])].append((_point((m, n, k)), numbers))
    return {group: Measured(entries, math.log(NEAR)) for group, entries in groups.items()}
