"""Tiles of products on a GPU that are thin, flat or deep, with their rates, and the costs beside: data of `thin`.

Fitted to launches on one H200, chained in a graph, operands in L2 where they fit: the logarithms of modelled over
measured times, those near the fastest of each shape counted most. Float64: 4,330 launches of 96 shapes; float32: 1,046
of 64 (2026-11-24); 16-bit elements: 2,739 of 76, and what is said at them. `tests/gpu/test_thin_sweep.py` holds the
choices against launches.
"""

from __future__ import annotations

from harness.plan import WARP, Launch
from harness.tuning.gpu.thin import Costs, Kind, Stagger, Tile


def _tile(sizes: tuple[int, ...], rate: float, warps: float, blocks: int, slices: int = 1) -> Tile:
    return Tile(Launch(*sizes), rate * 1e12, warps, blocks, slices)


# gpu-tuned, elements of 4 bytes, over float32. Narrow tiles along m cost more: each element of A is copied by itself.
SIMT_4 = Kind(
    (
        _tile((8, 128, 16, 8, 128, 4, 8, 4), 13.89, 2.74, 8),
        _tile((16, 256, 16, 16, 64, 4, 8, 3), 19.67, 8.59, 4),
        _tile((32, 128, 16, 32, 32, 8, 4, 3), 21.7, 9.2, 4),
        _tile((32, 32, 32, 16, 32, 4, 4, 3), 12.6, 7.06, 8),
        _tile((128, 16, 16, 64, 16, 8, 4, 3), 9.93, 2.13, 6),
        _tile((128, 32, 16, 32, 32, 8, 4, 3), 15.84, 8.72, 4),
        _tile((128, 64, 16, 64, 32, 8, 8, 2), 22.67, 9.7, 4),
        _tile((64, 64, 16, 32, 32, 8, 4, 3), 20.2, 9.09, 4),
        _tile((64, 128, 16, 32, 64, 8, 8, 2), 24.82, 9.54, 4),
        _tile((96, 96, 16, 32, 96, 8, 12, 2), 21.07, 7.44, 4),
        _tile((128, 32, 32, 32, 32, 8, 4, 2), 14.88, 4, 3),
        _tile((64, 32, 16, 32, 32, 8, 4, 3), 13.72, 6.17, 6),
        _tile((64, 16, 16, 32, 16, 4, 4, 3), 9.984, 2.75, 10),
        _tile((64, 24, 16, 64, 24, 4, 12, 3), 11.32, 3.26, 8),
        _tile((256, 24, 16, 64, 24, 4, 12, 3), 10.93, 2, 4),
        _tile((256, 32, 16, 32, 32, 8, 4, 3), 15.12, 2, 2),
    ),
    Costs(
        launch_s=2.6e-06,
        wave_s=3.975e-07,
        read=5e12,
        write=4.5e12,
        ends=2.604,
        ragged_a=1.124,
        ragged_b=1,
        ragged_c=2.073,
        fold_s=1.602e-06,
        fold_byte_s=3.252e-13,
        norm=1.949,
    ),
    stagger=Stagger(tall=16),
)
# Elements of 8 bytes: 32 sums of a thread leave registers for three blocks.
SIMT_8 = SIMT_4._replace(
    tiles=tuple(
        tile._replace(blocks=min(tile.blocks, 3 if tile.launch.threads > 2 * WARP else 8))
        for tile in SIMT_4.tiles
        if tile.launch.tm * tile.launch.tn <= WARP
    )
)

