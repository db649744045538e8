"""Numbers of tensor cores: tiles, stages, and where padding pays, each with its source.

Rows of `gpu-tensor-core`. Unless a row says otherwise, it was found with prototypes on one H200, 2026-11-20. Ratios are
to cuBLAS at n = 4096, interleaved in one process.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from harness.dtypes import dtype_name, is_float8
from harness.plan import Launch, count_tiles
from harness.problem import Problem
from harness.tuning.device import Device


class TensorCoreNumbers(NamedTuple):
    """Tiles for products of one kind."""

    large: Launch  # if C has enough of them to fill the GPU
    small: Launch  # if it has not
    # From this max(m, n, k) on, operands whose rows are not aligned to 16 bytes are copied to aligned rows. Below it
    # they are read element by element.
    padded_from: int


NEVER = 1 << 31

# By the dtype of A and B.
NUMBERS = {
    "float64": TensorCoreNumbers(
        Launch(bm=128, bn=128, bk=16, wm=64, wn=32, tm=8, tn=8, stages=4),
        Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3),
        NEVER,
    ),
    "float32": TensorCoreNumbers(
        Launch(bm=128, bn=128, bk=32, wm=64, wn=32, tm=8, tn=8, stages=3),
        Launch(bm=64, bn=64, bk=32, wm=32, wn=32, tm=8, tn=4, stages=3),
        1024,
    ),
    "bool": TensorCoreNumbers(
        Launch(bm=128, bn=256, bk=16, wm=64, wn=64, tm=8, tn=16, stages=4),
        Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=4),
        0,
    ),
    "float16": TensorCoreNumbers(
        Launch(bm=128, bn=256, bk=64, tm=8, tn=16, stages=4),
        Launch(bm=128, bn=128, bk=64, tm=8, tn=8, stages=4),
        0,
    ),
}
NUMBERS["bfloat16"] = NUMBERS["float16"]

# Bytes and the digits of integers, which only wgmma multiplies: those of 16 bits, with twice as many steps of k.
_BYTES = TensorCoreNumbers(
    Launch(bm=128, bn=256, bk=128, tm=8, tn=16, stages=4),
    Launch(bm=128, bn=128, bk=128, tm=8, tn=8, stages=6),
    0,
)
# Fewest pairs of elements of so many bytes for which digits pay; below, gpu-tuned is as fast.
DIGITS_FROM = {1: 1 << 25, 2: 1 << 25, 4: 1 << 28, 8: 1 << 27}
INTEGERS = tuple(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
NUMBERS |= dict.fromkeys(INTEGERS, _BYTES)

# float8: sums beside those of the last 128 steps of k, which take as many registers.
FLOAT8_SUMS = ("flushed", "fast")
_FLOAT8 = TensorCoreNumbers(
    Launch(bm=128, bn=128, bk=128, tm=8, tn=8, stages=5),
    Launch(bm=128, bn=64, bk=128, tm=8, tn=8, stages=7),
    0,
)
NUMBERS |= dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), _FLOAT8)

# Most rows, and most columns, beyond whole tiles that idle warps compute beside the tiles of int8 (edge_lines.cuh).
EDGE_LINES = 4

# Steps of k of an instruction in float64, and between two flushes of 3xTF32 by mma.sync.
DEPTH = {"float64": 4, "float32": 8}

# float64 by mma.sync, all tiles whole: instructions of 8 steps, which spill if a tile crosses the edge.
WHOLE_TILES, WHOLE_DEPTH = Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=4), 8

# On Hopper: float64 by tiles that the copy engine brings, float32 by three TF32 products by wgmma, and the tiles from
# which those are faster.
HOPPER_TILES = {
    "float64": Launch(bm=128, bn=128, bk=16, wm=32, wn=64, tm=8, tn=8, stages=6),
    "float32": Launch(bm=128, bn=128, bk=32, tm=8, tn=8, stages=3),
    "bool": Launch(bm=128, bn=256, bk=32, tm=8, tn=16, stages=4),
}
# Tiles of complex128, in complex rows, columns and steps. They may take so many times the rounds of the real tiles, of
# which each is half as much work: the passes that they spare take as long.
COMPLEX_TILES = Launch(bm=128, bn=64, bk=8, wm=64, wn=16, tm=8, tn=4, stages=8)
SPARED = 1.05
HOPPER_FROM = {"float32": 64, "bool": 64}
# Steps of k of an instruction in float64 there.
HOPPER_DEPTH = 16
# Dtypes of A and B, and the instructions, whose kernels read columns as they lie. If so many rows or columns of C use
# an operand, float64 is faster of rows, which a pass makes.
BY_COLUMNS = {
    ("float64", "mma"),
    ("float64", "tma"),
    *((x, unit) for x in ("float16", "bfloat16") for unit in ("wgmma", "panels")),
}
TURNED_FROM = 1024
# Rows and columns of a warp where one of A and B is read by columns: with 32 x 64 registers spill.
WARPS_BY_COLUMNS = {"wm": 64, "wn": 32}

# Fixed sizes of the kernels on tma_tile.cuh, which no plan changes. Rows of a tile: 64 for each of two warpgroups,
# of 16-bit elements also one; and of those tiles as low as C, which are computed transposed.
# Steps of k of a stage, by dtype of A and B: 128 bytes, the widest row that TMA swizzles (PTX ISA); for bools, words.
TILE_ROWS, HALF_ROWS = 128, (64, 128)
FLAT_ROWS, FLAT_COLUMNS = (8, 16, 24, 32, 40, 48, 80, 96), (64, 128, 192, 256)
STAGE_STEPS = {"complex128": 8, "float64": 16, "float32": 32, "float16": 64, "bool": 32, "int8": 128}
# Columns of a tile that they are written for, and rows and columns of a warp in float64: sums must fit the registers.
TILE_COLUMNS = {
    "complex128": (64,),
    "float64": (128,),
    "float32": (128,),
    "float16": (8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256),
    "bool": (128, 256),
    "int8": (128, 256),
    "float8": (64, 112, 128, 192, 256),
}
DOUBLE_WARPS = ((32, 64), (64, 32))

# Passes before wgmma: threads of a block, and blocks enough for any GPU. Rows of A, words and columns of B that a block
# of pack_bits.cu packs, and the columns that it orders together; the side of a tile of split.cu; lines that a block of
# digits.cu reads at once, those of bytes that begin anywhere, and lines of 4 bytes an element and steps of k of its
# tiles. As in those files.
PASS_THREADS, PASS_BLOCKS = 256, 1 << 16
PACKED_ROWS, PACKED_WORDS, PACKED_COLUMNS, PACKED_RUN = 4, 8, 128, 64
SPLIT_SIDE = 32
DIGIT_ROWS, SHIFTED_LINES, DIGIT_LINES, DIGIT_STEPS = 4, 8, 32, 128

# Large tiles of float64 are taken if they keep multiprocessors busy for this part of their waves.
BUSY = 0.7

# Fewest uses of an element, half the harmonic mean of m and n, for which splitting pays.
SPLIT_USES = 256

# Time of a tile with 128 columns over one with 256, and its loss at the ends of rows.
HALF_TILE = 0.57
# Tiles of float8 beside the large one, and the time of each over that one's, at n = 3000 to 8192 (H200, 2026-11-29).
FLOAT8_TILES = {
    Launch(bm=128, bn=112, bk=128, tm=8, tn=8, stages=6): 0.92,
    Launch(bm=128, bn=192, bk=128, tm=8, tn=8, stages=4): 1.6,
}

# Tiles of the kernel for values that TF32 cannot split. It is always launched, and mostly returns at once.
CAREFUL = Launch(bm=32, bn=32)

# Rows of tiles that are walked through column by column: of mma.sync; of wgmma, whose clusters are several of them.
GROUP, GROUPS = 8, 16


def is_aligned(problem: Problem) -> bool:
    """Return whether all lines of A and B as they lie begin at multiples of 16 bytes, if the first ones do."""
    return not any(line * problem.input_dtype.itemsize % 16 for line in problem.lines[:2])


def tensor_core_launch(problem: Problem, device: Device) -> Launch:
    """Choose the large tiles if there is one for each multiprocessor, else the small ones.

    16-bit elements, integers: those that finish sooner. float64: by `is_busy`; WHOLE_TILES where all tiles are whole.
    """
    numbers = NUMBERS[dtype_name(problem.input_dtype)]
    if needs_wgmma(problem):
        times = {numbers.large: 1.0, numbers.small: HALF_TILE}
        times |= FLOAT8_TILES if is_float8(problem.input_dtype) else {}
        return min(times, key=lambda x: times[x] * rounds(problem, x, edge_lines(problem, x, device), device))
    large = count(problem, numbers.large)
    is_double = dtype_name(problem.input_dtype) == "float64"
    if not (is_busy(large, device) if is_double else large >= device.multiprocessors):
        return numbers.small
    whole = WHOLE_TILES
    is_whole = problem.m % whole.bm == problem.n % whole.bn == problem.k % whole.bk == 0
    return whole if is_double and is_whole else numbers.large


def edge_lines(problem: Problem, launch: Launch, device: Device) -> int:
    """Return how many rows and columns beyond whole tiles idle warps compute: some, if that saves a round of tiles."""
    if not problem.is_mixed or problem.input_dtype.itemsize > 1 or problem.triangle:
        return 0
    return EDGE_LINES if rounds(problem, launch, EDGE_LINES, device) < rounds(problem, launch, 0, device) else 0


def rounds(problem: Problem, launch: Launch, lines: int, device: Device) -> int:
    """Return how many tiles the busiest multiprocessor computes, without `lines` at the edges (`without_edges`)."""
    m, n = without_edges(problem.m, problem.n, launch, lines)
    tiles = count_tiles(m, n, launch.bm, launch.bn, triangle=problem.triangle == "d")
    return -(-tiles // device.multiprocessors)


def reads_complex(problem: Problem, real: Problem, device: Device) -> bool:
    """Return whether complex128 is multiplied as it lies, and not as the `real` product of planes."""
    of_planes = rounds(real, HOPPER_TILES["float64"], 0, device)
    return 2 * rounds(problem, COMPLEX_TILES, 0, device) <= SPARED * of_planes


def without_edges(m: int, n: int, launch: Launch, lines: int) -> tuple[int, int]:
    """Return the rows and columns of whole tiles, where there are some and at most `lines` beside them."""
    whole = (
        size - size % side if size > side and size % side <= lines else size
        for size, side in ((m, launch.bm), (n, launch.bn))
    )
    rows, columns = whole
    return rows, columns


def needs_wgmma(problem: Problem) -> bool:
    """Return whether Hopper's instructions alone compute `problem`: of 16-bit floats, and of integers."""
    return problem.is_mixed or problem.input_dtype.kind in "iu"


