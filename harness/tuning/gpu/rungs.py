"""Numbers of GPU kernels: tiles, stages and orders, each with its source.

Sizes of tiles are elements. Rows without a source come from a study on one H200 of 2026-11-20 (driver 580, CUDA 13.0).
It timed about 1500 configurations: medians of 7 to 30 samples by events. Among sane tiles the shape matters little (16
of 18 within 8 %). bk = 16 and 32 beat 8, and 16 x 8 a thread gains nothing over floats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.plan import Launch, count_tiles
from harness.problem import Problem
from harness.tuning.gpu import thin, thin_tiles

# Largest height and width of a block of threads: 1024 threads.
LARGEST_BLOCK_SIDE = 32

# How tiles that cross the edge of C are handled on the rungs below gpu-tuned, unless the user chooses.
DEFAULT_EDGE = "redirected"

# gpu-tuned copies A and B to whole tiles from this size on: O(n^2) that keeps 16-byte copies. Below it redirects. Of
# the rate at 4096 over float32, padded to redirected: 0.93 to 0.91 at 4097, 0.92 to 0.85 at 4100; 0.72 to 0.72 at 2049,
# 0.87 to 0.93 at 2047, 0.36 to 0.38 at 1025 (H200, 2026-11-21, experiments/gpu_edges.py). The second: plus_times over
# float32, if no size is less, since blocks share its left-over tiles. Of cuBLAS, padded to redirected: 0.98 to 0.90 at
# 2501, 1.04 to 0.97 at 2750, 1.06 to 1.03 at 3001, 1.03 to 0.97 at 3500, 1.11 to 1.13 at 2250. Redirected, the operands
# of 84 products in 1024 lie in one bank of registers; padded, of 15 (same day).
#
# Half the harmonic mean of m and n, the uses of an element, is at least PADDED_USES: a copy moves 8 bytes of an element
# of float32, 2e-12 s, and saves about 5 % of its pairs, 2e-15 s each. Of cuBLAS, redirected to padded: 300 x 7000 x 500
# 1.08 to 0.83, 31 x 5000 x 5000 1.18 to 0.36 (H200, 2026-11-22).
#
# plus_times over float32 whose left-over tiles are shared is padded from 1780 on: 1.04 to 0.97 at 1797, 1.08 to 1.00 at
# 1893, 1.02 to 0.97 at 2222, 1.07 to 0.98 at 2381; where none are shared 0.90 to 0.94 at 2033 (same day).
PADDED_FROM, PADDED_FUSED_FROM, PADDED_SHARED_FROM, PADDED_USES = 4000, 2500, 1780, 800

# gpu-naive: a warp along a row, eight rows. gpu-tiled: as many threads as a block can have. gpu-row: a column of B, in
# pieces that every thread loads once.
NAIVE = Launch(bm=8, bn=32)
ROW = Launch(bm=128, bn=1, bk=128)
TILED = Launch(bm=32, bn=32, bk=32)

# Tiles of arg-k by bytes of an element. Beside sums, 64 registers hold totals and numbers of tiles, for 32 elements of
# 4 bytes, or 48 for 16 of 8. max_plus on an H200, 2026-11-22: us of the product alone, and with arg-k by tile, at n =
# 1024 and 4096:
#   float32   97, 4503    64x64x16 159, 7940    64x128x16 164, 7803   128x128x16 269, 8225   8, 32 steps: 4 to 26 % more
#   float64  222, 12956   64x32x16 317, 17254   64x64x16 328, 18462   128x64x16 320, 19309
# A search by 256 threads in 64 rows of 32 elements.
ARGK_SEARCHERS, ARGK_SEARCHED_ROWS, ARGK_GROUP, ARGK_BLOCKS = 256, 64, 8, 1
ARGK_TILES = {
    4: Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3),
    8: Launch(bm=64, bn=32, bk=16, wm=16, wn=32, tm=4, tn=4, stages=3),
}

# Pairs from which on a product with a fast form for some values looks at the extremes of A and B first. Below, the form
# that is right for all values computes at once: the scan, and a launch that returns, take longer than the fast form
# saves. By kind of dtype. H200, 2026-11-22, min_plus by gpu-tuned, us of a call at once to scanned:
#   float32   512  21 to 31   640  32 to 37   768  52 to 54   900  93 to 87   1024  101 to 92
#   int32     256  26 to 43   384  38 to 47   512  67 to 44   640  123 to 43
SCANNED_FROM = {"f": 1 << 29, "i": 1 << 26, "u": 1 << 26}

# Pairs from which on products of bools in a batch are launched one after the other; of other kinds the numbers above.
LARGE_BOOLS = 1 << 26

# Side of the small tiles that cover what whole tiles leave over, in the way called big-small.
SMALL_TILE = 16

# Threads along k where elements of A are copied one by one: 8 of them read 32 or 64 bytes of a row. With 4 rows a warp
# meets each bank of shared memory once.
LANES_K = 8

# Fewest blocks for which large tiles pay on an H100 or H200 (132 multiprocessors). With fewer, small tiles are quicker,
# though each element is loaded more often. Rows for which 128 are enough say so (2026-11-21).
FEWEST_BLOCKS = 132

# Tiles that an H100 or H200 computes in one wave, one a multiprocessor. Blocks share the tiles that whole waves leave
# over where `sharing` says so. Its costs are steps of k of a wave (42 ns over float32): fold.cu itself, and each sum of
# a share (4.5 us, 11 ns). WAIT: how long the last blocks wait for each other, in shares. LEAST_GAIN: in waves. H200,
# 2026-11-21, of cuBLAS over float32, shared (by how many) to not:
#   4096, 68 of 132 left over   0.999 and 0.997 (11), 0.997 (5, 7), 0.996 (15) to 0.968
#   8192, 8   1.016 (16), 1.012 (64) to 1.005     5120, 32   1.103 (33) to 1.074     3072, 96   1.121 (11) to 1.086
# with no more tiles than fit at once, the left-over ones shared, or all:
#   1152, 30   0.98 (4), 0.65 (8) to 0.70     1536, 24   1.11 (4), 0.88 (8) to 0.94
#   1280, all   1.07 (3) to 0.90     1792, all   1.06 (2) to 1.15     2048, all   0.89 (2) to 0.95
# and at 4096 of the ceilings of min_plus: int32 0.952 (11) to 0.923, float32 0.986 (11) to 0.957, float64 1.035 (7) to
# 1.008; int32 at 2048, 0.74 (4) to 0.86, where most of a wave is left over and sharing gains nothing.
WAVE = 132
FOLD_STEPS, FOLD_STEPS_EACH, WAIT, LEAST_GAIN = 128, 0.25, 0.25, 0.25

# Most shares of a tile, of which 64 were no better at 8192; and of all tiles: 24 MiB of float32, which stay in L2.
MOST_SHARES, MOST_PARTS = 16, 768

# Threads of a block of fold.cu, which adds up shares of k; elements of a thread, if that leaves so many threads.
# With fewer, up to FOLD_LINES threads add up one element, each of them FOLD_LEAST shares at least.
FOLD_BLOCK, FOLD_EACH, FOLD_THREADS = 256, 4, 1 << 16
FOLD_LINES, FOLD_LEAST = 32, 4

# Fewest steps of k in a share where blocks share k: with large tiles, and with small ones.
# Of cuBLAS over float32, shared to not: 256 x 256 x 65536 0.95 (66 shares), 1024^3 1.02 to 0.98 (4), 768^3 1.08 to 0.79
# (6), 512^3 1.03 to 0.78 (4), 256^3 1.17 to 0.84 (4); 2048^3, of two waves of blocks, loses (H200, 2026-11-21).
LEAST_SHARE, LEAST_SHARE_OF_FEW = 128, 64

# Fused products of so many large tiles, about one to two waves, share all of their tiles. A whole tile alone on its
# multiprocessor hides no latency, and shares beside it wait for it. A ragged C takes small tiles, each by a number of
# blocks from MIDDLE_SHARES; a C of whole small tiles takes large ones, if they are more than a wave. H200, 2026-11-21,
# 25 sizes up to 1450, of cuBLAS over float32, this to sharing only the left-over large tiles:
#   900  0.92 to 0.88   1025  0.94 to 0.84   1060  0.98 to 0.88   1100  0.98 to 0.89   1151  0.93 to 0.84
#   1200  0.92 to 0.87  1300  0.96 to 0.87   1400  0.92 to 0.88   1450  0.93 to 0.70
#   whole: 1152  1.06 to 0.98   1216  0.95 to 0.88   1408  0.98 to 0.94
# Sharing only the left-over tiles is 0 to 2 % better at 1000 to 1023, nearly a full wave, and 2 to 5 % at 1500 to 1800.
# min_plus gains less than 5 %, at most sizes nothing.
# 91 large tiles, 769 to 832: small ones by 3, 1.16 to 0.99 at 776, 1.11 to 0.95 at 818 (H200, 2026-11-22).
MIDDLE = (91, *range(116, 124), *range(WAVE + 1, 281))
MIDDLE_SHARES, MIDDLE_SHARES_OF_LARGE, NOT_SHARED, EACH_SHARE = (1, 2, 3, 4), (2, 3, 4, 5, 6), 0.03, 0.005

# Order of products of plus_times over float32 where a thread has four columns, unless its tile is wider than high and
# rows of C are aligned. Time by it over that by order 2: 802^3 0.98, 1531^3 0.98, 5000 x 333 x 333 0.97, 40000 x 20 x
# 301 0.98; 2500 x 2500 x 31 1.04, 400 x 400 x 8000 1.02, and with eight columns 1001^3 1.02 (H200, 2026-11-24).
ORDER_OF_NARROW, NARROW_COLUMNS, ROW_BYTES = 0, 4, 16

# Tiles of warps for small products of a batch, by their side, by bytes of an element (up to 4, or 8), and by whether a
# pair is one instruction: tile of a warp (bm, bn), tile of a thread (tm, tn), warps of a block. And the depths of such
# tiles. Time of all products, us, best of 7 to 30 tilings; cublasGemmStridedBatchedEx (H200, 2026-11-22, device time):
#   512 x 32^3    float32 plus_times 4.6 (5.1), min_plus 5.1, with 32 x 32 a warp 7.1
#                 float64 plus_times 8.0 (5.5), 32 x 32 by 2 warps 7.5; min_plus 7.8, with 32 x 32 a warp 14.2
#   4096 x 16^3   float32 5.3 (12.8), min_plus 5.3; float64 7.0 (15.6), min_plus 8.4
#   4096 x 8^3    float32 3.5 (15.0), min_plus 3.5
# Of 2, 4, 8 or 16 warps in a block none is more than 5 % ahead.
WARP_TILES = {
    8: {4: (8, 8, 1, 2, 8), 8: (8, 8, 1, 2, 8)},
    16: {4: (16, 16, 2, 4, 8), 8: (16, 16, 4, 2, 8)},
    32: {4: (16, 32, 4, 4, 4), 8: (16, 16, 2, 4, 2)},
}
WARP_TILES_FUSED = {**WARP_TILES, 32: {**WARP_TILES[32], 4: (32, 32, 8, 4, 4)}}
WARP_DEPTHS = {4: (8, 16, 32), 8: (8, 16)}

# cuBLAS is behind gpu-tuned at batches of products up to these sides, with k up to the last number, by bytes of an
# element: 15 to 17 us of its 16 to 20 us a call pass on the host, where gpu-tuned takes 10. On the device see above.
CUBLAS_BEHIND = {4: 32, 8: 16}
CUBLAS_BEHIND_DEPTH = 64

# Bases of gpu-strassen, fastest first, and the smallest half for which one more level pays: by base, bytes of an
# element. Time of 1, 2 and 3 levels over that of the base alone (H200, 2026-11-23, experiments/gpu_strassen.py):
#   n                      4096          4097   6144   8191          8192          12288         16384
#   gpu-cublas float32     0.944, 1.272  1.083  1.027  0.855, 0.818  0.895, 0.849  0.885, 0.896  0.939, 0.841, 0.802
#              float64     1.011, 1.232  0.934  0.998  0.665, 0.669  0.948, 0.952  0.905, 0.877  0.950, 0.822, 0.800
#   gpu-tuned  float32     0.994, 1.181  1.096  0.929  0.901, 0.885  0.910, 0.893  0.903, 0.836
#              float64     0.987, 1.082  1.022  0.924  0.922, 0.887  0.911, 0.872  0.977, 0.857
#   gpu-tensor-core float32  1.277                                   1.051, 1.306                0.957, 0.908, 1.024
#                   float64  1.028                                   0.944, 0.940                0.991, 0.852, 0.809
# Where a half of 2048 gains, it loses one below: 2049 fills another wave.
STRASSEN_BASES = ("gpu-tensor-core", "gpu-cublas", "gpu-tuned")
STRASSEN_CROSSOVER = {
    ("gpu-tensor-core", 4): 8192,
    ("gpu-tensor-core", 8): 4096,
    ("gpu-cublas", 4): 4096,
    ("gpu-cublas", 8): 4096,
    ("gpu-tuned", 4): 3072,
    ("gpu-tuned", 8): 3072,
}
STRASSEN_CROSSOVER_OTHERWISE = 4096

Options = dict[str, int | str]

# Ideas that a rung can leave out, each at the value with which it has them all: options of its plan, whose module says
# what the other values are. experiments/gpu_ablation.py measures what each idea buys.
ALL_IDEAS: dict[str, Options] = {
    "gpu-tiled": {"unroll": 1},
    "gpu-register-tiled": {"places": "once"},
    "gpu-warp-tiled": {"global_load": 16, "shared_load": 16, "tile_a": "transposed"},
    "gpu-pipelined": {"global_load": 16, "shared_load": 16, "fragments": "ahead", "past_end": "guarded"},
}

# Options that share no tile; and a wave so long that all tiles are left over.
WHOLE = {"shares": 1, "wave": WAVE}
ENDLESS = 1 << 30


class _Tuned(NamedTuple):
    """Tiles for products with many blocks and for those with few, and the options of either."""

    many: Launch
    few: Launch
    blocks: int  # that are to fit on a multiprocessor at once
    order: int  # of the products of a step, 0 to 6: see fragments.cuh
    fewest: int = FEWEST_BLOCKS  # blocks from which on there are many
    middle: Launch | None = None  # tiles for ragged products of one to two waves
    middle_blocks: int = 5  # of `middle` that are to fit on a multiprocessor at once


_FEW_4 = Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3)
_MIDDLE_4 = Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=2)
_FEW_8 = Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3)

# Tiles of two-element words that nearly fill a GPU, and the words of k below which their blocks share none. 1024^3 in
# float16 took 0.0542 ms shared and 0.0507 not, int16 0.0717 and 0.0599. 512^3, of 64 tiles, took 0.0160 and 0.0292
# against 0.0284 and 0.0367 in larger tiles (H200, 2026-11-21).
NEARLY_ALL, LEAST_SHARED = 116, 1024

# By kind of product (`_kind`). The study, of cuBLAS or of the ceiling at n = 4096: "4 fused" 0.97, "4 float" 0.83,
# "8 fused" 0.41 (0.92 of what SIMT can), "8" 1.03. Blocks and orders were tried again with the kernels themselves on an
# H200 on 2026-11-21, among 4 to 8 tiles a kind at 1024 and 4096. Then again, at 4096:
#   4 fused  7 orders, groups of 4 to 32 (all alike), 2 to 8 blocks, 2 and 3 stages, 9 tiles: order 2 is 4 % ahead
#   4 float  since sums settle, 0.956 of the ceiling; orders 0 to 4 within 2 %, 16 x 8 a thread 0.78
#   4 int    0.922 with 3 blocks and order 2, with 4 and 0 0.907, 16 x 8 a thread 0.923; two a word 0.896 to 0.887
_TUNED = {
    "4 fused": _Tuned(Launch(bm=64, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2), _FEW_4, 4, 2, 128, _MIDDLE_4),
    "4 float": _Tuned(Launch(bm=64, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2), _FEW_4, 3, 1),
    "4 int": _Tuned(Launch(bm=64, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2), _FEW_4, 3, 2, 128),
    "8 fused": _Tuned(Launch(bm=64, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=3), _FEW_8, 2, 2, 128),
    "8": _Tuned(Launch(bm=64, bn=128, bk=16, wm=32, wn=32, tm=8, tn=4, stages=2), _FEW_8, 2, 4, 128),
    "small": _Tuned(Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2), _FEW_4, 2, 0),
}


def strassen_crossover(base: str, dtype: np.dtype[Any]) -> int:
    """Return the smallest half, in elements, for which Strassen's recursion adds a level over `base` on a GPU."""
    return STRASSEN_CROSSOVER.get((base, dtype.itemsize), STRASSEN_CROSSOVER_OTHERWISE)