# gpu-tensor-core over float64, by mma.sync. Three stages of 64 x 64 leave room for three blocks. Wide tiles are for a
# flat C: few blocks read the same rows of A, and there are at most as many as multiprocessors (20 x 40000 x 300 by 320
# columns 0.88 of cuBLAS, by 128 0.75). Those of 64 by 80, 80 by 64 and 96, 112 by 64, 96 by 64 leave less of C empty.
DOUBLE = Kind(
    (
        _tile((16, 128, 16, 16, 32, 4, 4, 4), 18.27, 6.2, 2),
        _tile((32, 128, 16, 32, 32, 8, 4, 4), 23.02, 3.65, 2),
        _tile((48, 64, 16, 48, 16, 6, 4, 3), 22.83, 5.44, 2),
        _tile((48, 128, 16, 48, 32, 6, 8, 3), 26.26, 4.73, 2),
        _tile((32, 64, 16, 16, 32, 4, 4, 4), 20.14, 5.07, 2),
        _tile((32, 32, 16, 16, 16, 4, 2, 4), 14.28, 5.84, 2),
        _tile((128, 8, 16, 32, 8, 4, 2, 4), 6.553, 3.98, 2),
        _tile((128, 16, 16, 32, 16, 4, 4, 4), 11.73, 5.7, 2),
        _tile((64, 32, 16, 32, 16, 4, 4, 4), 19.86, 5.96, 2),
        _tile((64, 32, 32, 32, 16, 4, 4, 3), 19.36, 5.54, 2),
        _tile((128, 32, 16, 32, 32, 8, 4, 3), 22.3, 5.72, 2),
        _tile((64, 64, 16, 32, 32, 8, 4, 4), 24.84, 4.78, 2),
        _tile((128, 64, 16, 32, 32, 8, 4, 3), 25.48, 7.68, 1),
        _tile((32, 128, 16, 32, 32, 8, 4, 3), 22.8, 4.84, 3),
        _tile((48, 192, 16, 48, 32, 6, 8, 3), 21.22, 4.94, 2),
        _tile((32, 256, 16, 32, 32, 8, 4, 3), 23.99, 6.72, 1),
        _tile((64, 64, 16, 32, 32, 8, 4, 3), 24.65, 5.3, 3),
        _tile((32, 320, 16, 32, 40, 4, 10, 4), 23.58, 4, 1),
        _tile((32, 192, 24, 32, 24, 4, 6, 4), 22.38, 4, 1),
        _tile((48, 192, 16, 48, 24, 6, 6, 4), 24.21, 4, 1),
        _tile((48, 256, 16, 48, 32, 6, 8, 3), 24.99, 4, 1),
        _tile((64, 80, 16, 32, 40, 4, 10, 4), 23.26, 5.23, 2),
        _tile((64, 160, 16, 32, 40, 4, 10, 4), 23.19, 4, 1),
        _tile((80, 64, 16, 80, 16, 10, 4, 4), 25.14, 2, 2),
        _tile((80, 96, 16, 80, 24, 10, 6, 3), 26.81, 5.08, 2),
        _tile((96, 64, 16, 48, 32, 6, 8, 4), 26.45, 2, 2),
        _tile((112, 64, 16, 112, 16, 14, 4, 4), 24.3, 2, 2),
        _tile((128, 8, 32, 32, 8, 4, 2, 4), 7.168, 2, 1),
        _tile((128, 24, 16, 32, 24, 4, 6, 4), 15.47, 4.45, 2),
        _tile((128, 40, 16, 32, 40, 4, 10, 3), 22.65, 5.33, 2),
        _tile((256, 16, 16, 32, 16, 4, 4, 4), 12.08, 4, 1),
    ),
    Costs(
        launch_s=2.555e-06,
        wave_s=5.461e-07,
        read=4.117e12,
        write=3.936e12,
        ends=19.06,
        ragged_a=1,
        ragged_b=1.004,
        ragged_c=2.6,
        fold_s=8e-07,
        fold_byte_s=4.821e-13,
        norm=2.012,
    ),
    stagger=Stagger(flat=16, tall=16),
)
# The same with a tile that the copy engine of Hopper brings, for aligned rows.
DOUBLE_TMA = DOUBLE._replace(tiles=(*DOUBLE.tiles, _tile((128, 128, 16, 32, 64, 8, 8, 6), 32.93, 8.08, 1)))
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

