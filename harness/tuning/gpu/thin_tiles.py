"""Tiles of products on a GPU that are thin, flat or deep, with their rates, and the costs beside: data of `thin`.

Fitted to launches of one H200, chained in a graph, operands in L2 where they fit: the least squares of the logarithm of
modelled over measured time, those near the fastest of each shape counted most.
"""

from __future__ import annotations

from harness.plan import WARP, Launch
from harness.tuning.gpu.thin import Costs, Kind, Tile


def _tile(sizes: tuple[int, ...], rate: float, warps: float, blocks: int, slices: int = 1) -> Tile:
    return Tile(Launch(*sizes), rate * 1e12, warps, blocks, slices)


# gpu-tuned, elements of 4 bytes, over float32: 336 launches of 35 shapes (2026-11-23). Narrow tiles along m cost more:
# each element of A is copied by itself.
SIMT_4 = Kind(
    (
        _tile((8, 128, 16, 8, 128, 4, 8, 4), 14.1, 3.9, 8),
        _tile((16, 256, 16, 16, 64, 4, 8, 3), 15.5, 7.9, 4),
        _tile((32, 128, 16, 32, 32, 8, 4, 3), 22.4, 9, 4),
        _tile((32, 32, 32, 16, 32, 4, 4, 3), 12.3, 5.5, 8),
        _tile((128, 16, 16, 64, 16, 8, 4, 3), 10.1, 4, 6),
        _tile((128, 32, 16, 32, 32, 8, 4, 3), 16.2, 5.7, 4),
        _tile((128, 64, 16, 64, 32, 8, 8, 2), 21.5, 8.1, 4),
        _tile((64, 64, 16, 32, 32, 8, 4, 3), 21.1, 8.7, 4),
        _tile((64, 128, 16, 32, 64, 8, 8, 2), 23.8, 9.3, 4),
        _tile((96, 96, 16, 32, 96, 8, 12, 2), 20, 7.2, 4),
    ),
    Costs(
        launch_s=1.72e-06,
        wave_s=5.38e-07,
        read=4.38e12,
        write=2.92e12,
        ends=5.59,
        ragged_a=1.09,
        ragged_b=1,
        ragged_c=1.55,
        fold_s=2.48e-06,
        fold_byte_s=3.1e-13,
        norm=2.55,
    ),
)
# Elements of 8 bytes: 32 sums of a thread leave registers for three blocks.
SIMT_8 = SIMT_4._replace(
    tiles=tuple(
        tile._replace(blocks=min(tile.blocks, 3 if tile.launch.threads > 2 * WARP else 8))
        for tile in SIMT_4.tiles
        if tile.launch.tm * tile.launch.tn <= WARP
    )
)

# gpu-tensor-core over float64, by mma.sync: 393 launches of 32 shapes (2026-11-23).
DOUBLE = Kind(
    (
        _tile((16, 128, 16, 16, 32, 4, 4, 4), 14.4, 7.7, 2),
        _tile((32, 128, 16, 32, 32, 8, 4, 4), 21.8, 4, 2),
        _tile((48, 64, 16, 48, 16, 6, 4, 3), 19.4, 4, 2),
        _tile((48, 128, 16, 48, 32, 6, 8, 3), 23.7, 4.2, 2),
        _tile((32, 64, 16, 16, 32, 4, 4, 4), 17.7, 4, 2),
        _tile((32, 32, 16, 16, 16, 4, 2, 4), 14.8, 7.2, 2),
        _tile((128, 8, 16, 32, 8, 4, 2, 4), 5.87, 4.2, 2),
        _tile((128, 16, 16, 32, 16, 4, 4, 4), 10.4, 7.8, 2),
        _tile((64, 32, 16, 32, 16, 4, 4, 4), 18.5, 6.8, 2),
        _tile((64, 32, 32, 32, 16, 4, 4, 3), 18.3, 6.6, 2),
        _tile((128, 32, 16, 32, 32, 8, 4, 3), 20.7, 7.2, 2),
        _tile((64, 64, 16, 32, 32, 8, 4, 4), 24.3, 4.4, 2),
        _tile((128, 64, 16, 32, 32, 8, 4, 3), 21.9, 8, 1),
    ),
    Costs(
        launch_s=1.61e-06,
        wave_s=5.55e-07,
        read=4.5e12,
        write=2.91e12,
        ends=7.9,
        ragged_a=1,
        ragged_b=1,
        ragged_c=2.11,
        fold_s=2.32e-06,
        fold_byte_s=4.26e-13,
        norm=2.7,
    ),
)
# The same with a tile that the copy engine of Hopper brings.
DOUBLE_TMA = DOUBLE._replace(tiles=(*DOUBLE.tiles, _tile((128, 128, 16, 32, 64, 8, 8, 6), 22.4, 8, 1)))
# float32, of three TF32 products (2026-11-22).
SINGLE = Kind(
    (
        _tile((16, 128, 32, 16, 32, 4, 4, 4), 12, 8, 2),
        _tile((32, 128, 32, 32, 32, 8, 4, 3), 18, 8, 2),
        _tile((128, 16, 32, 32, 16, 4, 4, 4), 10, 8, 2),
        _tile((128, 32, 32, 32, 32, 8, 4, 3), 16, 8, 2),
        _tile((64, 64, 32, 32, 32, 8, 4, 3), 22, 8, 2),
    ),
    Costs(),
)