def is_scanned(problem: Problem) -> bool:
    """Return whether the extremes of A and B are worth finding, where some values allow a faster form."""
    return problem.pairs >= SCANNED_FROM[problem.dtype.kind]


def is_at_once(problem: Problem) -> bool:
    """Return whether one launch computes a batch of such products; large ones fill a GPU one after the other.

    Those of a kind that has a fast form for some values are large where that form pays.
    """
    return problem.of_one().pairs < SCANNED_FROM.get(problem.dtype.kind, LARGE_BOOLS)


# Fewest rows of a block of gpu-triangle. With fewer a product of a block of rows does not fill a GPU.
TRIANGLE_ROWS = 512

# A matrix by its own transpose: from so many rows and steps of k on one triangle is computed and mirrored. (x) is one
# of these, which commute, and (+) has no form of its own for sums of exponentials.
MIRRORED_FROM, MIRRORED_DEPTH = 768, 64
COMMUTATIVE = frozenset({"plus", "times", "min", "max", "land", "lor", "pair", "absdiff", "sqdiff"})


def is_mirrored(problem: Problem) -> bool:
    """Return whether of `problem` one triangle is computed and mirrored, if B is A transposed."""
    ring = problem.semiring
    is_plain = (
        not (problem.accumulate or problem.triangle or problem.batch or problem.is_mixed) and problem.alpha is None
    )
    is_large = problem.m == problem.n >= MIRRORED_FROM and problem.k >= MIRRORED_DEPTH
    return (
        is_plain
        and is_large
        and not problem.is_mixed
        and ring.multiply.name in COMMUTATIVE
        and ring.add.name != "logaddexp"
    )