# 16-bit elements, by wgmma. Tiles of 64 rows are two blocks of a multiprocessor. Those of fewer rows are computed
# transposed. Their rates, and those of fewer than 64 columns, follow from one number for each length of the other side,
# fitted to 720 launches of 49 shapes; what a cluster takes longer to 1,600 of 117 (H200, 2026-11-24).
HALF = Kind(
    (
        _tile((64, 64, 64, 0, 0, 4, 4, 6), 170.2, 10.9, 2),
        _tile((64, 128, 64, 0, 0, 4, 8, 4), 228.2, 9.45, 2),
        _tile((64, 256, 64, 0, 0, 4, 16, 4), 260.4, 3.99, 1),
        _tile((128, 64, 64, 0, 0, 8, 4, 8), 229.8, 7.92, 1),
        _tile((128, 128, 64, 0, 0, 8, 8, 6), 306.8, 7.95, 1),
        _tile((128, 256, 64, 0, 0, 8, 16, 4), 365.9, 7.27, 1),
        _tile((8, 64, 64, 0, 0, 1, 4, 6), 37.3, 1.03, 2),
        _tile((8, 128, 64, 0, 0, 1, 8, 6), 86.5, 16, 2),
        _tile((16, 64, 64, 0, 0, 1, 4, 6), 74.6, 1.03, 2),
        _tile((16, 128, 64, 0, 0, 1, 8, 6), 173, 16, 2),
        _tile((16, 128, 64, 0, 0, 1, 8, 9), 92.4, 4.24, 1),
        _tile((32, 64, 64, 0, 0, 2, 4, 6), 149, 1.03, 2),
        _tile((32, 128, 64, 0, 0, 2, 8, 5), 346, 16, 2),
        _tile((32, 128, 64, 0, 0, 2, 8, 9), 185, 4.24, 1),
        _tile((48, 64, 64, 0, 0, 3, 4, 6), 224, 1.03, 2),
        _tile((48, 128, 64, 0, 0, 3, 8, 4), 519, 16, 2),
        _tile((48, 128, 64, 0, 0, 3, 8, 9), 277, 4.24, 1),
        _tile((48, 256, 64, 0, 0, 3, 16, 5), 254, 2.48, 1),
        _tile((64, 48, 64, 0, 0, 4, 3, 6), 83.2, 1.24, 2),
        _tile((128, 16, 64, 0, 0, 8, 1, 7), 53.2, 1.95, 1),
        _tile((128, 32, 64, 0, 0, 8, 2, 7), 106, 1.95, 1),
        _tile((128, 48, 64, 0, 0, 8, 3, 7), 160, 1.95, 1),
        _tile((128, 96, 64, 0, 0, 8, 6, 6), 319, 1.95, 1),
    ),
    Costs(
        launch_s=1.676e-06,
        wave_s=6.931e-07,
        read=4.585e12,
        write=3.475e12,
        ends=60.5,
        ragged_c=1.859,
        fold_s=1.835e-06,
        fold_byte_s=3.769e-13,
        cluster_s=7.5e-07,
        copy_s=2.967e-06,
        copy_byte_s=4.711e-13,
        norm=2.623,
    ),
    clusters=(1, 2, 4, 8),
    least=64,
    is_alone=True,
    stagger=Stagger(tall=4, columns=48),
)
# The same by mma.sync, in clusters that share k.
HALF_MMA = Kind(
    (
        _tile((32, 32, 128, 32, 32, 4, 8, 3), 50.92, 5.06, 3, 4),
        _tile((96, 96, 64, 32, 48, 4, 12, 3), 121.7, 6.86, 2),
        _tile((256, 32, 16, 64, 32, 8, 8, 3), 60.49, 5.96, 3),
        _tile((128, 128, 64, 64, 32, 8, 8, 3), 131.9, 6.28, 2),
        _tile((32, 128, 32, 32, 32, 4, 8, 6), 91.52, 5.33, 3),
        _tile((256, 16, 32, 32, 16, 4, 4, 3), 31.76, 5.28, 2),
        _tile((16, 128, 64, 16, 32, 2, 8, 4), 66.72, 8.12, 2),
        _tile((48, 64, 64, 48, 16, 6, 4, 4), 77.01, 3.86, 3),
        _tile((128, 8, 64, 32, 8, 4, 2, 4), 26.21, 4.44, 2),
        _tile((96, 96, 32, 32, 48, 4, 12, 3), 93.02, 7.66, 2),
        _tile((128, 32, 32, 32, 32, 4, 8, 4), 63.39, 5.64, 3),
        _tile((48, 128, 64, 48, 32, 6, 8, 3), 115.6, 5.74, 3),
        _tile((256, 32, 16, 32, 32, 4, 8, 3), 56.57, 6.09, 2),
        _tile((32, 128, 64, 32, 32, 4, 8, 4), 91.91, 4.71, 2),
    ),
    Costs(
        launch_s=2.034e-06,
        wave_s=1.128e-06,
        read=4.761e12,
        write=3.581e12,
        ends=25.38,
        ragged_a=1.369,
        ragged_b=1.275,
        ragged_c=1.679,
        fold_s=2.072e-06,
        fold_byte_s=4.165e-13,
        cluster_s=9.892e-07,
        norm=2.458,
    ),
    clusters=(1, 2, 4, 8),
)
# 16-bit elements, products that are small, not thin: rates of 2026-11-22. Of cuBLAS, by these and by the rates above:
# 256^3 0.89, 0.74; 500^3 1.37, 1.23; 768^3 0.84, 0.75; 1000^3 0.75, 0.71; 1024^3 0.94, 0.86 (2026-11-23).
HALF_SMALL = Kind(
    (
        _tile((64, 64, 64, 0, 0, 4, 4, 6), 150, 12, 2),
        _tile((64, 128, 64, 0, 0, 4, 8, 4), 200, 16, 2),
        _tile((64, 256, 64, 0, 0, 4, 16, 4), 230, 4, 1),
        _tile((128, 64, 64, 0, 0, 8, 4, 8), 187, 8, 1),
        _tile((128, 128, 64, 0, 0, 8, 8, 6), 280, 8, 1),
        _tile((128, 256, 64, 0, 0, 8, 16, 4), 350, 16, 1),
    ),
    Costs(launch_s=0, wave_s=0, read=4.2e12, write=4.2e12, ends=0, ragged_c=1, fold_s=4e-6, fold_byte_s=1e-12, norm=2),
)
