"""Tensor cores for products that are thin, flat or deep: which instructions, tiles and shares of k."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from harness.dtypes import dtype_name
from harness.problem import Problem
from harness.tuning.device import Device
from harness.tuning.gpu import tensor_cores, thin, thin_tiles
from harness.tuning.gpu.family import Choice, Family, Tile, fastest
from harness.tuning.gpu.half_panels import HalfPanels
from harness.tuning.gpu.tile_family import TileFamily

# Kinds of kernels, each with its tiles, for products that are thin, flat or deep, by the dtype of A and B. Those of
# 16-bit elements are by wgmma and by mma.sync.
THIN: dict[str, dict[str, TileFamily]] = {
    "float64": {"mma": thin_tiles.DOUBLE},
    "float32": {"mma": thin_tiles.SINGLE},
    "float16": {"wgmma": thin_tiles.HALF, "mma": thin_tiles.HALF_MMA},
    "bfloat16": {"wgmma": thin_tiles.HALF, "mma": thin_tiles.HALF_MMA},
}


# Columns of a box of 16-bit elements and bytes of its rows, and the shared memory of a block for them (boxes.cuh).
BOX, BOX_BYTES, ROOM = 64, 128, 226 << 10


class ThinChoice(NamedTuple):
    """The instructions, and the fields of a `family.Choice`."""

    unit: str
    tile: Tile
    shares: int
    together: int
    stagger: int
    cluster: int


def thin_choice(problem: Problem, device: Device, *, is_hopper: bool) -> ThinChoice | None:
    """Return the kind of kernel and the tile of a product that is thin, flat or deep; else None.

    Of 16-bit elements also those whose large tiles do not fill a GPU more than once, or that have one stage along k.
    """
    name = dtype_name(problem.input_dtype)
    if name not in THIN or problem.triangle == "d":
        return None
    is_thin = thin.is_thin(problem, device)
    is_small = problem.is_mixed and (
        tensor_cores.count(problem, tensor_cores.NUMBERS[name].large) <= device.multiprocessors
        or problem.k <= tensor_cores.STAGE_STEPS["float16"]
    )
    if not (is_thin or is_small):
        return None
    families = THIN[name]
    if problem.is_mixed and "F" in problem.layout[:2]:  # mma.sync over 16 bits reads rows
        families = {"wgmma": families["wgmma"]}
    if name == "float64" and is_hopper and tensor_cores.is_aligned(problem):
        families = {"mma": thin_tiles.DOUBLE_TMA}
    unit, choice = thin.measured(problem, families, device) or _fastest(problem, families, device)
    return ThinChoice(unit, _with_room(problem, choice.tile), *choice[1:])


def _fastest(problem: Problem, families: Mapping[str, TileFamily], device: Device) -> tuple[str, Choice]:
    of_rows: dict[str, Family] = {"panels": HalfPanels()} if problem.is_mixed else {}
    # wgmma last: where rows are to be copied for it, a launch of the others mostly takes less than the copies
    unit, choice = fastest({**dict(reversed([*families.items()])), **of_rows}, problem, device)
    return unit, families[unit].staggered(problem, choice) if unit in families else choice


def _with_room(problem: Problem, tile: Tile) -> Tile:
    """Return a tile with as many stages as there is room for: an A by columns comes in whole boxes of its rows.

    An A of any strides may lie by columns, with gaps between them.
    """
    if not tile.is_transposed or problem.layout[0] == "C":
        return tile
    rows, launch = -(-tile.launch.bm // BOX) * BOX, tile.launch
    stages = min(launch.stages, ROOM // ((rows + launch.bn) * BOX_BYTES))
    return tile._replace(launch=dataclasses.replace(launch, stages=stages))