def register_tiles(problem: Problem) -> Launch:
    """Return the tiles of gpu-register-tiled: 8 x 8 a thread, or 4 x 8 for 8-byte elements.

    Over float32, of cuBLAS at 4096 (H200, 2026-11-21): 0.65 with three blocks of 128 threads a multiprocessor.
    0.58 with two of 256 (bm = 128, bk = 8), 0.44 with one, when a thread took 179 registers.
    """
    if problem.dtype.itemsize == 8:
        return Launch(bm=64, bn=128, bk=8, tm=4, tn=8)
    return Launch(bm=64, bn=128, bk=16, tm=8, tn=8)


def warp_tiles(problem: Problem) -> tuple[Launch, Options]:
    """Return the tiles and options of gpu-warp-tiled.

    Elements of 8 bytes: two blocks a multiprocessor, for which threads get fewer registers. Time over that without, of
    plus_times and min_plus: 0.65, 0.97 at n = 4096, 0.66, 0.97 at 2048; with three blocks 2.3, 1.23 (H200, 2026-11-23).
    """
    options: Options = {"order": 0, "group": 8, "blocks": 2 if problem.dtype.itemsize == 8 else 0}
    if problem.dtype.itemsize == 8:
        return Launch(bm=64, bn=128, bk=8, wm=32, wn=32, tm=8, tn=4), options
    return Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8), options