# 16-bit elements, by wgmma: 44 shapes (2026-11-23). Tiles of 64 rows are two blocks of a multiprocessor.
HALF = Kind(
    (
        _tile((64, 64, 64, 0, 0, 4, 4, 6), 151, 8, 2),
        _tile((64, 128, 64, 0, 0, 4, 8, 4), 200, 8, 2),
        _tile((64, 256, 64, 0, 0, 4, 16, 4), 239, 4, 1),
        _tile((128, 64, 64, 0, 0, 8, 4, 8), 192, 8, 1),
        _tile((128, 128, 64, 0, 0, 8, 8, 6), 292, 8, 1),
        _tile((128, 256, 64, 0, 0, 8, 16, 4), 350, 8, 1),
    ),
    Costs(
        launch_s=1.63e-06,
        wave_s=5.64e-07,
        read=4.3e12,
        write=3.46e12,
        ends=49.2,
        ragged_c=1.57,
        fold_s=2.43e-06,
        fold_byte_s=4.23e-13,
        copy_s=2.55e-06,
        copy_byte_s=7.01e-13,
        norm=2.61,
    ),
)
# The same by mma.sync, in clusters that share k: 361 launches of 40 shapes (2026-11-23).
HALF_MMA = Kind(
    (
        _tile((32, 32, 128, 32, 32, 4, 8, 3), 49.4, 5.6, 3, 4),
        _tile((96, 96, 64, 32, 48, 4, 12, 3), 108, 6.4, 2),
        _tile((256, 32, 16, 64, 32, 8, 8, 3), 52.5, 6, 3),
        _tile((128, 128, 64, 64, 32, 8, 8, 3), 142, 6, 2),
        _tile((32, 128, 32, 32, 32, 4, 8, 6), 95.8, 5.8, 3),
        _tile((256, 16, 32, 32, 16, 4, 4, 3), 31.8, 6, 2),
        _tile((16, 128, 64, 16, 32, 2, 8, 4), 67, 5.7, 2),
        _tile((48, 64, 64, 48, 16, 6, 4, 4), 78, 5.9, 3),
        _tile((128, 8, 64, 32, 8, 4, 2, 4), 24.2, 5.1, 2),
        _tile((96, 96, 32, 32, 48, 4, 12, 3), 95.4, 6.3, 2),
        _tile((128, 32, 32, 32, 32, 4, 8, 4), 71.2, 5.7, 3),
        _tile((48, 128, 64, 48, 32, 6, 8, 3), 113, 5.6, 3),
        _tile((256, 32, 16, 32, 32, 4, 8, 3), 49.7, 6, 2),
        _tile((32, 128, 64, 32, 32, 4, 8, 4), 99.5, 5.8, 2),
    ),
    Costs(
        launch_s=1.75e-06,
        wave_s=5.88e-07,
        read=4.03e12,
        write=3.08e12,
        ends=21.6,
        ragged_a=1.42,
        ragged_b=1.32,
        ragged_c=1.62,
        fold_s=2.39e-06,
        fold_byte_s=4.22e-13,
        cluster_s=4.76e-07,
        norm=2.56,
    ),
    clusters=(1, 2, 4, 8),
)
