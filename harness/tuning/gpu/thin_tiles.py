"""Tiles of products on a GPU that are thin, flat or deep, with their rates, and the costs beside: data of `thin`.

Fitted to 2,739 launches of 76 shapes on one H200, chained in a graph, operands in L2 where they fit (2026-11-23): the
logarithms of modelled over measured times, those near the fastest of each shape counted most, and then the times of the
choices. `tests/gpu/test_thin_sweep.py` holds the choices against the launches.
"""

from __future__ import annotations

from harness.plan import WARP, Launch
from harness.tuning.gpu.thin import Costs, Kind, Tile


def _tile(sizes: tuple[int, ...], rate: float, warps: float, blocks: int, slices: int = 1) -> Tile:
    return Tile(Launch(*sizes), rate * 1e12, warps, blocks, slices)


# gpu-tuned, elements of 4 bytes, over float32. Narrow tiles along m cost more: each element of A is copied by itself.
SIMT_4 = Kind(
    (
        _tile((8, 128, 16, 8, 128, 4, 8, 4), 14.97, 3.18, 8),
        _tile((16, 256, 16, 16, 64, 4, 8, 3), 17.82, 8.47, 4),
        _tile((32, 128, 16, 32, 32, 8, 4, 3), 23.22, 9.5, 4),
        _tile((32, 32, 32, 16, 32, 4, 4, 3), 13.22, 5.34, 8),
        _tile((128, 16, 16, 64, 16, 8, 4, 3), 9.993, 3.67, 6),
        _tile((128, 32, 16, 32, 32, 8, 4, 3), 15.89, 8.69, 4),
        _tile((128, 64, 16, 64, 32, 8, 8, 2), 19.15, 8.1, 4),
        _tile((64, 64, 16, 32, 32, 8, 4, 3), 21.4, 9.31, 4),
        _tile((64, 128, 16, 32, 64, 8, 8, 2), 25.55, 13, 4),
        _tile((96, 96, 16, 32, 96, 8, 12, 2), 18.85, 6.68, 4),
        _tile((128, 32, 32, 32, 32, 8, 4, 2), 15.71, 6.4, 3),
        _tile((64, 32, 16, 32, 32, 8, 4, 3), 12.14, 6.43, 6),
    ),
    Costs(
        launch_s=2.077e-06,
        wave_s=3.922e-07,
        read=4.164e12,
        write=3.894e12,
        ends=2.509,
        ragged_a=1.272,
        ragged_b=1.126,
        ragged_c=1.979,
        fold_s=2.566e-06,
        fold_byte_s=2.567e-13,
        norm=2.716,
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

# gpu-tensor-core over float64, by mma.sync. Three stages of 64 x 64 leave room for three blocks. 192 and 256 columns:
# of cuBLAS 0.80 to 0.88 at 33 x 20000 x 1000, of which 128 columns leave some multiprocessors two blocks and most one;
# 0.69 to 0.80 at 20 x 40000 x 300, where rows of B are read by 2 KiB.
DOUBLE = Kind(
    (
        _tile((16, 128, 16, 16, 32, 4, 4, 4), 15.99, 7.51, 2),
        _tile((32, 128, 16, 32, 32, 8, 4, 4), 23.93, 4.19, 2),
        _tile((48, 64, 16, 48, 16, 6, 4, 3), 20.4, 4.86, 2),
        _tile((48, 128, 16, 48, 32, 6, 8, 3), 27.73, 5.09, 2),
        _tile((32, 64, 16, 16, 32, 4, 4, 4), 20.47, 4.84, 2),
        _tile((32, 32, 16, 16, 16, 4, 2, 4), 15.84, 6.82, 2),
        _tile((128, 8, 16, 32, 8, 4, 2, 4), 6.071, 3.98, 2),
        _tile((128, 16, 16, 32, 16, 4, 4, 4), 10.24, 7.75, 2),
        _tile((64, 32, 16, 32, 16, 4, 4, 4), 19.53, 6.59, 2),
        _tile((64, 32, 32, 32, 16, 4, 4, 3), 20.71, 6.94, 2),
        _tile((128, 32, 16, 32, 32, 8, 4, 3), 19.12, 7.26, 2),
        _tile((64, 64, 16, 32, 32, 8, 4, 4), 25.3, 4.62, 2),
        _tile((128, 64, 16, 32, 32, 8, 4, 3), 20.39, 7.68, 1),
        _tile((32, 128, 16, 32, 32, 8, 4, 3), 22.46, 4.39, 3),
        _tile((48, 192, 16, 48, 32, 6, 8, 3), 21.15, 4.94, 2),
        _tile((32, 256, 16, 32, 32, 8, 4, 3), 22.13, 6.72, 1),
        _tile((64, 64, 16, 32, 32, 8, 4, 3), 26.42, 4.4, 3),
    ),
    Costs(
        launch_s=1.727e-06,
        wave_s=6.39e-07,
        read=4.933e12,
        write=3.67e12,
        ends=7.558,
        ragged_a=1.079,
        ragged_b=1.048,
        ragged_c=2.487,
        fold_s=1.549e-06,
        fold_byte_s=3.385e-13,
        norm=2.498,
    ),
)
# The same with a tile that the copy engine of Hopper brings, for aligned rows.
DOUBLE_TMA = DOUBLE._replace(tiles=(*DOUBLE.tiles, _tile((128, 128, 16, 32, 64, 8, 8, 6), 31.29, 8.08, 1)))
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