def pipelined_tiles(problem: Problem) -> tuple[Launch, Options]:
    """Return the tiles and options of gpu-pipelined: those of gpu-warp-tiled with a double buffer."""
    if problem.dtype.itemsize == 8:
        tiles = Launch(bm=64, bn=128, bk=16, wm=32, wn=32, tm=8, tn=4, stages=2)
    else:
        tiles = Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2)
    return tiles, {"order": 0, "group": 8, "blocks": 2}


def tuned_tiles(problem: Problem, *, can_share: bool = True) -> tuple[Launch, Options]:
    """Return the tiles and options of gpu-tuned; `can_share` allows blocks to share k."""
    row = _TUNED[_kind(problem)]
    # where blocks cannot share k, the model was not fitted
    is_narrow = can_share or min(problem.m, problem.n) <= row.few.bn
    if problem.dtype.itemsize >= 4 and is_narrow and thin.is_thin(problem):
        return _thin_tiles(problem, row, can_share)
    tiles, shared = _tiles_and_shares(problem, row, can_share)
    sizes, is_fused = (problem.m, problem.n, problem.k), row is _TUNED["4 fused"]
    fused_from = PADDED_SHARED_FROM if shared["shares"] > 1 else PADDED_FUSED_FROM
    is_padded = max(sizes) >= PADDED_FROM or (is_fused and min(sizes) >= fused_from)
    edge = "padded" if is_padded and _is_reused(problem) else "redirected"
    return tiles, {"edge": edge, "order": _order(problem, row, tiles), "group": 8, "blocks": row.blocks, **shared}