def count(problem: Problem, tiles: Launch) -> int:
    """Return how many tiles C, or its triangle, consists of."""
    return count_tiles(problem.m, problem.n, tiles.bm, tiles.bn, triangle=problem.triangle == "d")


def depth_of(problem: Problem, launch: Launch) -> int:
    """Choose the steps of k of a float64 instruction, or between two flushes of float32."""
    return WHOLE_DEPTH if launch == WHOLE_TILES else DEPTH[dtype_name(problem.input_dtype)]


def is_busy(tiles: int, device: Device) -> bool:
    """Return whether so many tiles, one a multiprocessor at a time, leave few multiprocessors idle in the last wave."""
    return tiles >= BUSY * device.multiprocessors * -(-tiles // device.multiprocessors)


def brought_tiles(problem: Problem) -> Launch:
    """Return the tiles of float64 that the copy engine brings."""
    launch = HOPPER_TILES["float64"]
    read = read_by_columns(problem, "tma")
    of_a, of_b = (order == "F" and name in read for name, order in zip("ab", problem.layout, strict=False))
    return dataclasses.replace(launch, **WARPS_BY_COLUMNS) if of_a != of_b else launch


def read_by_columns(problem: Problem, unit: str) -> frozenset[str]:
    """Return which of A and B the kernels of floats read by columns as they lie, by these instructions."""
    name = dtype_name(problem.input_dtype)
    if (name, unit) not in BY_COLUMNS:
        return frozenset()
    uses = {
        "tma": {"a": problem.n, "b": problem.m},
        "mma": {"a": 0, "b": min(problem.m, problem.n)},
        "wgmma": {"a": 0, "b": 0},
        "panels": {"a": TURNED_FROM, "b": 0},  # rows of A are brought whole
    }
    return frozenset(x for x in "ab" if uses[unit][x] < TURNED_FROM)


def suits_hopper(problem: Problem, device: Device) -> bool:
    """Return whether a method of Hopper alone is faster: wgmma, whose operands a pass prepares, or the copy engine."""
    m, n, name = problem.m, problem.n, dtype_name(problem.input_dtype)
    launch = HOPPER_TILES[name]
    tiles = count(problem, launch)
    if name == "float64":
        return is_busy(tiles, device)
    return tiles >= HOPPER_FROM[name] and (name == "bool" or m * n >= SPLIT_USES * (m + n))


def pads_rows(problem: Problem) -> bool:
    """Return whether operands with unaligned rows are worth a copy."""
    return max(problem.m, problem.n, problem.k) >= NUMBERS[dtype_name(problem.input_dtype)].padded_from


def cluster_of(problem: Problem) -> int:
    """Choose how many blocks share what they fetch of B; their tiles of C lie one above the other."""
    if not problem.is_mixed or problem.m <= NUMBERS["float16"].large.bm:
        return 1
    rows = (problem.k,) if problem.input_dtype.itemsize == 1 else (2 * problem.n, 2 * problem.k)
    return 2 if any(row % 16 == 0 and row % 128 for row in rows) else 1
