"""Numbers of GPU kernels: tiles, stages and orders, each with its source.

Sizes of tiles are elements. Rows without a source come from a study on one H200 of 2026-11-20 (driver 580, CUDA 13.0).
It timed about 1500 configurations: medians of 7 to 30 samples by events. Among sane tiles the shape matters little (16
of 18 within 8 %). bk = 16 and 32 beat 8, and 16 x 8 a thread gains nothing over floats.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from harness.plan import Launch
from harness.problem import Problem
from harness.tuning.device import Device
from harness.tuning.gpu import row_panels, thin, thin_tiles, warp_panels
from harness.tuning.gpu.family import Choice
from harness.tuning.gpu.sharing import (
    ENDLESS,
    TunedTiles,
    count_of,
    of_ragged_square,
    tiles_and_shares,
    whole,
)

# Largest height and width of a block of threads: 1024 threads.
LARGEST_BLOCK_SIDE = 32

# How tiles that cross the edge of C are handled on the rungs below gpu-tuned, unless the user chooses.
DEFAULT_EDGE = "redirected"

# gpu-tuned copies A and B to whole tiles from this size on: O(n^2) that keeps 16-byte copies. Below it redirects. The
# second: plus_times over float32, if no size is less; the third: if its left-over tiles are shared. Half the harmonic
# mean of m and n, the uses of an element, is at least PADDED_USES.
PADDED_FROM, PADDED_FUSED_FROM, PADDED_SHARED_FROM, PADDED_USES = 4000, 2500, 1780, 800

# gpu-naive: a warp along a row, eight rows. gpu-row: a column of B, in pieces that every thread loads once.
NAIVE = Launch(bm=8, bn=32)
ROW = Launch(bm=128, bn=1, bk=128)

# Tiles of arg-k by bytes of an element. Beside sums, registers hold totals and numbers of tiles, of which 16 bits are
# enough up to MOST_TILES of them; a multiprocessor holds two blocks. min_plus float32 on an H200, 2026-11-28, ms at n =
# 4096 and 8192, where gemm takes 4.4 and 34.5: 8 x 8 elements a thread 6.8 and 47.5, 8 x 4 7.3 and 50.8.
# A search by 256 threads in 64 rows of 32 elements.
ARGK_SEARCHERS, ARGK_SEARCHED_ROWS, ARGK_GROUP, ARGK_BLOCKS, MOST_TILES = 256, 64, 8, 2, (1 << 16) - 1
ARGK_TILES = {
    2: Launch(bm=64, bn=128, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3),  # sums that saturate take registers
    4: Launch(bm=64, bn=128, bk=16, wm=64, wn=32, tm=8, tn=8, stages=3),
    8: Launch(bm=64, bn=32, bk=16, wm=16, wn=32, tm=4, tn=4, stages=3),
}
# Where paths are improved by few tiles of k, those stay in shared memory and are searched there, if there is room.
# Blocks begin and end more often then, and take 8 x 4 elements a thread. So they do beyond MOST_TILES. Paths of 4,096
# vertices with predecessors, ms: 12.1; tiles of 64 x 64 with four blocks 13.2, 8 x 8 elements 13.8.
ARGK_RESIDENT = 4
ARGK_SMALL_TILES = {**ARGK_TILES, 4: ARGK_TILES[2]}

# Pairs from which on a product with a fast form for some values looks at the extremes of A and B first. Below, the form
# that is right for all values computes at once: the scan, and a launch that returns, take longer than the fast form
# saves. By kind of dtype. H200, 2026-11-22, min_plus by gpu-tuned, us of a call at once to scanned:
#   float32   512  21 to 31   640  32 to 37   768  52 to 54   900  93 to 87   1024  101 to 92
#   int32     256  26 to 43   384  38 to 47   512  67 to 44   640  123 to 43
SCANNED_FROM = {"f": 1 << 29, "i": 1 << 26, "u": 1 << 26}

# Side of the small tiles that cover what whole tiles leave over, in the way called big-small.
SMALL_TILE = 16

# Threads along k where elements of A are copied one by one: 8 of them read 32 or 64 bytes of a row. With 4 rows a warp
# meets each bank of shared memory once.
LANES_K = 8

# Rows of C from which a B by columns is turned first, and not copied one by one.
TURNED_FROM = 1024

# Order of products of plus_times over float32 where a thread has four columns, unless its tile is wider than high and
# rows of C are aligned.
ORDER_OF_NARROW, NARROW_COLUMNS, ROW_BYTES = 0, 4, 16

Options = dict[str, int | str]

# Ideas that a rung can leave out, each at the value with which it has them all: options of its plan, whose module says
# what the other values are. experiments/gpu_ablation.py measures what each idea buys.
ALL_IDEAS: dict[str, Options] = {
    "gpu-tiled": {"unroll": 1},
    "gpu-register-tiled": {"places": "once"},
    "gpu-warp-tiled": {"global_load": 16, "shared_load": 16, "tile_a": "transposed"},
    "gpu-pipelined": {"global_load": 16, "shared_load": 16, "fragments": "ahead", "past_end": "guarded"},
}

_MANY_4 = Launch(bm=64, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2)
_FEW_4 = Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3)
_MIDDLE_4 = Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=2)
_MANY_8 = Launch(bm=64, bn=128, bk=16, wm=32, wn=32, tm=8, tn=4, stages=2)
_FEW_8 = Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3)
_TRIANGLE_8 = Launch(bm=64, bn=32, bk=16, wm=16, wn=32, tm=4, tn=4, stages=2)

# Tiles of two-element words that nearly fill a GPU, and the words of k below which their blocks share none.
NEARLY_ALL, LEAST_SHARED = 0.875, 1024

# Steps of k up to which the beginning and the end of a block weigh, where (x) and (+) are no fused operation, and how
# many blocks of the middle tile hide them. min_plus float32 on an H200, 2026-11-28: 90 us for 108 at 4096 x 4096 x 64,
# as long at 128, 3 % more at 512.
SHORT, SHORT_BLOCKS = 96, 5

# By kind of product (`kind_of`): what was fastest among 4 to 9 tiles, 7 orders and 2 to 8 blocks.
TUNED = {
    "4 fused": TunedTiles(_MANY_4, _FEW_4, 4, 2, 4, _MIDDLE_4),
    "4 float": TunedTiles(_MANY_4, _FEW_4, 3, 1, triangle=_MIDDLE_4),
    "4 int": TunedTiles(_MANY_4, _FEW_4, 3, 2, 4, triangle=_MIDDLE_4),
    "8 fused": TunedTiles(dataclasses.replace(_MANY_4, stages=3), _FEW_8, 2, 2, 4),
    "8": TunedTiles(_MANY_8, _FEW_8, 2, 4, 4, triangle=_TRIANGLE_8, triangle_blocks=3),
    "small": TunedTiles(Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2), _FEW_4, 2, 0),
}


def is_scanned(problem: Problem) -> bool:
    """Return whether the extremes of A and B are worth finding, where some values allow a faster form."""
    return problem.pairs >= SCANNED_FROM[problem.dtype.kind]


def tiles_of(rung: str, problem: Problem) -> tuple[Launch, Options]:
    """Return the tiles and options of a tiled rung below gpu-tuned, with all its ideas."""
    tiles, options = _BELOW_TUNED[rung](problem)
    return tiles, {"edge": DEFAULT_EDGE, **options, **ALL_IDEAS[rung]}


def _tiled(problem: Problem) -> tuple[Launch, Options]:
    """Return those of gpu-tiled: as many threads as a block can have."""
    return Launch(bm=32, bn=32, bk=32), {}


def _register_tiles(problem: Problem) -> tuple[Launch, Options]:
    """Return those of gpu-register-tiled: 8 x 8 a thread, or 4 x 8 for 8-byte elements.

    Over float32, of cuBLAS at 4096 (H200, 2026-11-21): 0.65 with three blocks of 128 threads a multiprocessor.
    0.58 with two of 256 (bm = 128, bk = 8), 0.44 with one, when a thread took 179 registers.
    """
    if problem.dtype.itemsize == 8:
        return Launch(bm=64, bn=128, bk=8, tm=4, tn=8), {}
    return Launch(bm=64, bn=128, bk=16, tm=8, tn=8), {}


def _warp_tiles(problem: Problem) -> tuple[Launch, Options]:
    """Return those of gpu-warp-tiled.

    Elements of 8 bytes: two blocks a multiprocessor, for which threads get fewer registers. Time over that without, of
    plus_times and min_plus: 0.65, 0.97 at n = 4096, 0.66, 0.97 at 2048; with three blocks 2.3, 1.23 (H200, 2026-11-23).
    """
    options: Options = {"order": 0, "group": 8, "blocks": 2 if problem.dtype.itemsize == 8 else 0}
    if problem.dtype.itemsize == 8:
        return Launch(bm=64, bn=128, bk=8, wm=32, wn=32, tm=8, tn=4), options
    return Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8), options


def _pipelined_tiles(problem: Problem) -> tuple[Launch, Options]:
    """Return those of gpu-pipelined: those of gpu-warp-tiled with a double buffer."""
    if problem.dtype.itemsize == 8:
        tiles = Launch(bm=64, bn=128, bk=16, wm=32, wn=32, tm=8, tn=4, stages=2)
    else:
        tiles = Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=2)
    return tiles, {"order": 0, "group": 8, "blocks": 2}


_BELOW_TUNED = {
    "gpu-tiled": _tiled,
    "gpu-register-tiled": _register_tiles,
    "gpu-warp-tiled": _warp_tiles,
    "gpu-pipelined": _pipelined_tiles,
}


def tuned_tiles(
    problem: Problem, device: Device, *, can_share: bool = True, by_panels: bool = False
) -> tuple[Launch, Options]:
    """Return the tiles and options of gpu-tuned.

    Parameters
    ----------
    problem : Problem
    device : Device
    can_share : bool
        Whether blocks may share k.
    by_panels : bool
        Whether row panels of A may be chosen.
    """
    kind = kind_of(problem)
    row = TUNED[kind]
    is_short = problem.k <= SHORT < min(problem.m, problem.n)
    if is_short and kind == "4 float" and count_of(problem, _MIDDLE_4) >= device.multiprocessors:
        return _MIDDLE_4, _of_tiles(problem, row, _MIDDLE_4, SHORT_BLOCKS) | whole(device)
    is_fused = row is TUNED["4 fused"]

    def known() -> tuple[str, Choice] | None:
        return thin.measured(problem, {"": thin_tiles.SIMT_4}, device) if is_fused and can_share else None

    # where blocks cannot share k, the model was not fitted
    is_narrow = problem.dtype.itemsize >= 4 and (can_share or min(problem.m, problem.n) <= row.few.bn)
    return (
        (by_panels and _panels(problem, device, known, is_fused=is_fused))
        or (is_narrow and thin.is_thin(problem, device) and _thin_tiles(problem, row, device, known(), can_share))
        or (is_fused and can_share and _ragged_square(problem, row, device))
        or _large_tiles(problem, row, device, can_share=can_share)
    )


def _panels(
    problem: Problem, device: Device, known: Callable[[], object], *, is_fused: bool
) -> tuple[Launch, Options] | None:
    """Return the row panels of a product and their options; None: tiles suit it, as all that are `known` do."""
    if of_rows := row_panels.choose(problem, device):
        launch, panels, blocks, lanes = *of_rows, 0
    elif (of_warps := warp_panels.choose(problem, device, is_fused=is_fused)) and not known():
        launch, panels, blocks, lanes = of_warps.launch, of_warps.warps, 1, of_warps.lanes
    else:
        return None
    of_tiles: Options = {"edge": "redirected", "order": 0, "group": 8, **whole(device), "stagger": 1}  # without effect
    return launch, {**of_tiles, "panels": panels, "lanes": lanes, "blocks": blocks}


def _thin_tiles(
    problem: Problem, row: TunedTiles, device: Device, known: tuple[str, Choice] | None, can_share: bool
) -> tuple[Launch, Options]:
    """Return the tiles and options of a thin, flat or deep product, all of whose tiles are shared alike."""
    family = thin_tiles.SIMT_8 if problem.dtype.itemsize > 4 else thin_tiles.SIMT_4
    choice = known[1] if known else family.choose(problem, device, can_share=can_share)
    launch, shares = choice.tile.launch, choice.shares
    shared = {"shares": shares, "wave": ENDLESS} if shares > 1 else whole(device)
    more = {"stagger": choice.stagger, "panels": 0, "lanes": 0}
    return launch, {**_of_tiles(problem, row, launch, choice.tile.blocks), **shared, **more}


def _ragged_square(problem: Problem, row: TunedTiles, device: Device) -> tuple[Launch, Options] | None:
    """Return the tiles and options that were fastest for a ragged square; None: it is none, or unknown."""
    square = of_ragged_square(problem, device)
    if square is None:
        return None
    tiles, shared = square
    return tiles, _of_tiles(problem, row, tiles, 0) | shared


def _large_tiles(problem: Problem, row: TunedTiles, device: Device, *, can_share: bool) -> tuple[Launch, Options]:
    """Return the tiles and options of a product with many tiles, or whose few tiles blocks share."""
    tiles, shared = tiles_and_shares(problem, row, device, can_share=can_share)
    sizes, is_fused = (problem.m, problem.n, problem.k), row is TUNED["4 fused"]
    fused_from = PADDED_SHARED_FROM if shared["shares"] > 1 else PADDED_FUSED_FROM
    is_padded = max(sizes) >= PADDED_FROM or (is_fused and min(sizes) >= fused_from)
    options = _of_tiles(problem, row, tiles, row.blocks) | shared
    return tiles, options | ({"edge": "padded"} if is_padded and _is_reused(problem) else {})


def _of_tiles(problem: Problem, row: TunedTiles, tiles: Launch, blocks: int) -> Options:
    return {"edge": "redirected", "order": _order(problem, row, tiles), "group": 8, "blocks": blocks}


def _order(problem: Problem, row: TunedTiles, tiles: Launch) -> int:
    """Return the order of the products of a step."""
    is_aligned = problem.n * problem.dtype.itemsize % ROW_BYTES == 0
    is_narrow = tiles.tn == NARROW_COLUMNS and (tiles.bm >= tiles.bn or not is_aligned)
    return ORDER_OF_NARROW if row is TUNED["4 fused"] and is_narrow else row.order


def _is_reused(problem: Problem) -> bool:
    """Return whether elements of A and B are used so often that copies of them pay."""
    return problem.m * problem.n >= PADDED_USES * (problem.m + problem.n)


def paired_tiles(words: Problem, device: Device) -> tuple[Launch, Options]:
    """Return the tiles and options of gpu-paired for a product of words."""
    tiles, options = tuned_tiles(words, device)
    count = count_of(words, tiles)
    if NEARLY_ALL <= count / device.multiprocessors <= 1 and words.k < LEAST_SHARED:
        options["shares"] = 1
    return tiles, options


def kind_of(problem: Problem) -> str:
    """Return the row of `TUNED` for `problem`: by bytes of an element, and by what a pair takes."""
    size, is_float = problem.dtype.itemsize, problem.dtype.kind == "f"
    if size < 4:
        return "small"
    if is_float and problem.semiring.is_ordinary:
        return f"{size} fused"
    return "8" if size == 8 else ("4 float" if is_float else "4 int")