def _thin_tiles(problem: Problem, row: _Tuned, can_share: bool) -> tuple[Launch, Options]:
    """Return the tiles and options of a thin, flat or deep product, all of whose tiles are shared alike."""
    kind = thin_tiles.SIMT_8 if problem.dtype.itemsize > 4 else thin_tiles.SIMT_4
    known = thin.measured(problem, {"": kind}) if row is _TUNED["4 fused"] and can_share else None
    tile, shares, _, stagger = known[1] if known else thin.choose(problem, kind, can_share=can_share)
    launch, blocks = tile.launch, tile.blocks
    shared = {"shares": shares, "wave": ENDLESS} if shares > 1 else WHOLE
    order = _order(problem, row, launch)
    return launch, {"edge": "redirected", "order": order, "group": 8, "blocks": blocks, **shared, "stagger": stagger}


def _order(problem: Problem, row: _Tuned, tiles: Launch) -> int:
    """Return the order of the products of a step."""
    is_aligned = problem.n * problem.dtype.itemsize % ROW_BYTES == 0
    is_narrow = tiles.tn == NARROW_COLUMNS and (tiles.bm >= tiles.bn or not is_aligned)
    return ORDER_OF_NARROW if row is _TUNED["4 fused"] and is_narrow else row.order


def _is_reused(problem: Problem) -> bool:
    """Return whether elements of A and B are used so often that copies of them pay."""
    return problem.m * problem.n >= PADDED_USES * (problem.m + problem.n)


