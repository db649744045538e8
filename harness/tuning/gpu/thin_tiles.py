"""Families of tiles for products on a GPU that are thin, flat or deep.

Tiles, rates and costs are in ``thin_tiles.json``: bm, bn, bk, wm, wn, tm, tn, stages, 10^12 pairs a second, warps of a
multiprocessor that reach them, blocks that fit, slices (`family.Tile`). They are fitted to launches chained in a graph,
operands in L2 where they fit: the logarithms of modelled over measured times, those near the fastest of each shape
counted most (docs/lab/2026-11-28-tuning-constants.md). `tests/gpu/test_thin_sweep.py` holds the choices against
launches.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.plan import WARP, Launch
from harness.tuning.gpu.family import Costs, Stagger, Tile
from harness.tuning.gpu.tile_family import TileFamily

_FITTED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def _tile(numbers: list[Any]) -> Tile:
    *sizes, rate, warps, blocks, slices = numbers
    return Tile(Launch(*sizes), rate * 1e12, warps, blocks, slices)


def _family(name: str, **more: Any) -> TileFamily:
    fitted = _FITTED[name]
    return TileFamily(tuple(map(_tile, fitted["tiles"])), Costs(**fitted["costs"]), **more)


# gpu-tuned, elements of 4 bytes, over float32. Narrow tiles along m cost more: each element of A is copied by itself.
SIMT_4 = _family("SIMT_4", least=32, stagger=Stagger(tall=16))
# Elements of 8 bytes: 32 sums of a thread leave registers for three blocks.
SIMT_8 = replace(
    SIMT_4,
    tiles=tuple(
        tile._replace(blocks=min(tile.blocks, 3 if tile.launch.threads > 2 * WARP else 8))
        for tile in SIMT_4.tiles
        if tile.launch.tm * tile.launch.tn <= WARP
    ),
    itemsize=8,
)
# gpu-tensor-core over float64, by mma.sync. Three stages of 64 x 64 leave room for three blocks. Wide tiles are for a
# flat C: few blocks read the same rows of A, and there are at most as many as multiprocessors.
DOUBLE = _family("DOUBLE", stagger=Stagger(flat=16, tall=16), itemsize=8)
# The same with a tile that the copy engine of Hopper brings, for aligned rows.
DOUBLE_TMA = replace(DOUBLE, tiles=(*DOUBLE.tiles, _tile([128, 128, 16, 32, 64, 8, 8, 6, 32.93, 8.08, 1, 1])))
# float32, of three TF32 products.
SINGLE = _family("SINGLE", pad=8)
# 16-bit elements, by wgmma. Tiles of rows that no instruction has, 64 or 128, are computed transposed.
HALF = _family(
    "HALF",
    together=(1, 2, 4, 8),
    clusters=(1, 4),
    least=64,
    is_alone=True,
    stagger=Stagger(tall=4, columns=48),
)
# The same by mma.sync, in clusters that share k.
HALF_MMA = _family("HALF_MMA", together=(1, 2, 4, 8))