def batched_tiles(problem: Problem) -> tuple[Launch, Options]:
    """Return the tiles and options of gpu-tuned for a batch: of warps for small products, else unshared tiles."""
    row, size = _TUNED[_kind(problem)], 8 if problem.dtype.itemsize == 8 else 4
    side = next((side for side in WARP_TILES if max(problem.m, problem.n) <= side), 0)
    if side and is_at_once(problem):
        is_fused = problem.dtype.kind == "f" and problem.semiring.is_ordinary
        bm, bn, tm, tn, products = (WARP_TILES_FUSED if is_fused else WARP_TILES)[side][size]
        bk = next((bk for bk in WARP_DEPTHS[size] if problem.k <= bk), WARP_DEPTHS[size][-1])
        tiles = Launch(bm=bm, bn=bn, bk=bk, tm=tm, tn=tn)
        return tiles, {"edge": "redirected", "order": row.order, "group": 1, "blocks": 1, **WHOLE, "products": products}
    if not is_at_once(problem):  # launched one after the other
        return tuned_tiles(problem.of_one())
    is_narrow = min(problem.m, problem.n) <= row.few.bn
    tiles = row.few if is_narrow or problem.products * _count(problem, row.many) < FEWEST_BLOCKS else row.many
    return tiles, {"edge": "redirected", "order": row.order, "group": 8, "blocks": row.blocks, **WHOLE, "products": 0}


def cublas_is_behind(problem: Problem) -> bool:
    """Return whether gpu-tuned is known to be faster than cuBLAS at a batch."""
    is_small = max(problem.m, problem.n) <= CUBLAS_BEHIND.get(problem.dtype.itemsize, 0)
    return bool(problem.batch) and not problem.is_mixed and is_small and problem.k <= CUBLAS_BEHIND_DEPTH


def paired_tiles(words: Problem) -> tuple[Launch, Options]:
    """Return the tiles and options of gpu-paired for a product of words."""
    tiles, options = tuned_tiles(words)
    count = _count(words, tiles)
    if NEARLY_ALL <= count <= FEWEST_BLOCKS and words.k < LEAST_SHARED:
        options["shares"] = 1
    return tiles, options


def _tiles_and_shares(problem: Problem, row: _Tuned, can_share: bool) -> tuple[Launch, dict[str, int]]:
    """Return the tiles, and which of them blocks share: all of them if they alone are too few to fill the GPU."""
    if row.middle is not None and can_share and _count(problem, row.many) in MIDDLE:
        middle = _all_shared(problem, row.many, row.middle)
        if middle is not None:
            tiles, shared = middle
            return tiles, shared | ({"blocks": row.middle_blocks} if tiles is row.middle else {})
    choices = (row.many, row.fewest, LEAST_SHARE), (row.few, 0, LEAST_SHARE_OF_FEW)
    for tiles, fewest, least in choices[problem.n <= row.few.bn :]:
        blocks = _count(problem, tiles)
        if blocks >= (max(fewest, FEWEST_BLOCKS) if can_share else fewest):
            return tiles, sharing(problem, tiles, row.blocks) if can_share else WHOLE
        most = problem.k // least if can_share else 1
        shares = max(1, min(FEWEST_BLOCKS * row.blocks // max(blocks, 1), most))
        if blocks * shares >= fewest:
            break
    return tiles, {"shares": shares, "wave": WAVE}


def _all_shared(problem: Problem, large: Launch, small: Launch) -> tuple[Launch, dict[str, int]] | None:
    """Return tiles for one to two waves and the number of shares of each; None if sharing all of them gains nothing."""
    is_ragged = bool(problem.m % small.bm or problem.n % small.bn)
    tiles, numbers = (small, MIDDLE_SHARES) if is_ragged else (large, MIDDLE_SHARES_OF_LARGE)
    count, most = _count(problem, tiles), max(1, problem.k // LEAST_SHARE)
    if not is_ragged and count <= WAVE:
        return None  # about 960 x 960: as good without

    def waves(shares: int) -> float:
        return -(-count * shares // WAVE) / shares + (EACH_SHARE * shares if shares > 1 else NOT_SHARED)

    return tiles, {"shares": min((x for x in numbers if x <= most), key=waves, default=1), "wave": ENDLESS}


def _count(problem: Problem, tiles: Launch) -> int:
    """Return how many tiles C consists of."""
    return count_tiles(problem.m, problem.n, tiles.bm, tiles.bn, triangle=problem.triangle == "d")


def sharing(problem: Problem, tiles: Launch, blocks: int) -> dict[str, int]:
    """Return how many blocks share each of the tiles that whole waves leave over, and the tiles of a wave.

    The time of a product is counted in waves: a share takes its part of one. If all tiles fit on the GPU at once, a
    second choice shares all of them: its wave is longer than their number.

    Parameters
    ----------
    problem : Problem
    tiles : Launch
    blocks : int
        Blocks that are to fit on a multiprocessor at once.
    """
    count = _count(problem, tiles)
    room, most = WAVE * blocks, min(problem.k // LEAST_SHARE, MOST_SHARES)

    def waves(shares: int, shared: int) -> float:
        fold = FOLD_STEPS + FOLD_STEPS_EACH * shares * shared if shares > 1 else 0
        return (-(-count * shares // WAVE) + WAIT) / shares + fold / problem.k

    choices = [(waves(1, 0) - LEAST_GAIN, WHOLE)]
    for wave in (WAVE, room) if count < room else (WAVE,):
        rest = count % wave
        parts = WAVE if wave == WAVE and count < room else MOST_PARTS
        numbers = range(min(most, parts // rest if rest else 0), 1, -1)
        choices += [(waves(shares, rest), {"shares": shares, "wave": wave}) for shares in numbers]
    return min(choices, key=lambda choice: choice[0])[1]


def _kind(problem: Problem) -> str:
    """Return the row of `_TUNED` for `problem`: by bytes of an element, and by what a pair takes."""
    size, is_float = problem.dtype.itemsize, problem.dtype.kind == "f"
    if size < 4:
        return "small"
    if is_float and problem.semiring.is_ordinary:
        return f"{size} fused"
    return "8" if size == 8 else ("4 float" if is_float else "4 int")
